"""A segment's offset index: where in the log file a batch starts. Kafka's `<base offset>.index`.

Bytes: entries of 8, big endian: int32 offset relative to the segment's base offset, int32 position in the log file.
The offset is the LAST of the batch that starts at the position (Kafka since 2.8 writes it so; the files of Kafka 4.3
show it). Offsets and positions both grow strictly. The first batch of a segment has no entry, for it starts at 0.

Rules. The index is a hint: it says where to start looking, never what is there. The segment adds an entry when more
than `index.interval.bytes` were appended since the last one. The newest entries are in memory, at most `TAIL_ENTRIES`
of them, and are written in one piece; readers of the head of the log, most of them, never touch the file. Older
entries are read in pages of `PAGE_ENTRIES`, and `CACHED_PAGES` of these are kept.

After a crash the file may lack entries, or hold ones for batches that were cut off: `check_sane` finds it and the
segment rebuilds. One that lacks its newest entries is right, only coarser.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from operator import lt

from penstock.env.files import Files
from penstock.log.index_file import CorruptIndexError, IndexFile

ENTRY_SIZE = 8

TAIL_ENTRIES = 512
"""Entries that wait in memory: one page of 4 KB, written once per 2 MB of log at Kafka's default interval."""

PAGE_ENTRIES = 512
CACHED_PAGES = 8
"""32 KB at most per index: some readers at different places."""

_ENTRY = struct.Struct(">ii")

Page = tuple["array[int]", "array[int]"]
"""The relative offsets of some entries, and their positions."""


class OffsetIndex:
    """Offset to position, for one segment."""

    __slots__ = (
        "_file",
        "_last_offset",
        "_last_position",
        "_page_starts",
        "_pages",
        "_tail_offsets",
        "_tail_positions",
        "base_offset",
    )

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self._file = IndexFile(files, path, ENTRY_SIZE)
        self._tail_offsets = array("i")
        self._tail_positions = array("i")
        self._pages: dict[int, Page] = {}
        self._page_starts: dict[int, tuple[int, int]] = {}  # first entries of the pages that searches met: one in 512
        self._last_offset = -1
        self._last_position = -1
        self._recall_last()
        self._file.close()  # most segments are never read again: no descriptor until someone asks

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def entry_count(self) -> int:
        return self._file.count + len(self._tail_offsets)

    @property
    def last(self) -> tuple[int, int]:
        """The newest entry; (base_offset, 0) when there is none."""
        if self._last_offset < 0:
            return self.base_offset, 0
        return self.base_offset + self._last_offset, self._last_position

    @property
    def end_offset(self) -> int:
        """One more than the newest entry's offset; base_offset when there is none."""
        return self.base_offset + self._last_offset + 1

    def is_full(self, max_bytes: int) -> bool:
        """No entry more fits in `segment.index.bytes`: time to roll."""
        return (self.entry_count + 1) * ENTRY_SIZE > max_bytes

    def append(self, offset: int, position: int) -> None:
        """Note that the batch with this last offset starts at this position."""
        relative = offset - self.base_offset
        assert relative > self._last_offset, "the offsets of an index only grow"
        assert position > self._last_position, "the positions of an index only grow"
        self._tail_positions.append(position)
        self._tail_offsets.append(relative)
        self._last_offset = relative
        self._last_position = position
        if len(self._tail_offsets) >= TAIL_ENTRIES:
            self.flush()

    def lookup(self, offset: int) -> tuple[int, int]:
        """The greatest entry at or before the offset: a batch at or before the one that holds it. Else (base, 0)."""
        return self._find(0, offset - self.base_offset)

    def boundary_at_or_before(self, position: int) -> tuple[int, int]:
        """The greatest entry whose position is at or before this one: a place to cut a read. Else (base, 0)."""
        return self._find(1, position)

    def truncate_to(self, offset: int) -> None:
        """Forget every entry at or after the offset."""
        if self._last_offset < offset - self.base_offset:
            return
        self.flush()
        self._file.truncate(self._count_before(offset - self.base_offset))
        self._recall_last()

    def reset(self) -> None:
        """Forget everything, before a rebuild; the file is empty, or made so."""
        del self._tail_offsets[:], self._tail_positions[:]
        self._file.truncate(0)
        self._recall_last()

    def check_sane(self, log_end_offset: int, log_size: int, *, every_entry: bool = False) -> None:
        """CorruptIndexError when the file cannot be this log's index; `every_entry` after an unclean stop."""
        if self._file.odd_bytes:
            raise CorruptIndexError(f"{self.path}: the size is no multiple of {ENTRY_SIZE}")
        if not self.entry_count:
            return
        offset, position = self.last
        if not (self.base_offset <= offset < log_end_offset and 0 <= position < log_size):
            raise CorruptIndexError(f"{self.path}: the last entry ({offset}, {position}) is not inside the log")
        self.flush()
        self._check_growing(0 if every_entry else max(0, self.entry_count - 2))

    def flush(self) -> None:
        """Write the entries that wait in memory; an index without entries becomes an empty file."""
        offsets, positions = self._tail_offsets, self._tail_positions
        pairs = array("i", bytes(ENTRY_SIZE * len(offsets)))
        pairs[0::2] = offsets
        pairs[1::2] = positions
        if sys.byteorder == "little":
            pairs.byteswap()
        self._pages.pop(self._file.count // PAGE_ENTRIES, None)  # it ends earlier than the file now does
        self._file.append(pairs.tobytes())
        del offsets[:], positions[:]

    def sync(self) -> None:
        """Flush, and make it survive a crash."""
        self.flush()
        self._file.sync()

    def rename(self, path: str) -> None:
        self._file.rename(path)

    def delete(self) -> None:
        """Remove the file and forget everything."""
        self._file.delete()
        del self._tail_offsets[:], self._tail_positions[:]
        self._recall_last()

    def close(self) -> None:
        """Flush what waits and let the descriptor go; the next use opens it again."""
        if self._tail_offsets:
            self.flush()
        self._forget_pages()
        self._file.close()

    def _find(self, column: int, key: int) -> tuple[int, int]:
        """The greatest entry whose offset (column 0) or position (column 1) is at or below the key."""
        tail: Page = (self._tail_offsets, self._tail_positions)
        if tail[0] and tail[column][0] <= key:
            return self._entry(tail, bisect_right(tail[column], key) - 1)
        page = self._page_of(column, key)
        if page is None:
            return self.base_offset, 0
        return self._entry(page, bisect_right(page[column], key) - 1)

    def _entry(self, page: Page, slot: int) -> tuple[int, int]:
        return self.base_offset + page[0][slot], page[1][slot]

    def _page_of(self, column: int, key: int) -> Page | None:
        """The last page of the file whose first entry is at or below the key."""
        low, high = 0, (self._file.count + PAGE_ENTRIES - 1) // PAGE_ENTRIES
        while low < high:
            middle = (low + high) // 2
            start = self._page_starts.get(middle) or self._read_page_start(middle)
            if start[column] <= key:
                low = middle + 1
            else:
                high = middle
        return self._page(low - 1) if low else None

    def _read_page_start(self, number: int) -> tuple[int, int]:
        start = self._page_starts[number] = _ENTRY.unpack(self._file.read(number * PAGE_ENTRIES, 1))
        return start

    def _page(self, number: int) -> Page:
        page = self._pages.pop(number, None)
        if page is None:
            page = self._read_page(number)
            if len(self._pages) >= CACHED_PAGES:
                del self._pages[next(iter(self._pages))]
        self._pages[number] = page  # the newest is last: the one dropped is the least lately used
        return page

    def _read_page(self, number: int) -> Page:
        first = number * PAGE_ENTRIES
        data = self._file.read(first, min(PAGE_ENTRIES, self._file.count - first))
        pairs = array("i", data)
        if sys.byteorder == "little":
            pairs.byteswap()
        return pairs[0::2], pairs[1::2]

    def _count_before(self, relative: int) -> int:
        """How many entries of the file are below this relative offset."""
        low, high = 0, self._file.count
        while low < high:
            middle = (low + high) // 2
            if self._page(middle // PAGE_ENTRIES)[0][middle % PAGE_ENTRIES] < relative:
                low = middle + 1
            else:
                high = middle
        return low

    def _recall_last(self) -> None:
        """Set the last entry from the file; the tail is empty."""
        self._forget_pages()
        self._last_offset = self._last_position = -1
        if self._file.count:
            self._last_offset, self._last_position = _ENTRY.unpack(self._file.read(self._file.count - 1, 1))

    def _forget_pages(self) -> None:
        self._pages.clear()
        self._page_starts.clear()

    def _check_growing(self, first: int) -> None:
        last_offset = last_position = -1
        for number in range(first // PAGE_ENTRIES, (self.entry_count + PAGE_ENTRIES - 1) // PAGE_ENTRIES):
            page = self._read_page(number)
            skipped = max(0, first - number * PAGE_ENTRIES)
            offsets = [last_offset, *page[0][skipped:]]
            positions = [last_position, *page[1][skipped:]]
            if not (all(map(lt, offsets, offsets[1:])) and all(map(lt, positions, positions[1:]))):
                raise CorruptIndexError(f"{self.path}: the entries of page {number} go back")
            last_offset, last_position = offsets[-1], positions[-1]
