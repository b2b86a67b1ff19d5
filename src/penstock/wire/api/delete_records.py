"""DeleteRecords (key 21): move the start of partitions up to an offset; what is below it is gone.

Versions:
- 1: same bytes; throttled clients are answered first
- 2: flexible
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, int16, int32, int64, message, string, struct


@struct
class DeleteRecordsPartition(Struct):
    """The new start of one partition; -1 for its high watermark."""

    partition_index: int = int32()
    offset: int = int64()


@struct
class DeleteRecordsTopic(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message("0-2", flexible="2+")
class DeleteRecordsRequest(Struct):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@struct
class DeleteRecordsPartitionResult(Struct):
    """The start of the partition now."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@struct
class DeleteRecordsTopicResult(Struct):
    """The results of one topic."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message("0-2", flexible="2+")
class DeleteRecordsResponse(Struct):
    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)


API = Api(21, DeleteRecordsRequest, DeleteRecordsResponse)
