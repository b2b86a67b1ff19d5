"""CreatePartitions (key 37): raise the number of partitions of topics.

Versions:
- 1: same bytes; throttled clients are answered first
- 2: flexible
- 3: THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, boolean, int16, int32, message, string, struct


@struct
class CreatePartitionsAssignment(Struct):
    """The brokers of one new partition, the preferred leader first."""

    broker_ids: list[int] = array(Kind.INT32)


@struct
class CreatePartitionsTopic(Struct):
    """The new number of partitions; null assignments leaves their place to the broker."""

    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable="0+")


@message("0-3", flexible="2+")
class CreatePartitionsRequest(Struct):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@struct
class CreatePartitionsTopicResult(Struct):
    """What became of one topic."""

    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@message("0-3", flexible="2+")
class CreatePartitionsResponse(Struct):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)


API = Api(37, CreatePartitionsRequest, CreatePartitionsResponse)
