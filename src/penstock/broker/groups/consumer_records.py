"""What a consumer group writes to `__consumer_offsets`: one value for its seven types of record, and its bytes.

The messages are Kafka's own (`wire/coordinator/consumer_group`). `name` is the member's id, for a regular expression
the expression, and empty for what is the group's own. Without a value the record is a tombstone: that thing is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from penstock.broker.groups.assignors import TopicIdPartition
from penstock.types import Bytes
from penstock.wire.coordinator import RecordType
from penstock.wire.coordinator.consumer_group import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from penstock.wire.schema import Struct

EPOCH = CONSUMER_GROUP_METADATA
MEMBER = CONSUMER_GROUP_MEMBER_METADATA
TARGET_EPOCH = CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA
TARGET = CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER
CURRENT = CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
REGEX = CONSUMER_GROUP_REGULAR_EXPRESSION
PARTITION_METADATA = CONSUMER_GROUP_PARTITION_METADATA
"""Written by Kafka 4.0 and older; what it says is in EPOCH's hash now."""

TYPES = {each.number: each for each in (EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX, PARTITION_METADATA)}
_NAMED = frozenset(each.number for each in (MEMBER, TARGET, CURRENT, REGEX))

Epochs = Mapping[TopicIdPartition, int]
"""Partition -> the epoch in which the member got it."""


class ConsumerRecord(NamedTuple):
    type: RecordType
    group_id: str
    name: str
    value: Any
    """A message of `type.value`, or None."""


def encode_consumer_record(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    named = (record.name,) if record.type.number in _NAMED else ()
    key = record.type.encode_key(record.type.key(record.group_id, *named))
    return key, None if record.value is None else record.type.encode_value(record.value, 0)


def decode_consumer_record(number: int, key: Bytes, value: Bytes | None) -> ConsumerRecord:
    """MalformedError when the bytes are not what the type says."""
    kind = TYPES[number]
    whose: Any = kind.decode_key(key)
    name = ""
    if kind is REGEX:
        name = whose.regular_expression
    elif number in _NAMED:
        name = whose.member_id
    read: Struct | None = None if value is None else kind.decode_value(value)
    return ConsumerRecord(kind, whose.group_id, name, read)


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> ConsumerRecord:
    return ConsumerRecord(EPOCH, group_id, "", ConsumerGroupMetadataValue(epoch, metadata_hash))


def target_epoch_record(group_id: str, epoch: int, now_ms: int) -> ConsumerRecord:
    return ConsumerRecord(TARGET_EPOCH, group_id, "", ConsumerGroupTargetAssignmentMetadataValue(epoch, now_ms))


def target_record(group_id: str, member_id: str, partitions: Iterable[TopicIdPartition]) -> ConsumerRecord:
    topics = [TopicPartition(topic, indexes) for topic, indexes in by_topic(partitions).items()]
    return ConsumerRecord(TARGET, group_id, member_id, ConsumerGroupTargetAssignmentMemberValue(topics))


def regex_record(group_id: str, pattern: str, topics: Iterable[str], now_ms: int) -> ConsumerRecord:
    value = ConsumerGroupRegularExpressionValue(sorted(topics), 0, now_ms)
    return ConsumerRecord(REGEX, group_id, pattern, value)


def member_tombstones(group_id: str, member_id: str) -> list[ConsumerRecord]:
    """What removes a member: what it has, what it was to have, and itself."""
    return [ConsumerRecord(kind, group_id, member_id, None) for kind in (CURRENT, TARGET, MEMBER)]


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    topics: dict[bytes, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def stored_partitions(partitions: Epochs) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic, indexes, [partitions[topic, index] for index in indexes])
        for topic, indexes in by_topic(partitions).items()
    ]


def loaded_partitions(stored: Iterable[TopicPartitions], epoch: int) -> dict[TopicIdPartition, int]:
    """Records of Kafka before 4.3 have no epochs of their own: the member's counts."""
    found = {}
    for topic in stored:
        epochs = topic.assignment_epochs
        for number, index in enumerate(topic.partitions):
            found[topic.topic_id, index] = epochs[number] if epochs is not None and number < len(epochs) else epoch
    return found
