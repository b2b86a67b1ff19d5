"""Where a mirrored message is: the map from offsets of one cluster to offsets of another.

A copy does not have its original's offset: there are markers of transactions, and what was deleted or compacted away
before is not copied. So that a group can go on in the copy, the mirror notes stretches of messages, in a topic of the
target cluster, as JSON:

    key    orders/0
    value  {"source": 1000, "source_end": 1500, "target": 1002, "count": 500}

The messages of offsets source to source_end (exclusive) stand one after another from `target` on; there are `count`.
When count is as large as the stretch, each offset has its exact counterpart. Otherwise the stretch has holes, and an
offset in it is translated to where its message is at the earliest: a group may see a few messages twice, and misses
none.

Stretches may be noted twice, after a crash: they say the same. One may be missing, when the mirror died just then: an
offset in it is translated to the end of the one before, which again misses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages that follow each other in both partitions."""

    source: int
    source_end: int
    target: int
    count: int

    @property
    def target_end(self) -> int:
        return self.target + self.count

    def translate(self, offset: int) -> int:
        """At the earliest; `offset` is in the stretch or after it."""
        after = max(0, self.source_end - offset)
        """No more messages than this stand at `offset` or after it."""
        return self.target + max(0, self.count - after)

    def as_value(self) -> bytes:
        fields = {"source": self.source, "source_end": self.source_end, "target": self.target, "count": self.count}
        return json.dumps(fields).encode()


OffsetMap = Mapping[TopicPartition, Sequence[Stretch]]


def read_offset_map(records: Iterable[tuple[bytes, bytes]]) -> dict[TopicPartition, list[Stretch]]:
    """From keys and values of the map's topic; what is none of ours is passed over."""
    found: dict[TopicPartition, dict[int, Stretch]] = {}
    for key, value in records:
        entry = _entry(key, value)
        if entry is not None:
            where, stretch = entry
            found.setdefault(where, {})[stretch.source] = stretch
    return {where: sorted(stretches.values(), key=lambda each: each.source) for where, stretches in found.items()}


def translate(stretches: Sequence[Stretch], offset: int) -> int | None:
    """The offset in the copy from which a group misses nothing; None when the copy has nothing before it."""
    before = [each for each in stretches if each.source <= offset]
    return before[-1].translate(offset) if before else None


def map_key(where: TopicPartition) -> bytes:
    return f"{where.topic}/{where.partition}".encode()


def _entry(key: bytes, value: bytes) -> tuple[TopicPartition, Stretch] | None:
    topic, _, partition = key.decode(errors="replace").rpartition("/")
    try:
        fields: Any = json.loads(value)
        stretch = Stretch(fields["source"], fields["source_end"], fields["target"], fields["count"])
        return TopicPartition(topic, int(partition)), stretch
    except (ValueError, KeyError, TypeError):
        return None
