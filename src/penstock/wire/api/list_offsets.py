"""ListOffsets (key 2): the offset of a partition's start or end, or of the first record at or after a time.

The timestamp is a time or one of a few negative codes: -1 the end, -2 the start, -3 the record with the largest
timestamp, -4 the start of what is local, -5 the last offset in tiered storage, -6 the first offset not yet uploaded.

Versions:
- 1: the lowest accepted; one offset per partition, with its timestamp
- 2: isolation level
- 4: leader epochs, the client's for fencing and the record's (KIP-320)
- 5: OFFSET_NOT_AVAILABLE may be answered
- 6: flexible
- 7: code -3 (KIP-734)
- 8: code -4 (KIP-405)
- 9: code -5 (KIP-1005)
- 10: timeout for reads from tiered storage (KIP-1075)
- 11: code -6 (KIP-1023)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, int8, int16, int32, int64, message, string, struct


@struct
class ListOffsetsPartition(Struct):
    """What to look up in one partition."""

    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()


@struct
class ListOffsetsTopic(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message("1-11", flexible="6+")
class ListOffsetsRequest(Struct):
    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", ignorable=True)


@struct
class ListOffsetsPartitionResponse(Struct):
    """What was found; offset -1 when no record is that late."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


@struct
class ListOffsetsTopicResponse(Struct):
    """The results of one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message("1-11", flexible="6+")
class ListOffsetsResponse(Struct):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)


API = Api(2, ListOffsetsRequest, ListOffsetsResponse)
