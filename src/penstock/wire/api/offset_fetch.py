"""OffsetFetch (key 9): how far groups have read. A partition without a committed offset has offset -1 and no error.

Null topics means all that the group has committed.

Versions:
- 1: the lowest accepted
- 2: all topics by null; a top-level error
- 3: throttle time
- 5: leader epoch (KIP-320)
- 6: flexible
- 7: the client may wait for open transactions: UNSTABLE_OFFSET_COMMIT (KIP-447)
- 8: many groups in one request (KIP-709)
- 9: member id and epoch of consumer groups, checked when given (KIP-848)
- 10: topics by id
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, boolean, int16, int32, int64, message, string, struct, uuid


@struct
class OffsetFetchRequestTopic(Struct):
    """The partitions of one topic, of one group."""

    name: str = string("0-7")
    partition_indexes: list[int] = array(Kind.INT32, "0-7")


@struct
class OffsetFetchRequestTopics(Struct):
    """The partitions of one topic."""

    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partition_indexes: list[int] = array(Kind.INT32, "8+")


@struct
class OffsetFetchRequestGroup(Struct):
    """What is asked of one group."""

    group_id: str = string("8+")
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+")


@message("1-10", flexible="6+")
class OffsetFetchRequest(Struct):
    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


@struct
class OffsetFetchResponsePartition(Struct):
    """A committed offset."""

    partition_index: int = int32("0-7")
    committed_offset: int = int64("0-7")
    committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
    metadata: str | None = string("0-7", nullable="0-7")
    error_code: int = int16("0-7")


@struct
class OffsetFetchResponseTopic(Struct):
    """The offsets of one topic, of one group."""

    name: str = string("0-7")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")


@struct
class OffsetFetchResponsePartitions(Struct):
    """A committed offset."""

    partition_index: int = int32("8+")
    committed_offset: int = int64("8+")
    committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
    metadata: str | None = string("8+", nullable="8+")
    error_code: int = int16("8+")


@struct
class OffsetFetchResponseTopics(Struct):
    """The offsets of one topic."""

    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+")


@struct
class OffsetFetchResponseGroup(Struct):
    """The offsets of one group."""

    group_id: str = string("8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
    error_code: int = int16("8+")


@message("1-10", flexible="6+")
class OffsetFetchResponse(Struct):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")


API = Api(9, OffsetFetchRequest, OffsetFetchResponse)
