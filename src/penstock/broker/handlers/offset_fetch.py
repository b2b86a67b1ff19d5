"""OffsetFetch, versions 1 to 10: how far groups have read, for many groups at once from version 8 on.

What was never committed has offset -1 and no error, whether or not the group, topic or partition exists; only a topic
id must be known. An offset of a deleted topic is not an offset of a new one with its name. A member of a consumer group
gives its epoch, which must be its present one; for a classic group that means nothing. With `require_stable` a
partition with an offset of an open transaction is UNSTABLE_OFFSET_COMMIT: ask again (KIP-447).
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.groups.offsets import GroupOffsets
from penstock.broker.groups.shard import Shard
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import Image
from penstock.types import ZERO_TOPIC_ID
from penstock.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUPS_SINCE = 8
MEMBER_EPOCH_SINCE = 9
TOPIC_IDS_SINCE = 10
TOP_LEVEL_ERROR_SINCE = 2
NO_OFFSET = -1


def handle(context: Context, call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if call.version >= GROUPS_SINCE:
        groups = [_group(context, call, group, request.require_stable) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(topic.name, ZERO_TOPIC_ID, topic.partition_indexes) for topic in request.topics
        ]
    asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    only = _group(context, call, asked, request.require_stable)
    return _of_one_group(call, request, only)


def _group(
    context: Context, call: Call, asked: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    try:
        shard = context.groups.shard(asked.group_id)
        consumers = shard.consumer_groups.get(asked.group_id)
        if consumers is not None and call.version >= MEMBER_EPOCH_SINCE:
            consumers.check_fetch(asked.member_id, asked.member_epoch)
        offsets = shard.offsets(asked.group_id)
    except KafkaError as error:
        return OffsetFetchResponseGroup(asked.group_id, error_code=error.code)
    by_id = call.version >= TOPIC_IDS_SINCE
    if asked.topics is None:
        topics = _everything(context.image, offsets, by_id)
    else:
        topics = [_topic(context.image, offsets, topic, by_id) for topic in asked.topics]
    if require_stable and shard.pending.has_group(asked.group_id):
        _hide_unstable(context.image, shard, asked.group_id, topics)
    return OffsetFetchResponseGroup(asked.group_id, topics)


def _hide_unstable(image: Image, shard: Shard, group_id: str, topics: list[OffsetFetchResponseTopics]) -> None:
    for topic in topics:
        by_id = image.topics_by_id.get(topic.topic_id)
        name = topic.name if by_id is None else by_id.name
        for partition in topic.partitions:
            if shard.pending.is_unstable(group_id, name, partition.partition_index):
                partition.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
                partition.committed_offset = NO_OFFSET
                partition.committed_leader_epoch = -1
                partition.metadata = ""


def _everything(image: Image, offsets: GroupOffsets, by_id: bool) -> list[OffsetFetchResponseTopics]:
    """All that was committed; by id only of topics that exist."""
    topics = []
    for name, partitions in offsets:
        found = image.topics.get(name)
        if found is not None or not by_id:
            asked = OffsetFetchRequestTopics(name, found.topic_id if found else ZERO_TOPIC_ID, list(partitions))
            topics.append(_topic(image, offsets, asked, by_id))
    return topics


def _topic(
    image: Image, offsets: GroupOffsets, asked: OffsetFetchRequestTopics, by_id: bool
) -> OffsetFetchResponseTopics:
    found = image.topics_by_id.get(asked.topic_id) if by_id else image.topics.get(asked.name)
    topic_id = found.topic_id if found is not None else ZERO_TOPIC_ID
    code = ErrorCode.UNKNOWN_TOPIC_ID if by_id and found is None else ErrorCode.NONE
    name = found.name if found is not None else asked.name
    answers = [_partition(offsets, name, index, topic_id, code) for index in asked.partition_indexes]
    return OffsetFetchResponseTopics(asked.name, asked.topic_id, answers)


def _partition(
    offsets: GroupOffsets, topic: str, index: int, topic_id: bytes, code: ErrorCode
) -> OffsetFetchResponsePartitions:
    committed = offsets.get(topic, index)
    if committed is None or (topic_id != ZERO_TOPIC_ID and committed.topic_id not in (topic_id, ZERO_TOPIC_ID)):
        return OffsetFetchResponsePartitions(index, NO_OFFSET, -1, "", code)
    return OffsetFetchResponsePartitions(index, committed.offset, committed.leader_epoch, committed.metadata)


def _of_one_group(call: Call, request: OffsetFetchRequest, only: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The same in the old form; version 1 has no error but that of each partition."""
    if only.error_code and call.version < TOP_LEVEL_ERROR_SINCE:
        failed = [
            OffsetFetchResponseTopic(
                topic.name,
                [OffsetFetchResponsePartition(i, NO_OFFSET, -1, "", only.error_code) for i in topic.partition_indexes],
            )
            for topic in request.topics or []
        ]
        return OffsetFetchResponse(topics=failed)
    topics = [
        OffsetFetchResponseTopic(
            topic.name,
            [
                OffsetFetchResponsePartition(
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.metadata,
                    each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in only.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=only.error_code)
