"""Opening a log's directory: what is on the disk becomes segments, and after an unclean stop it is checked first.

After a clean stop the files are taken as they are; only the newest segment is walked, from its last index entry, to
find the log's end. After an unclean stop every segment that reaches beyond the recovery point is scanned batch by
batch and its indexes are made anew; what is below the recovery point was synced before the stop.

The scan checks the checksum and, because that does not cover them, the length, the magic byte, the base offset (the
next one, where nothing was compacted away) and the leader epoch (the one that the log's list of epochs has for the
offset).

At the first bytes that are no such batch there are two cases.
- Nothing valid comes after, in this segment or a later one: the torn tail of the last writes. It is cut.
- A valid batch with a larger offset comes after: corruption. The bytes stay where they are, the range becomes a hole of
  the segment and is reported; all the rest is served. A batch that is whole but in the wrong place is a hole too.

This is where Penstock differs from Kafka, which cuts at the first bad batch and deletes every later segment.

Leftovers of an interrupted deletion or write (`.deleted`, `.tmp`, `.cleaned`, indexes without a log) are removed.
Compaction's `.swap` files are finished as Kafka does: they replace the segments they were made from.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.env.files import File, Files
from penstock.errors import KafkaError
from penstock.log.config import LogConfig
from penstock.log.epochs import LeaderEpochs
from penstock.log.index_file import CorruptIndexError
from penstock.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, Hole, Segment
from penstock.log.segments import Segments
from penstock.wire.crc32c import crc32c
from penstock.wire.records import ATTRIBUTES_AT, HEADER, HEADER_SIZE, MAGIC, BatchHeader

SCAN_BYTES = 1 << 20
"""Read at once by a scan: large enough that a system call costs nothing, small enough to be kept in a cache."""

LEFTOVER_SUFFIXES = (DELETED_SUFFIX, ".tmp", ".cleaned")
SWAP_SUFFIX = ".swap"

_logger = logging.getLogger(__name__)


class Corruption(NamedTuple):
    """A hole that a scan found, for people and metrics."""

    path: str
    hole: Hole
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path}: positions {self.hole.position} to {self.hole.end_position} are damaged ({self.reason}); "
            f"offsets {self.hole.offset} to {self.hole.end_offset - 1} cannot be read, the rest of the log can."
        )


class Found(NamedTuple):
    """A segment as a scan left it: its `size` is where the good bytes end, and `reason` says what is behind them."""

    segment: Segment
    file_size: int
    reason: str

    @property
    def is_whole(self) -> bool:
        return self.segment.size == self.file_size


def load_segments(
    files: Files,
    directory: str,
    segments: Segments,
    config: LogConfig,
    first_unsynced_offset: int | None,
    epochs: LeaderEpochs,
) -> list[Corruption]:
    """Fill `segments` from the directory, the newest last and not yet active; the holes found are returned.

    `first_unsynced_offset` is the recovery point after an unclean stop, None after a clean one.
    """
    base_offsets = clean_directory(files, directory)
    found = [segments.new(base_offset, config) for base_offset in base_offsets]
    for segment, next_base_offset in zip(found, [*base_offsets[1:], 0], strict=False):
        segment.size = files.size(segment.path(LOG_SUFFIX))
        segment.end_offset = max(segment.base_offset, next_base_offset)  # the newest one's end is found below
    unchecked = _count_trusted(found, first_unsynced_offset)
    if first_unsynced_offset is None and found and not _find_end(found[-1]):
        _logger.warning("%s: the newest segment is not as a clean stop leaves it; it is scanned.", directory)
        unchecked = len(found) - 1
    for segment in found[:unchecked]:
        segments.hold(segment)
    return _scan_rest(files, directory, segments, found[unchecked:], epochs, not config.compacts)


def _count_trusted(found: Sequence[Segment], first_unsynced_offset: int | None) -> int:
    """How many segments from the front need no scan. After an unclean stop the newest always does."""
    if first_unsynced_offset is None:
        return len(found)
    return sum(segment.end_offset <= first_unsynced_offset for segment in found[:-1])


def _find_end(segment: Segment) -> bool:
    """Set a trusted newest segment's end by walking from its last index entry; False when that leads nowhere."""
    segment.end_offset = segment.base_offset + 2**31  # the walk refuses offsets beyond the end, which is not yet known
    try:
        segment.offset_index.check_sane(segment.end_offset, max(1, segment.size))
        segment.time_index.check_sane(segment.end_offset)
        end_offset = segment.base_offset
        for _, header in segment.batches(segment.offset_index.last[1]):
            end_offset = header.last_offset + 1
    except (CorruptIndexError, KafkaError):
        return False
    segment.end_offset = end_offset
    return True


def _scan_rest(
    files: Files,
    directory: str,
    segments: Segments,
    unchecked: Sequence[Segment],
    epochs: LeaderEpochs,
    is_contiguous: bool,
) -> list[Corruption]:
    corruptions: list[Corruption] = []
    results: list[Found] = []
    for segment in unchecked:
        scan = Scan(segment, epochs, is_contiguous)
        results.append(scan.run())
        corruptions += scan.corruptions
    last_good = max((number for number, result in enumerate(results) if result.segment.size), default=0)
    for number, result in enumerate(results):
        segment = result.segment
        if number < last_good:
            corruptions += _mark_lost_end(result, results[number + 1].segment.base_offset, is_contiguous)
        elif number > last_good and segment.base_offset != results[last_good].segment.end_offset:
            _drop(files, directory, segment)
            continue
        elif not result.is_whole:
            _cut(files, result)
        segment.sync_indexes()  # the recovery point on the disk may be above this segment, and they are trusted then
        segments.hold(segment)
    for corruption in corruptions:
        _logger.error("%s", corruption)
    return corruptions


def _mark_lost_end(result: Found, next_base_offset: int, is_contiguous: bool) -> list[Corruption]:
    """A closed segment must reach to the next one; what it lacks is a hole at its end."""
    segment = result.segment
    hole = Hole(segment.size, result.file_size, segment.end_offset, next_base_offset)
    is_complete = result.is_whole and (hole.offset == hole.end_offset or not is_contiguous)
    segment.size, segment.end_offset = result.file_size, next_base_offset
    if is_complete:
        return []
    segment.holes = (*segment.holes, hole)
    return [Corruption(segment.path(LOG_SUFFIX), hole, result.reason or "the end of the segment is missing")]


def _cut(files: Files, result: Found) -> None:
    path = result.segment.path(LOG_SUFFIX)
    torn = result.file_size - result.segment.size
    _logger.warning("%s: the last %d bytes are torn (%s) and are cut.", path, torn, result.reason)
    file = files.open(path)
    file.truncate(result.segment.size)
    file.sync()
    file.close()


def _drop(files: Files, directory: str, segment: Segment) -> None:
    """A newest segment in which nothing was ever completed, behind a tail that was cut."""
    _logger.warning("%s holds no batch and does not follow the log's end; it is removed.", segment.path(LOG_SUFFIX))
    segment.release()
    for suffix in SEGMENT_SUFFIXES:
        if files.exists(segment.path(suffix)):
            files.unlink(segment.path(suffix))
    files.sync_dir(directory)


class Scan:
    """One pass over a segment's file: good batches are counted and indexed, the rest is told apart."""

    def __init__(self, segment: Segment, epochs: LeaderEpochs, is_contiguous: bool) -> None:
        self.corruptions: list[Corruption] = []
        self._segment = segment
        self._epochs = epochs
        self._is_contiguous = is_contiguous
        self._file_size = segment.size
        self._file: File = segment.file
        self._chunk = b""
        self._chunk_at = 0
        self._last_epoch = -1

    def run(self) -> Found:
        """Index every good batch; the segment's `size` and `end_offset` end up behind the last one."""
        segment = self._segment
        segment.reset_for_scan()
        position, reason = 0, ""
        while position < self._file_size:
            header = self._header_at(position)
            reason = self._problem(position, header, segment.end_offset)
            if not reason:
                assert header is not None
                self._accept(position, header)
                position += header.size_bytes
                continue
            next_position = self._resume(position, header, reason)
            if next_position is None:
                break
            position, reason = next_position, ""
        return Found(segment, self._file_size, reason)

    def _accept(self, position: int, header: BatchHeader) -> None:
        self._last_epoch = header.partition_leader_epoch
        self._segment.on_batch(position, header.size_bytes, header.last_offset, header.max_timestamp)

    def _header_at(self, position: int) -> BatchHeader | None:
        """The header, when its magic and length could be those of a batch in this file."""
        if position + HEADER_SIZE > self._file_size:
            return None
        at = position - self._chunk_at
        if not 0 <= at <= len(self._chunk) - HEADER_SIZE:
            self._chunk, self._chunk_at, at = self._file.pread(SCAN_BYTES, position), position, 0
        if len(self._chunk) - at < HEADER_SIZE:
            return None
        header = BatchHeader._make(HEADER.unpack_from(self._chunk, at))
        if header.magic != MAGIC or not HEADER_SIZE <= header.size_bytes <= self._file_size - position:
            return None
        return header

    def _problem(self, position: int, header: BatchHeader | None, expected_offset: int) -> str:
        """Why this is not the next batch of the log; nothing when it is."""
        if header is None:
            return "no batch header"
        if not self._is_intact(position, header):
            return "a wrong checksum"
        if header.last_offset_delta < 0 or header.base_offset < expected_offset:
            return f"a batch with base offset {header.base_offset} where {expected_offset} is next"
        if header.base_offset > expected_offset and not self._is_gap(position, header):
            return f"a batch with base offset {header.base_offset} where {expected_offset} is next"
        if not self._is_plausible_epoch(header):
            return f"a batch of leader epoch {header.partition_leader_epoch} at offset {header.base_offset}"
        return ""

    def _is_intact(self, position: int, header: BatchHeader) -> bool:
        start, end = position + ATTRIBUTES_AT, position + header.size_bytes
        at = start - self._chunk_at
        if at >= 0 and end - self._chunk_at <= len(self._chunk):
            return crc32c(memoryview(self._chunk)[at : end - self._chunk_at]) == header.crc
        crc = 0
        while start < end:
            piece = self._file.pread(min(SCAN_BYTES, end - start), start)
            if not piece:
                return False
            crc = crc32c(piece, crc)
            start += len(piece)
        return crc == header.crc

    def _is_gap(self, position: int, header: BatchHeader) -> bool:
        """Offsets were compacted away: then the next batch goes on from here, which after a flipped bit it does not."""
        if not self._is_contiguous:
            return True
        following = self._header_at(position + header.size_bytes)
        return following is not None and following.base_offset == header.next_offset

    def _is_plausible_epoch(self, header: BatchHeader) -> bool:
        known = self._epochs.epoch_for_offset(header.base_offset)
        if known is not None:
            return header.partition_leader_epoch == known
        return header.partition_leader_epoch >= self._last_epoch

    def _resume(self, position: int, header: BatchHeader | None, reason: str) -> int | None:
        """Note a hole at the position and say where the log goes on; None when nothing valid follows."""
        offset = self._segment.end_offset
        misplaced = header is not None and self._is_intact(position, header) and header.last_offset_delta >= 0
        after = position + header.size_bytes if header is not None and misplaced else position + 1
        found = next(self._valid_batches(after, offset), None)
        if found is not None:
            hole = Hole(position, found[0], offset, found[1].base_offset)
        elif header is not None and misplaced:
            hole = Hole(position, after, offset, offset + header.last_offset_delta + 1)
        else:
            return None
        self.corruptions.append(Corruption(self._segment.path(LOG_SUFFIX), hole, reason))
        self._segment.holes = (*self._segment.holes, hole)
        self._segment.size, self._segment.end_offset = hole.end_position, hole.end_offset
        return hole.end_position

    def _valid_batches(self, position: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Batches at any position from here on that are whole and belong behind the offset."""
        pattern = _batch_pattern(offset)
        while position + HEADER_SIZE <= self._file_size:
            data = self._file.pread(SCAN_BYTES, position)
            for match in pattern.finditer(data):
                candidate = position + match.start()
                header = self._header_at(candidate)
                if header is None or header.base_offset <= offset or header.last_offset_delta < 0:
                    continue
                if self._is_plausible_epoch(header) and self._is_intact(candidate, header):
                    yield candidate, header
            position += max(1, len(data) - HEADER_SIZE + 1)


def _batch_pattern(offset: int) -> re.Pattern[bytes]:
    """Where a batch could begin: the upper half of an offset at or a little above this one, and the magic byte."""
    high = {(offset + distance).to_bytes(8, "big")[:4] for distance in (0, 2**31 - 1)}
    alternatives = b"|".join(re.escape(each) for each in sorted(high))
    return re.compile(b"(?=(?:" + alternatives + b").{12}" + bytes([MAGIC]) + b")", re.DOTALL)


def clean_directory(files: Files, directory: str) -> list[int]:
    """Remove leftovers and finish swaps; the base offsets of the segments that are there."""
    names = files.list(directory)
    for name in names:
        if name.endswith(LEFTOVER_SUFFIXES):
            files.unlink(f"{directory}/{name}")
    _finish_swaps(files, directory)
    names = files.list(directory)
    base_offsets = sorted(
        int(stem)
        for stem, suffix in map(_split, names)
        if suffix == LOG_SUFFIX and len(stem) == 20 and stem.isdecimal()
    )
    for name in names:
        stem, suffix = _split(name)
        if suffix in SEGMENT_SUFFIXES and stem.isdecimal() and int(stem) not in base_offsets:
            files.unlink(f"{directory}/{name}")
    return base_offsets


def _split(name: str) -> tuple[str, str]:
    stem, dot, suffix = name.rpartition(".")
    return stem, dot + suffix


def _finish_swaps(files: Files, directory: str) -> None:
    """Compaction replaces segments by `.swap` files: the old ones go, then the swaps take their names."""
    swaps = [name for name in files.list(directory) if name.endswith(SWAP_SUFFIX)]
    logs = sorted(int(name[:20]) for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    if not swaps:
        return
    for swap_base in logs:
        end_offset = _last_offset_of(files, f"{directory}/{swap_base:020d}{LOG_SUFFIX}{SWAP_SUFFIX}", swap_base)
        for name in files.list(directory):
            stem, suffix = _split(name)
            if suffix in SEGMENT_SUFFIXES and stem.isdecimal() and swap_base < int(stem) <= end_offset:
                files.unlink(f"{directory}/{name}")
    for name in swaps:
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    files.sync_dir(directory)


def _last_offset_of(files: Files, path: str, base_offset: int) -> int:
    """The last offset that a walk over the file's headers finds; the base offset when there is none."""
    file, size = files.open(path, writable=False), files.size(path)
    position, last_offset = 0, base_offset
    while position + HEADER_SIZE <= size:
        header = BatchHeader._make(HEADER.unpack(file.pread(HEADER_SIZE, position)))
        if header.magic != MAGIC or header.size_bytes < HEADER_SIZE:
            break
        last_offset = header.last_offset
        position += header.size_bytes
    file.close()
    return last_offset
