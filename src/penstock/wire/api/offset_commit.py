"""OffsetCommit (key 8): remember how far a group has read.

A generation of -1 with an empty member id is a commit from outside: allowed while the group has no members.

Versions:
- 2: the lowest accepted; with a retention time of its own
- 3: throttle time
- 5: no retention time any more, the broker's setting decides
- 6: leader epoch of the last record read (KIP-320)
- 7: static members (KIP-345)
- 8: flexible
- 9: members of consumer groups, whose epoch stands in the place of the generation (KIP-848)
- 10: topics by id
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, int16, int32, int64, message, string, struct, uuid


@struct
class OffsetCommitRequestPartition(Struct):
    """The offset of one partition: the next one to read."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


@struct
class OffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message("2-10", flexible="8+")
class OffsetCommitRequest(Struct):
    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition(Struct):
    """What became of one partition's offset."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetCommitResponseTopic(Struct):
    """The results of one topic."""

    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message("2-10", flexible="8+")
class OffsetCommitResponse(Struct):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)


API = Api(8, OffsetCommitRequest, OffsetCommitResponse)
