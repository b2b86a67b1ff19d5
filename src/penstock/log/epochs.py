"""A log's leader epochs: at which offset each leader's own records begin. Kafka's `leader-epoch-checkpoint`.

A follower and its new leader compare these lists to find where their logs part (KIP-101, KIP-279): the leader is
asked for the end of an epoch, the follower truncates to it. Truncating to the high watermark instead loses records.

Rules. Epochs and start offsets both grow. A new entry removes every older one that contradicts it: a higher or equal
epoch, or a start at or after its own. The end of an epoch is the start of the next; the end of the newest is the
log's end.

The list is short (one entry per change of leader), so it is plain tuples and is written whole at each change, through
`EpochCheckpoint`. The file is written first: when that fails, nothing changed here.
After a crash the file is the old list or the new one. The log truncates the list to its own end, and if the file
cannot be trusted fills it from the batches' headers with `replace`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from penstock.env.files import Files
from penstock.log.checkpoint import EpochCheckpoint

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1

Entry = tuple[int, int]
"""(epoch, start offset)"""


class LeaderEpochs:
    """The leader epochs of one log."""

    __slots__ = ("_checkpoint", "entries", "latest_epoch")

    entries: tuple[Entry, ...]
    latest_epoch: int
    """UNDEFINED_EPOCH when there is none. A plain attribute: each append compares it."""

    def __init__(self, files: Files, directory: str) -> None:
        self._checkpoint = EpochCheckpoint(files, f"{directory}/{FILE_NAME}")
        self._hold(())

    def load(self) -> bool:
        """Take the file's entries. False when it is absent or cannot be trusted: `replace` them from a scan."""
        entries = self._checkpoint.read()
        self._hold(entries or ())
        return entries is not None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Records of this epoch start here. Nothing happens for the current epoch, unless it starts earlier now."""
        assert epoch >= 0, "an epoch is never negative"
        assert start_offset >= 0, "an offset is never negative"
        if self.entries and self.entries[-1][0] == epoch and self.entries[-1][1] <= start_offset:
            return
        kept = list(self.entries)
        while kept and (kept[-1][0] >= epoch or kept[-1][1] >= start_offset):
            kept.pop()
        self.replace([*kept, (epoch, start_offset)])

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch at or below the asked one, and where it ends.

        An epoch above all known ones gives (-1, -1). An epoch below all known ones gives itself and the first start.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest_epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self.entries, epoch, key=_epoch)
        end_offset = self.entries[higher][1]
        return (self.entries[higher - 1][0] if higher else epoch), end_offset

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch that a record at this offset was written in; None before the first entry."""
        if self.entries and self.entries[-1][1] <= offset:
            return self.latest_epoch
        position = bisect_right(self.entries, offset, key=_start_offset)
        return self.entries[position - 1][0] if position else None

    def truncate_from_end(self, end_offset: int) -> None:
        """The log ends here now: forget the epochs that start at or after it."""
        kept = [entry for entry in self.entries if entry[1] < end_offset]
        if len(kept) < len(self.entries):
            self.replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """The log starts here now: forget the epochs that ended before; the one that holds the start starts here."""
        gone = [entry for entry in self.entries if entry[1] <= start_offset]
        if gone and gone != [(gone[0][0], start_offset)]:
            self.replace([(gone[-1][0], start_offset), *self.entries[len(gone) :]])

    def clear(self) -> None:
        if self.entries:
            self.replace(())

    def replace(self, entries: Iterable[Entry]) -> None:
        """Write these entries and hold them, as after a scan of the log."""
        entries = tuple(entries)
        self._checkpoint.write(entries)
        self._hold(entries)

    def _hold(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self.latest_epoch = self.entries[-1][0] if self.entries else UNDEFINED_EPOCH


def _epoch(entry: Entry) -> int:
    return entry[0]


def _start_offset(entry: Entry) -> int:
    return entry[1]
