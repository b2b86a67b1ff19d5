"""A segment's time index: up to which offset no record is newer than a timestamp. Kafka's `<base offset>.timeindex`.

Bytes: entries of 12, big endian: int64 timestamp in ms, int32 offset relative to the segment's base offset. An entry
says: the largest timestamp so far is this one, and the batch that brought it ends at this offset. Records after that
offset may be newer; none up to it is.

Rules. Timestamps grow strictly: `maybe_append` does nothing for one that is not larger than the last, as after
producers whose clocks are behind. The segment calls it whenever it adds to the offset index, and once more when it
rolls or closes, so the last entry of a closed segment is its largest timestamp. When a segment that a stop closed is
written again, that entry, which lies beyond the offset index, goes before the next one comes: what is in the file
follows from the batches, not from when the broker was stopped. No lookup needs it: the batches behind the last entry
are walked. Lookups by time are rare, so the file is searched entry by entry with no cache; the newest entries wait in
memory and are written in one piece.

After a crash: as the offset index.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from penstock.env.files import Files
from penstock.log.index_file import CorruptIndexError, IndexFile

ENTRY_SIZE = 12
NO_TIMESTAMP = -1

TAIL_ENTRIES = 341
"""Entries that wait in memory: about 4 KB of file."""

_ENTRY = struct.Struct(">qi")


class TimeIndex:
    """Timestamp to offset, for one segment."""

    __slots__ = ("_file", "_tail_offsets", "_tail_timestamps", "base_offset", "last")

    last: tuple[int, int]
    """The newest (timestamp, offset); (NO_TIMESTAMP, base_offset) when there is none."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self._file = IndexFile(files, path, ENTRY_SIZE)
        self._tail_timestamps: list[int] = []
        self._tail_offsets: list[int] = []
        self._recall_last()
        self._file.close()  # most segments are never read again: no descriptor until someone asks

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def entry_count(self) -> int:
        return self._file.count + len(self._tail_timestamps)

    def is_full(self, max_bytes: int) -> bool:
        """One entry is kept free for the last one, which is added when the segment rolls."""
        return (self.entry_count + 2) * ENTRY_SIZE > max_bytes

    def maybe_append(self, timestamp: int, offset: int) -> bool:
        """Add the largest timestamp so far and its batch's last offset; nothing happens when it is no news."""
        last_timestamp, last_offset = self.last
        if timestamp <= last_timestamp:
            return False
        assert offset >= last_offset, "time index entries only grow"
        self._tail_timestamps.append(timestamp)
        self._tail_offsets.append(offset)
        self.last = timestamp, offset
        if len(self._tail_timestamps) >= TAIL_ENTRIES:
            self.flush()
        return True

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """The greatest entry at or before the timestamp, as (timestamp, offset); else (NO_TIMESTAMP, base_offset)."""
        tail = bisect_right(self._tail_timestamps, timestamp)
        if tail:
            return self._tail_timestamps[tail - 1], self._tail_offsets[tail - 1]
        count = self._count_in_file(lambda entry: entry[0] <= timestamp)
        return self._entry(count - 1) if count else (NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Forget every entry at or after the offset; on OSError nothing has changed."""
        if self.last[1] < offset or not self.entry_count:
            return
        kept = bisect_left(self._tail_offsets, offset)
        if not kept:
            self._file.truncate(self._count_in_file(lambda entry: entry[1] < offset))
        del self._tail_timestamps[kept:], self._tail_offsets[kept:]
        self._recall_last()

    def reset(self) -> None:
        """Forget everything, before a rebuild; the file is empty, or made so."""
        self._tail_timestamps.clear()
        self._tail_offsets.clear()
        self._file.truncate(0)
        self._recall_last()

    def check_sane(self, log_end_offset: int, *, every_entry: bool = False) -> None:
        """CorruptIndexError when the file cannot be this log's index; `every_entry` after an unclean stop."""
        if self._file.odd_bytes:
            raise CorruptIndexError(f"{self.path}: the size is no multiple of {ENTRY_SIZE}")
        if not self.entry_count:
            return
        timestamp, offset = self.last
        if not (timestamp >= 0 and self.base_offset <= offset < log_end_offset):
            raise CorruptIndexError(f"{self.path}: the last entry ({timestamp}, {offset}) is not inside the log")
        self.flush()
        self._check_growing(0 if every_entry else max(0, self.entry_count - 2))

    def flush(self) -> None:
        """Write the entries that wait in memory; an index without entries becomes an empty file."""
        base, pack = self.base_offset, _ENTRY.pack
        pairs = zip(self._tail_timestamps, self._tail_offsets, strict=True)
        self._file.append(b"".join([pack(timestamp, offset - base) for timestamp, offset in pairs]))
        self._tail_timestamps.clear()
        self._tail_offsets.clear()

    def sync(self) -> None:
        """Flush, and make it survive a crash."""
        self.flush()
        self._file.sync()

    def rename(self, path: str) -> None:
        self._file.rename(path)

    def delete(self) -> None:
        """Remove the file and forget everything."""
        self._file.delete()
        self._tail_timestamps.clear()
        self._tail_offsets.clear()
        self._recall_last()

    def close(self) -> None:
        """Flush what waits and let the descriptor go; the next use opens it again."""
        if self._tail_timestamps:
            self.flush()
        self._file.close()

    def _entry(self, slot: int) -> tuple[int, int]:
        timestamp, relative = _ENTRY.unpack(self._file.read(slot, 1))
        return timestamp, self.base_offset + relative

    def _count_in_file(self, is_before: Callable[[tuple[int, int]], bool]) -> int:
        """How many entries at the front of the file satisfy a condition that turns false once."""
        low, high = 0, self._file.count
        while low < high:
            middle = (low + high) // 2
            if is_before(self._entry(middle)):
                low = middle + 1
            else:
                high = middle
        return low

    def _recall_last(self) -> None:
        if self._tail_timestamps:
            self.last = self._tail_timestamps[-1], self._tail_offsets[-1]
        elif self._file.count:
            self.last = self._entry(self._file.count - 1)
        else:
            self.last = NO_TIMESTAMP, self.base_offset

    def _check_growing(self, first: int) -> None:
        data = self._file.read(first, self._file.count - first)
        last_timestamp, last_relative = -1, -1
        for timestamp, relative in _ENTRY.iter_unpack(data):
            if timestamp <= last_timestamp or relative <= last_relative:
                raise CorruptIndexError(f"{self.path}: entry ({timestamp}, {self.base_offset + relative}) goes back")
            last_timestamp, last_relative = timestamp, relative
