"""DescribeTopicPartitions, version 0: topics in the order of their names, a page of partitions at a time (KIP-966).

The page ends after `response_partition_limit` partitions (at most `max.request.partition.size.limit`); the cursor in
the answer says where the next one begins. No topics named means all.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.context import Call, Context
from penstock.broker.handlers.metadata import TOPIC_OPERATIONS, live_leader, why_unknown
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import Image, PartitionImage, TopicImage
from penstock.metadata.records import NO_LEADER
from penstock.wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(context: Context, _call: Call, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    limit = min(request.response_partition_limit, context.config.get_int("max.request.partition.size.limit"))
    if limit <= 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "response_partition_limit must be at least 1")
    names, start = _names(context.image, request)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if limit == 0:
            response.next_cursor = Cursor(name, 0)
            break
        topic = context.image.topics.get(name)
        if topic is None:
            response.topics.append(DescribeTopicPartitionsResponseTopic(why_unknown(name), name))
            continue
        page = topic.partitions[start : start + limit]
        response.topics.append(_topic(context.image, topic, page))
        limit -= len(page)
        if start + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(name, start + len(page))
            break
        start = 0
    return response


def refuse(_call: Call, request: DescribeTopicPartitionsRequest, error: KafkaError) -> DescribeTopicPartitionsResponse:
    """The request made no sense: each topic says so."""
    refused = [DescribeTopicPartitionsResponseTopic(error.code, topic.name) for topic in request.topics]
    return DescribeTopicPartitionsResponse(topics=refused)


def _names(image: Image, request: DescribeTopicPartitionsRequest) -> tuple[list[str], int]:
    """The topics from the cursor on, and the partition to begin with in the first."""
    wanted = {topic.name for topic in request.topics} or set(image.topics)
    cursor = request.cursor
    if cursor is None:
        return sorted(wanted), 0
    if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in wanted):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the cursor points to nothing that is asked for")
    names = sorted(name for name in wanted if name >= cursor.topic_name)
    return names, cursor.partition_index if names and names[0] == cursor.topic_name else 0


def _topic(image: Image, topic: TopicImage, page: Sequence[PartitionImage]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        0,
        topic.name,
        topic.topic_id,
        topic.is_internal,
        [_partition(image, partition) for partition in page],
        TOPIC_OPERATIONS,
    )


def _partition(image: Image, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    leader = live_leader(image, partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else 0,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=list(image.offline_replicas(partition)),
    )
