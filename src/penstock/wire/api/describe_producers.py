"""DescribeProducers (key 61): what partitions remember of their idempotent and transactional producers (KIP-664).

Versions:
- 0: flexible from the start
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, int16, int32, int64, message, string, struct


@struct
class TopicRequest(Struct):
    """The partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(Kind.INT32)


@message("0", flexible="0+")
class DescribeProducersRequest(Struct):
    topics: list[TopicRequest] = array(TopicRequest)


@struct
class ProducerState(Struct):
    """One producer; the transaction's start is -1 when none is open."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@struct
class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


@struct
class TopicResponse(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@message("0", flexible="0+")
class DescribeProducersResponse(Struct):
    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)


API = Api(61, DescribeProducersRequest, DescribeProducersResponse)
