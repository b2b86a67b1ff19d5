"""The committed offsets of one group, and when they are forgotten.

Offsets change only by `replay`, of a record that is in the log. They are forgotten `offsets.retention.minutes` after
the group lost its last member or, where it never had any, after they were committed. As long as a group has members, or
a rebalance is under way, none is forgotten (B20); Kafka forgets offsets of topics that a stable group no longer reads.
A client of an old version may have asked for a time of its own.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from penstock.broker.groups.records import NO_TIMESTAMP, CommittedOffset, OffsetRecord
from penstock.types import ZERO_TOPIC_ID


class GroupOffsets:
    """topic -> partition -> offset; a topic without offsets is not kept."""

    __slots__ = ("_by_topic", "group_id")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self._by_topic: dict[str, dict[int, CommittedOffset]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_topic)

    def __iter__(self) -> Iterator[tuple[str, dict[int, CommittedOffset]]]:
        return iter(self._by_topic.items())

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        offsets = self._by_topic.get(topic)
        return None if offsets is None else offsets.get(partition)

    def replay(self, record: OffsetRecord) -> None:
        offsets = self._by_topic.get(record.topic)
        if record.value is not None:
            if offsets is None:
                offsets = self._by_topic[record.topic] = {}
            offsets[record.partition] = record.value
        elif offsets is not None:
            offsets.pop(record.partition, None)
            if not offsets:
                del self._by_topic[record.topic]

    def tombstones(self) -> list[OffsetRecord]:
        """What forgets them all."""
        return [OffsetRecord(self.group_id, topic, partition, None) for topic, offsets in self for partition in offsets]

    def topic_tombstones(self, topic: str, topic_id: bytes) -> list[OffsetRecord]:
        """What forgets those of one topic, but not of a newer one with the same name."""
        return [
            OffsetRecord(self.group_id, topic, partition, None)
            for partition, committed in self._by_topic.get(topic, {}).items()
            if committed.topic_id in (topic_id, ZERO_TOPIC_ID)
        ]

    def missing_topics(self, known_ids: Container[bytes]) -> list[OffsetRecord]:
        """What forgets those of topics that are no more."""
        return [
            OffsetRecord(self.group_id, topic, partition, None)
            for topic, offsets in self
            for partition, committed in offsets.items()
            if committed.topic_id != ZERO_TOPIC_ID and committed.topic_id not in known_ids
        ]

    def expired(self, empty_since_ms: int, retention_ms: int, now_ms: int) -> list[OffsetRecord]:
        """What forgets those whose time is over, in a group without members.

        `empty_since_ms` is NO_TIMESTAMP where the group never had any.
        """
        return [
            OffsetRecord(self.group_id, topic, partition, None)
            for topic, offsets in self
            for partition, committed in offsets.items()
            if _expires_ms(committed, empty_since_ms, retention_ms) <= now_ms
        ]


def _expires_ms(committed: CommittedOffset, empty_since_ms: int, retention_ms: int) -> int:
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return committed.expire_timestamp_ms
    since_ms = committed.commit_timestamp_ms if empty_since_ms == NO_TIMESTAMP else empty_since_ms
    return since_ms + retention_ms
