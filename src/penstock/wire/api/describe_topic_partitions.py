"""DescribeTopicPartitions (key 75): partitions of topics, page by page (KIP-966).

A response that reaches the limit ends with a cursor; the next request starts there.

Versions:
- 0: flexible from the start
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, boolean, int16, int32, message, nested, string, struct, uuid


@struct
class TopicRequest(Struct):
    """A topic by name."""

    name: str = string()


@struct
class Cursor(Struct):
    """The first partition of the next page."""

    topic_name: str = string()
    partition_index: int = int32()


@message("0", flexible="0+")
class DescribeTopicPartitionsRequest(Struct):
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = nested(Cursor, nullable="0+")


@struct
class DescribeTopicPartitionsResponsePartition(Struct):
    """A partition, its leader and its replicas."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: list[int] = array(Kind.INT32)
    isr_nodes: list[int] = array(Kind.INT32)
    eligible_leader_replicas: list[int] | None = array(Kind.INT32, nullable="0+", default=None)
    last_known_elr: list[int] | None = array(Kind.INT32, nullable="0+", default=None)
    offline_replicas: list[int] = array(Kind.INT32, ignorable=True)


@struct
class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic with its partitions, or why it has none."""

    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid(ignorable=True)
    is_internal: bool = boolean(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32(default=-(2**31))


@message("0", flexible="0+")
class DescribeTopicPartitionsResponse(Struct):
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = nested(Cursor, nullable="0+")


API = Api(75, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse)
