"""OffsetForLeaderEpoch (key 23): where a leader epoch ended in the log, to find where two logs part (KIP-101).

Versions:
- 2: the lowest accepted; the leader epoch that the client knows, throttle time
- 3: replica id
- 4: flexible
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, int16, int32, int64, message, string, struct


@struct
class OffsetForLeaderPartition(Struct):
    """The epoch to look up in one partition."""

    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32()


@struct
class OffsetForLeaderTopic(Struct):
    """The partitions of one topic."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message("2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Struct):
    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@struct
class EpochEndOffset(Struct):
    """The largest epoch not above the one asked for, and its end; -1 when there is none."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


@struct
class OffsetForLeaderTopicResult(Struct):
    """The results of one topic."""

    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@message("2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Struct):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)


API = Api(23, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse)
