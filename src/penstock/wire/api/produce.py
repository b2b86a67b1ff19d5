"""Produce (key 0): append record batches to partitions.

With acks 0 the broker sends no response at all. Kafka advertises version 0 upwards, because old librdkafka compresses
only then (KAFKA-18659), but accepts 3 and later.

Versions:
- 3: the lowest accepted; transactional id, record batches of magic 2
- 4: KAFKA_STORAGE_ERROR may be answered
- 5: log start offset in the response
- 7: zstd may be used
- 8: the response names the records that were refused, and why (KIP-467)
- 9: flexible
- 10: on NOT_LEADER_OR_FOLLOWER the response tells the leader and its address (KIP-951)
- 11: TRANSACTION_ABORTABLE may be answered (KIP-890)
- 12: a transactional produce also adds the partition to the transaction (KIP-890)
- 13: topic ids instead of names (KIP-516)
"""

from __future__ import annotations

from typing import Any

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, int16, int32, int64, message, nested, records, string, struct, uuid


@struct
class PartitionProduceData(Struct):
    """The batches for one partition."""

    index: int = int32()
    records: Any = records(nullable="0+")


@struct
class TopicProduceData(Struct):
    """The partitions of one topic."""

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message("3-13", flexible="9+")
class ProduceRequest(Struct):
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage(Struct):
    """One record that was refused, by its place in the batch."""

    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


@struct
class LeaderIdAndEpoch(Struct):
    """Who leads the partition now; -1 when that is not known."""

    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


@struct
class PartitionProduceResponse(Struct):
    """Where one partition's batches were written, or why not."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+", ignorable=True)
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch | None = nested(LeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse(Struct):
    """The results of one topic."""

    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct
class NodeEndpoint(Struct):
    """The address of a leader that the response names."""

    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


@message("3-13", flexible="9+")
class ProduceResponse(Struct):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)


API = Api(0, ProduceRequest, ProduceResponse)
