"""The transactions of one log that readers of committed data must wait for.

An ongoing transaction has batches in the log and no marker yet. An unreplicated one has its marker, but at or above the
high watermark: a reader must not see the data before the marker is safe. The first offset of the oldest of both is the
first unstable offset; `read_committed` readers see what is below it (the last stable offset, `Log.last_stable_offset`).

Kept in memory: made again from producer snapshots and from the batches and markers since (replay.py).
"""

from __future__ import annotations

NONE_UNSTABLE = 2**63 - 1
"""Larger than any offset: nothing is unstable."""


class Transactions:
    """What is open, and what has ended above the high watermark."""

    __slots__ = ("first_unstable_offset", "ongoing", "unreplicated")

    def __init__(self) -> None:
        self.ongoing: dict[int, int] = {}
        """Producer id -> first offset, ascending by offset: they are begun in the order of the log."""
        self.unreplicated: list[tuple[int, int]] = []
        """(first offset, offset of the marker), ascending by marker."""
        self.first_unstable_offset = NONE_UNSTABLE

    def begin(self, producer_id: int, first_offset: int) -> None:
        self.ongoing[producer_id] = first_offset
        if first_offset < self.first_unstable_offset:
            self.first_unstable_offset = first_offset

    def end(self, producer_id: int, marker_offset: int) -> None:
        """The marker is in the log; what it ended stays unstable until the high watermark has passed it."""
        self.unreplicated.append((self.ongoing.pop(producer_id), marker_offset))

    def last_stable_offset_after(self, producer_id: int, marker_offset: int) -> int:
        """Where the last stable offset will be once this producer's marker counts: the transaction index has it."""
        for other_id, first_offset in self.ongoing.items():
            if other_id != producer_id:
                return first_offset
        return marker_offset + 1

    def on_high_watermark(self, high_watermark: int) -> None:
        """Markers below it are safe."""
        unreplicated = self.unreplicated
        oldest = next(iter(self.ongoing.values()), NONE_UNSTABLE)
        if unreplicated and unreplicated[-1][1] < high_watermark:  # all are, as nearly always
            unreplicated.clear()
            self.first_unstable_offset = oldest
        else:
            self.unreplicated = [each for each in unreplicated if each[1] >= high_watermark]
            self.first_unstable_offset = min([oldest, *(first for first, _ in self.unreplicated)])

    def add(self, ongoing: dict[int, int]) -> None:
        """Those of a snapshot too: producer id -> first offset."""
        merged = sorted((self.ongoing | ongoing).items(), key=lambda item: item[1])
        self.ongoing.clear()
        self.ongoing.update(merged)
        self.first_unstable_offset = min([self.first_unstable_offset, *ongoing.values()])

    def clear(self) -> None:
        self.ongoing.clear()
        self.unreplicated.clear()
        self.first_unstable_offset = NONE_UNSTABLE
