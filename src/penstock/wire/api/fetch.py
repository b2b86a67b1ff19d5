"""Fetch (key 1): read record batches, by consumers and by followers.

The response holds whole batches; the last of a partition may be cut short. A session (KIP-227) lets a client name
only the partitions that changed since its previous request.

Versions:
- 4: the lowest accepted; isolation level, last stable offset, aborted transactions
- 5: log start offset
- 7: fetch sessions: session id and epoch, forgotten topics, a top-level error
- 9: the leader epoch that the client knows (KIP-320)
- 10: zstd batches may be answered
- 11: rack of the client, preferred read replica (KIP-392)
- 12: flexible; last fetched epoch, answered with a diverging epoch (KIP-595)
- 13: topic ids instead of names (KIP-516)
- 14: OFFSET_MOVED_TO_TIERED_STORAGE may be answered (KIP-405)
- 15: replica id moves into the replica state, beside the replica's epoch (KIP-903)
- 16: addresses of the leaders that the response names (KIP-951)
- 17: directory id of a follower (KIP-853)
- 18: the high watermark that a follower knows (KIP-1166)
"""

from __future__ import annotations

from typing import Any

from penstock.wire.api import Api
from penstock.wire.schema import (
    Kind,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    nested,
    records,
    string,
    struct,
    uuid,
)


@struct
class ReplicaState(Struct):
    """A follower's id and broker epoch; -1 for a consumer."""

    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


@struct
class FetchPartition(Struct):
    """Where to read in one partition, and how much."""

    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0, ignorable=True)
    high_watermark: int = int64("18+", tag=1, default=2**63 - 1, ignorable=True)


@struct
class FetchTopic(Struct):
    """The partitions of one topic."""

    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic(Struct):
    """Partitions to drop from the session."""

    topic: str = string("7-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[int] = array(Kind.INT32, "7+")


@message("4-18", flexible="12+")
class FetchRequest(Struct):
    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None, ignorable=True)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState | None = nested(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=2**31 - 1, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


@struct
class EpochEndOffset(Struct):
    """The largest epoch that both logs have, and where it ends in the leader's."""

    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


@struct
class LeaderIdAndEpoch(Struct):
    """Who leads the partition now; -1 when that is not known."""

    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


@struct
class SnapshotId(Struct):
    """The snapshot to load first; only on the metadata log."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction(Struct):
    """A producer whose records from this offset on are to be skipped, up to its abort marker."""

    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


@struct
class PartitionData(Struct):
    """What one partition answers."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = nested(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = nested(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Any = records(nullable="0+")


@struct
class FetchableTopicResponse(Struct):
    """What the partitions of one topic answer."""

    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint(Struct):
    """The address of a leader that the response names."""

    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)


@message("4-18", flexible="12+")
class FetchResponse(Struct):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)


API = Api(1, FetchRequest, FetchResponse)
