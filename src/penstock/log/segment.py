"""One segment of a log: a `.log` file of record batches, back to back, and small indexes beside it.

    00000000000000009948.log         batches; the name is the first offset that may be in it
    00000000000000009948.index       offset -> position in the .log, an entry each index.interval.bytes
    00000000000000009948.timeindex   timestamp -> offset, the largest timestamp so far, at the same places
    00000000000000009948.txnindex    aborted transactions; only where there are any

Rules. Only the newest segment of a log, the active one, is written. `size` counts good bytes: whole batches; a write
that failed half way leaves more in the file until the log cuts it back. The indexes are hints: they say where to
start walking from header to header, never where a log ends, and an entry that is not true gets them rebuilt. An entry
names the last offset of a batch and the position where that batch begins, so an entry is also a known boundary. A
hole is a range of positions that recovery found damaged: a walk steps over it, a slice ends before it, an offset
inside it is CORRUPT_MESSAGE.

The index files of a closed segment follow from its batches alone, byte for byte, however often the log was stopped,
killed or truncated between them. A batch gets its entries by its position. When a segment is closed, by a roll or by a
stop, its largest timestamp becomes the last entry of the time index; when it is written again, as after a stop, that
entry stays until the next one takes its place.

After a crash recovery scans the file and makes the indexes anew. Not done here: deciding when to roll, checksums,
producers, leader epochs.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.env.files import File, Files
from penstock.log.config import LogConfig
from penstock.log.offset_index import OffsetIndex
from penstock.log.open_segments import OpenSegments
from penstock.log.time_index import TimeIndex
from penstock.log.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTransaction, TransactionIndex
from penstock.types import Bytes
from penstock.wire.records import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_TIMESTAMP, BatchHeader, corrupt

WALK_BYTES = 16 * 1024
"""What a walk reads at once: some index intervals of small batches, little waste among large ones."""

MAX_RELATIVE_OFFSET = 2**31 - 1
"""An index entry has 31 bits for the distance from the base offset."""

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
DELETED_SUFFIX = ".deleted"
INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
SEGMENT_SUFFIXES = (LOG_SUFFIX, *INDEX_SUFFIXES)

_logger = logging.getLogger(__name__)


class Hole(NamedTuple):
    """Damaged bytes with good batches after them, and the offsets that are lost with them."""

    position: int
    end_position: int
    offset: int
    end_offset: int


class Boundary(NamedTuple):
    """Where a batch begins, and its base offset; at the end of a segment, that of the next append."""

    position: int
    base_offset: int


def segment_path(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


class Segment:
    """A segment whose `size` and `end_offset` are known. `active` segments hold their file open for writing."""

    __slots__ = (
        "_directory",
        "_file",
        "_files",
        "_first_timestamp",
        "_index_bytes",
        "_index_interval_bytes",
        "_indexed_position",
        "_is_max_timestamp_known",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_offset_index",
        "_open_segments",
        "_time_index",
        "_transaction_index",
        "base_offset",
        "created_ms",
        "end_offset",
        "has_aborted",
        "holes",
        "is_active",
        "is_full",
        "is_scanned",
        "max_offset",
        "size",
    )

    def __init__(
        self, files: Files, open_segments: OpenSegments, directory: str, base_offset: int, config: LogConfig
    ) -> None:
        self._files = files
        self._open_segments = open_segments
        self._directory = directory
        self._index_interval_bytes = config.index_interval_bytes
        self._index_bytes = config.segment_index_bytes
        self._indexed_position = 0
        """Where the batch of the last index entry begins; 0 when there is none."""
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None
        self._first_timestamp: int | None = None
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._is_max_timestamp_known = False
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.created_ms = 0
        self.holes: tuple[Hole, ...] = ()
        self.is_active = False
        self.is_full = False
        """The indexes have no room: roll before the next append."""
        self.has_aborted = False
        """The transaction index has something to say."""
        self.is_scanned = False
        """Recovery made the offset and the time index anew; the transaction index is made from the markers later."""
        self.max_offset = base_offset + MAX_RELATIVE_OFFSET

    # Files, opened when they are needed.

    @property
    def file(self) -> File:
        if not self.is_active:
            self._open_segments.touch(self)
        if self._file is None:
            self._file = self._files.open(self.path(LOG_SUFFIX), create=self.is_active, writable=self.is_active)
        return self._file

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._offset_index = OffsetIndex(self._files, self.path(OFFSET_INDEX_SUFFIX), self.base_offset)
        if not self.is_active:
            self._open_segments.touch(self)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._time_index = TimeIndex(self._files, self.path(TIME_INDEX_SUFFIX), self.base_offset)
        if not self.is_active:
            self._open_segments.touch(self)
        return self._time_index

    @property
    def transaction_index(self) -> TransactionIndex:
        if self._transaction_index is None:
            path = self.path(TRANSACTION_INDEX_SUFFIX)
            self._transaction_index = TransactionIndex(self._files, path, is_empty=not self.has_aborted)
        if not self.is_active:
            self._open_segments.touch(self)
        return self._transaction_index

    def path(self, suffix: str) -> str:
        return segment_path(self._directory, self.base_offset, suffix)

    def activate(self) -> None:
        """From now on this is the segment that is written; the file is made if it is not there."""
        self._open_segments.forget(self)
        self.release()
        self.is_active = True
        _, self._indexed_position = self.offset_index.last
        self.is_full = self.offset_index.is_full(self._index_bytes) or self.time_index.is_full(self._index_bytes)
        _ = self.file, self.max_timestamp, self.first_timestamp  # open, and known, before the first append

    def deactivate(self) -> None:
        """No more appends. The last time index entry is now the largest timestamp: the next start reads one entry."""
        self.write_indexes()
        self.is_active = False
        self._open_segments.touch(self)

    def release(self) -> None:
        """Let the files go. The log file is not closed: a slice may still refer to it."""
        self._file = None
        for index in (self._offset_index, self._time_index):
            if index is not None:
                index.close()
        self._offset_index = None
        self._time_index = None
        self._transaction_index = None

    def forget_files(self) -> None:
        """Let the files go as they are, for nobody will need the indexes again or they have just been written."""
        self._file = None
        self._offset_index = None
        self._time_index = None
        self._transaction_index = None

    # Appending, to the active segment.

    def append(self, records: Bytes, size: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end. On OSError nothing is counted, but the file may hold a part of it."""
        file = self._file
        position = self.size
        assert file is not None, "only the active segment is written"
        written = file.pwrite(records, position)
        if written != size:
            raise _short_write(written, size, file.path)
        # What `on_batch` does, spelled out: this is the hottest path of the broker.
        self.size = position + size
        self.end_offset = last_offset + 1
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if not position:
            self._first_timestamp = max_timestamp
        if position - self._indexed_position > self._index_interval_bytes:
            self._add_index_entries(position, last_offset)

    def append_all(self, records: Bytes, headers: Sequence[BatchHeader]) -> None:
        """Write some batches in one piece; all are counted or none."""
        position = self.size
        written = self.file.pwrite(records, position)
        if written != len(records):
            raise _short_write(written, len(records), self.file.path)
        for header in headers:
            self.on_batch(position, header.size_bytes, header.last_offset, header.max_timestamp)
            position += header.size_bytes

    def on_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Count a batch that is now in the file, and add to the indexes when it is time."""
        self.size = position + size
        self.end_offset = last_offset + 1
        self._note(position, last_offset, max_timestamp)

    def _note(self, position: int, last_offset: int, max_timestamp: int) -> None:
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if not position:
            self._first_timestamp = max_timestamp
        if position - self._indexed_position > self._index_interval_bytes:
            self._add_index_entries(position, last_offset)

    def _add_index_entries(self, position: int, last_offset: int) -> None:
        """An index that cannot be written now is written when the segment rolls; the batch is in the log already."""
        offset_index, time_index = self.offset_index, self.time_index
        self._indexed_position = position
        indexed_end = offset_index.end_offset
        try:
            try:
                offset_index.append(last_offset, position)
            finally:  # an entry waits in memory when it cannot be written, so both have theirs
                time_index.truncate_to(indexed_end)  # what a stop noted, or a roll that failed
                time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)
        except OSError as error:
            _logger.warning("%s: the index could not be written: %s", self.path(OFFSET_INDEX_SUFFIX), error)
        self.is_full = offset_index.is_full(self._index_bytes) or time_index.is_full(self._index_bytes)

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """A marker in this segment aborts a transaction."""
        self.transaction_index.append(aborted)
        self.has_aborted = True

    def replace_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        """What the markers say, when the transaction index cannot be trusted; durable."""
        self.transaction_index.replace(aborted)
        self.has_aborted = bool(aborted)

    def cut_back(self) -> None:
        """After a write that failed: the file holds whole batches only again."""
        self.file.truncate(self.size)

    def reset_for_scan(self) -> None:
        """Forget what the indexes say; `on_batch` makes them anew."""
        self.size = 0
        self.end_offset = self.base_offset
        self.holes = ()
        self._indexed_position = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._is_max_timestamp_known = True
        self._first_timestamp = None
        self.is_scanned = True
        self.offset_index.reset()
        self.time_index.reset()

    def write_indexes(self) -> None:
        """Bring the index files up to date, as of a closed segment. They are hints: nothing waits for them.

        Without news since the last time the files stay as they are: they may be durable, and trusted after a crash.
        """
        if self.time_index.last != self.max_timestamp:
            self.time_index.truncate_to(self.offset_index.end_offset)
            self.time_index.maybe_append(*self.max_timestamp)
        self.time_index.flush()
        self.offset_index.flush()
        if self.has_aborted:
            self.transaction_index.flush()

    def sync_indexes(self) -> None:
        """Write them and make them survive a crash, as after a scan that made them anew."""
        self.write_indexes()
        self.time_index.sync()
        self.offset_index.sync()

    def truncate_to(self, offset: int) -> None:
        """Cut every batch with an offset at or above this one; the file is synced, for the log may go on from here."""
        position = next((hole.position for hole in self.holes if hole.offset <= offset < hole.end_offset), None)
        if position is None:
            boundary = self.find(offset)
            if boundary is None:
                return
            position = boundary.position
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        if self.has_aborted:
            self.transaction_index.truncate_to(offset)
        self.holes = tuple(hole for hole in self.holes if hole.position < position)
        self.size = position
        self.end_offset = self._end_offset_before(position)
        self._is_max_timestamp_known = False
        self._first_timestamp = None
        _, self._indexed_position = self.offset_index.last
        self.file.truncate(position)
        self.file.sync()
        _ = self.max_timestamp  # known again before the next append

    # Reading.

    def batches(self, position: int = 0, end_position: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) from a boundary on, up to `end_position`; CORRUPT_MESSAGE where there is no batch."""
        end = self.size if end_position is None else end_position
        file, holes = self.file, self.holes
        chunk, chunk_at = b"", position
        while position < end:
            for hole in holes:
                if hole.position <= position < hole.end_position:
                    position = hole.end_position
            if position >= end:
                return
            if position + HEADER_SIZE > chunk_at + len(chunk):
                chunk, chunk_at = file.pread(max(HEADER_SIZE, min(WALK_BYTES, end - position)), position), position
            header = self._header_or_raise(chunk, position - chunk_at, position)
            yield position, header
            position += LOG_OVERHEAD + header.batch_length

    def _header_or_raise(self, chunk: bytes, at: int, position: int) -> BatchHeader:
        """Outside the checksum, so looked at each time: length, magic, offset."""
        if len(chunk) - at >= HEADER_SIZE:
            header = BatchHeader._make(HEADER.unpack_from(chunk, at))
            fits = HEADER_SIZE <= header.size_bytes <= self.size - position
            if fits and header.magic == MAGIC and self.base_offset <= header.base_offset < self.end_offset:
                return header
        raise corrupt(f"{self.path(LOG_SUFFIX)}: no batch begins at position {position}.")

    def check_readable(self, offset: int) -> None:
        """CORRUPT_MESSAGE for an offset that was lost with damaged bytes."""
        for hole in self.holes:
            if hole.offset <= offset < hole.end_offset:
                raise corrupt(f"{self.path(LOG_SUFFIX)}: offsets {hole.offset} to {hole.end_offset - 1} are damaged.")

    def find(self, offset: int) -> Boundary | None:
        """The first batch that ends at or after the offset; None when all end before."""
        if offset >= self.end_offset:
            return None
        for position, header in self.batches(self.hint_for(offset)):
            if header.last_offset >= offset:
                return Boundary(position, header.base_offset)
        return None

    def hint_for(self, offset: int) -> int:
        """A position at or before the batch that holds the offset, from the index if its entry is true."""
        entry_offset, position = self.offset_index.lookup(offset)
        if position and not self._is_batch_at(position, entry_offset):
            self.rebuild_indexes()
            _, position = self.offset_index.lookup(offset)
        return position

    def _hint_before(self, limit: int) -> int:
        """A batch boundary at or before the position."""
        entry_offset, position = self.offset_index.boundary_at_or_before(limit)
        if position and not self._is_batch_at(position, entry_offset):
            self.rebuild_indexes()
            _, position = self.offset_index.boundary_at_or_before(limit)
        return position

    def _is_batch_at(self, position: int, last_offset: int) -> bool:
        """Whether an entry of the offset index is true: a batch with this last offset begins there."""
        data = self.file.pread(HEADER_SIZE, position) if 0 < position < self.size else b""
        if len(data) < HEADER_SIZE:
            return False
        header = BatchHeader._make(HEADER.unpack(data))
        return header.magic == MAGIC and header.last_offset == last_offset

    def _checked_time_entry(self, entry: tuple[int, int]) -> tuple[int, int]:
        """The entry of the time index, if the batch it names brought that timestamp; else what the log itself says."""
        timestamp, offset = entry
        if timestamp == NO_TIMESTAMP:
            return entry
        for _, header in self.batches(self.hint_for(offset)):
            if header.last_offset >= offset:
                if (header.max_timestamp, header.last_offset) == entry:
                    return entry
                break
        self.rebuild_indexes()
        return self.time_index.lookup(timestamp)

    def rebuild_indexes(self) -> None:
        """An entry is not true: make both indexes anew from the headers. CORRUPT_MESSAGE when those are damaged too."""
        _logger.warning("%s is wrong and is made anew.", self.path(OFFSET_INDEX_SUFFIX))
        self.offset_index.reset()
        self.time_index.reset()
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._indexed_position = 0
        for position, header in self.batches():
            self._note(position, header.last_offset, header.max_timestamp)
        self._is_max_timestamp_known = True
        if not self.is_active:
            self.write_indexes()

    def end_before_offset(self, start: int, end_offset: int) -> Boundary:
        """The first boundary at or after `start` whose batch does not begin before the offset."""
        if end_offset < self.end_offset:
            for position, header in self.batches(max(start, self.hint_for(end_offset - 1))):
                if header.base_offset >= end_offset:
                    return Boundary(position, header.base_offset)
        return Boundary(self.size, self.end_offset)

    def end_before_position(self, start: int, limit: int) -> Boundary:
        """The last boundary at or before the position `limit`, not before `start`."""
        known = self._hint_before(limit)
        for position, header in self.batches(max(start, known)):
            if position + header.size_bytes > limit:
                return Boundary(position, header.base_offset)
        return Boundary(self.size, self.end_offset)

    def end_of_batch(self, position: int) -> Boundary:
        """Where the batch that begins here ends."""
        for _, header in self.batches(position):
            return Boundary(position + header.size_bytes, header.next_offset)
        return Boundary(self.size, self.end_offset)

    def _end_offset_before(self, position: int) -> int:
        """One more than the last offset in front of a boundary."""
        end_offset = self.base_offset
        known = self._hint_before(position - 1)
        for _, header in self.batches(known, position):
            end_offset = header.last_offset + 1
        return end_offset

    # Time.

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp, and the last offset of the first batch that has it; (-1, base offset) without one."""
        if not self._is_max_timestamp_known:
            self._max_timestamp, self._max_timestamp_offset = self._checked_time_entry(self.time_index.last)
            for _, header in self.batches(self.hint_for(self.end_offset - 1)):
                if header.max_timestamp > self._max_timestamp:
                    self._max_timestamp, self._max_timestamp_offset = header.max_timestamp, header.last_offset
            self._is_max_timestamp_known = True
        return self._max_timestamp, self._max_timestamp_offset

    @property
    def first_timestamp(self) -> int | None:
        """The first batch's largest timestamp, by which Kafka counts segment.ms; None in an empty segment."""
        if self._first_timestamp is None:
            for _, header in self.batches():
                self._first_timestamp = header.max_timestamp
                break
        return self._first_timestamp

    def newest_timestamp(self) -> int:
        """For retention: the largest timestamp, or when the file was last written."""
        timestamp, _ = self.max_timestamp
        return timestamp if timestamp >= 0 else self.written_ms()

    def written_ms(self) -> int:
        """When the file was last written, by the file system."""
        return self._files.mtime_ms(self.path(LOG_SUFFIX))

    def batches_since(self, timestamp_ms: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches, from the offset on, that have a record at or after the time."""
        _, known_offset = self._checked_time_entry(self.time_index.lookup(timestamp_ms))
        for position, header in self.batches(self.hint_for(max(known_offset, offset))):
            if header.last_offset >= offset and header.max_timestamp >= timestamp_ms:
                yield position, header


def _short_write(written: int, size: int, path: str) -> OSError:
    """A disk that takes a part of a write is full, or nearly so."""
    return OSError(errno.ENOSPC, f"only {written} of {size} bytes were written", path)
