"""OffsetDelete (key 47): forget a group's offsets of partitions that no member is subscribed to (KIP-496).

There is one version.
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, int16, int32, message, string, struct


@struct
class OffsetDeleteRequestPartition(Struct):
    """A partition by number."""

    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message("0")
class OffsetDeleteRequest(Struct):
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition(Struct):
    """What became of one offset."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetDeleteResponseTopic(Struct):
    """The results of one topic."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message("0")
class OffsetDeleteResponse(Struct):
    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)


API = Api(47, OffsetDeleteRequest, OffsetDeleteResponse)
