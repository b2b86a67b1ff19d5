"""Ranges of offsets, the unit of Spark's tasks: one partition of a topic, from a first offset to before an end.

Rules:
- a range is never shared: each becomes one task, so that the order within a partition is kept in it;
- `split` makes more of them: first so that none is larger than `max_records`, then, the largest first, until there are
  `min_partitions`. Offsets are taken for records: where a log has holes, tasks are less even, and nothing else;
- `limited` shares out what a micro-batch may take in proportion to what waits. Every partition that has something gets
  at least one offset, as in Spark, so that a small one never starves; with many partitions the sum may be a bit larger.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """From `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return self.end - self.start

    def divided(self, parts: int) -> list[OffsetRange]:
        """As many pieces of about the same size."""
        cuts = [self.start + self.size * i // parts for i in range(parts + 1)]
        return [OffsetRange(self.topic, self.partition, a, b) for a, b in pairwise(cuts)]


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """Of the partitions that are in both, where there is something between."""
    found = [OffsetRange(*where, start[where], until) for where, until in end.items() if where in start]
    return sorted(each for each in found if each.size > 0)


def split(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """More and smaller ranges, in order."""
    pieces = [
        piece for each in ranges for piece in (each.divided(-(-each.size // max_records)) if max_records else [each])
    ]
    return sorted(_split_largest(pieces, min_partitions or 0))


def _split_largest(ranges: list[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Each gets one part more as long as its parts are the largest; one record is the least."""
    wanted = min(wanted, sum(each.size for each in ranges))
    parts = [1] * len(ranges)
    heap: list[tuple[float, int]] = [(-each.size, i) for i, each in enumerate(ranges)]
    heapq.heapify(heap)
    for _ in range(wanted - len(ranges)):
        _, i = heap[0]
        parts[i] += 1
        heapq.heapreplace(heap, (-(ranges[i].size / parts[i]), i))
    return [piece for each, count in zip(ranges, parts, strict=True) for piece in each.divided(count)]


def limited(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], max_rows: int
) -> dict[TopicPartition, int]:
    """New ends, so that about `max_rows` offsets lie between."""
    waiting = {where: max(0, until - start[where]) for where, until in end.items()}
    total = sum(waiting.values())
    if total <= max_rows:
        return dict(end)
    return {where: start[where] + max(min(count, 1), count * max_rows // total) for where, count in waiting.items()}
