"""Offsets that transactions have written and not yet decided. Pure.

They count from the commit marker on, and never after an abort marker. Until then whoever asks for stable offsets is
told to ask again. What counts in the end is what was written last, not what was decided last, as in Kafka: an offset
that was written after a pending one, by a plain commit or in a transaction that was committed earlier, is not undone by
it.
"""

from __future__ import annotations

from penstock.broker.groups.records import CommittedOffset, OffsetRecord
from penstock.types import ZERO_TOPIC_ID

Where = tuple[str, int]
"""Topic and partition."""


class PendingOffsets:
    """The undecided offsets of one shard, by producer and by group."""

    __slots__ = ("_by_group", "_by_producer", "_written")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[tuple[str, Where], tuple[int, CommittedOffset | None]]] = {}
        """Producer id -> group and partition -> when it was written, and the offset; None when it counts no more."""
        self._by_group: dict[str, dict[Where, set[int]]] = {}
        """Group -> partition -> producers with an open transaction."""
        self._written = 0

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def add(self, producer_id: int, record: OffsetRecord) -> None:
        where = (record.topic, record.partition)
        self._written += 1
        self._by_producer.setdefault(producer_id, {})[record.group_id, where] = (self._written, record.value)
        self._by_group.setdefault(record.group_id, {}).setdefault(where, set()).add(producer_id)

    def end(self, producer_id: int, committed: bool) -> list[OffsetRecord]:
        """The producer's transaction has ended: what counts now."""
        applied = []
        for (group_id, where), (written, value) in self._by_producer.pop(producer_id, {}).items():
            self._close(group_id, where, producer_id)
            if committed and value is not None:
                self._supersede(group_id, where, written)
                applied.append(OffsetRecord(group_id, *where, value))
        return applied

    def _close(self, group_id: str, where: Where, producer_id: int) -> None:
        partitions = self._by_group[group_id]
        partitions[where].discard(producer_id)
        if not partitions[where]:
            del partitions[where]
        if not partitions:
            del self._by_group[group_id]

    def _supersede(self, group_id: str, where: Where, before: int) -> None:
        for producer_id in self._by_group.get(group_id, {}).get(where, ()):
            offsets = self._by_producer[producer_id]
            if offsets[group_id, where][0] < before:
                offsets[group_id, where] = (before, None)

    def on_plain(self, record: OffsetRecord) -> None:
        """An offset was committed, or forgotten, outside of transactions."""
        where = (record.topic, record.partition)
        if record.value is not None:
            self._supersede(record.group_id, where, self._written + 1)
            return
        for producer_id in tuple(self._by_group.get(record.group_id, {}).get(where, ())):
            self._close(record.group_id, where, producer_id)
            offsets = self._by_producer[producer_id]
            del offsets[record.group_id, where]
            if not offsets:
                del self._by_producer[producer_id]

    def has_group(self, group_id: str) -> bool:
        return group_id in self._by_group

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        return (topic, partition) in self._by_group.get(group_id, {})

    def tombstones(self, group_id: str) -> list[OffsetRecord]:
        """What forgets all of a group."""
        return [OffsetRecord(group_id, *where, None) for where in self._by_group.get(group_id, {})]

    def topic_tombstones(self, topic: str, topic_id: bytes) -> list[OffsetRecord]:
        """What forgets those of a deleted topic, but not of a newer one with its name."""
        found = {
            (group_id, where)
            for offsets in self._by_producer.values()
            for (group_id, where), (_, value) in offsets.items()
            if where[0] == topic and (value is None or value.topic_id in (topic_id, ZERO_TOPIC_ID))
        }
        return [OffsetRecord(group_id, *where, None) for group_id, where in sorted(found)]
