"""Reading a log: by offset, as slices of whole batches in a file, and by time.

A slice never holds bytes: it says where they are, and whoever sends it uses `sendfile` or `pread`. It ends at a batch
boundary, at the end offset that the reader may see, at a hole, or at the segment's end, whichever comes first.

A consumer that follows the tail must not search: where a slice ended is remembered with the offset of the next batch,
for the last `REMEMBERED_ENDS` slices, and the next read begins there. Everything else starts at an index entry and
walks headers. The memory is dropped whenever a position may have changed its meaning: a roll, a truncation, a
deletion.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.env.files import File
from penstock.log.segment import Boundary, Segment
from penstock.log.segments import Segments
from penstock.wire.record import iterate_records
from penstock.wire.records import BatchHeader, corrupt

REMEMBERED_ENDS = 64
"""Readers at different places of one log; beyond that the oldest place is searched for again."""


class LogSlice(NamedTuple):
    """Whole batches in one segment's file; `base_offset` is that of the first."""

    file: File
    position: int
    size: int
    base_offset: int
    end_offset: int
    """Of the batch after the last: everything in the slice is below."""


class TimestampOffset(NamedTuple):
    """A record found by time."""

    timestamp: int
    offset: int
    leader_epoch: int


class LogReader:
    __slots__ = ("_ends", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._ends: dict[int, tuple[Segment, int]] = {}

    def forget_ends(self) -> None:
        self._ends.clear()

    def read(self, offset: int, max_bytes: int, end_offset: int, minimum_one: bool) -> LogSlice | None:
        """Batches from the one that holds the offset on, all beginning before `end_offset`; None without any."""
        known = self._ends.get(offset)
        if known is not None and known[1] < known[0].size:
            segment, start = known[0], Boundary(known[1], offset)
        else:
            place = self._find(offset)
            if place is None:
                return None
            segment, start = place
        if start.base_offset >= end_offset:
            return None
        end = self._slice_end(segment, start, max_bytes, end_offset, minimum_one)
        if end.position <= start.position:
            return None
        if not segment.holes:
            self._remember(end.base_offset, segment, end.position)
        size = end.position - start.position
        return LogSlice(segment.file, start.position, size, start.base_offset, end.base_offset)

    def _find(self, offset: int) -> tuple[Segment, Boundary] | None:
        """The first batch that ends at or after the offset; later segments are tried where offsets are missing."""
        number = max(0, self._segments.floor(offset))
        while number < len(self._segments):
            segment = self._segments[number]
            segment.check_readable(offset)
            boundary = segment.find(offset)
            if boundary is not None:
                return segment, boundary
            number += 1
        return None

    def _slice_end(
        self, segment: Segment, start: Boundary, max_bytes: int, end_offset: int, minimum_one: bool
    ) -> Boundary:
        if end_offset >= segment.end_offset:
            end = Boundary(segment.size, segment.end_offset)
        else:
            end = segment.end_before_offset(start.position, end_offset)
        for hole in segment.holes:
            if start.position < hole.position < end.position:
                end = Boundary(hole.position, hole.offset)
        if end.position - start.position <= max_bytes:
            return end
        cut = segment.end_before_position(start.position, start.position + max_bytes)
        if cut.position == start.position and minimum_one:
            return segment.end_of_batch(start.position)
        return cut

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        ends = self._ends
        if offset not in ends and len(ends) >= REMEMBERED_ENDS:
            del ends[next(iter(ends))]
        ends[offset] = (segment, position)

    def offset_for_timestamp(self, timestamp_ms: int, log_start_offset: int) -> TimestampOffset | None:
        """The first record, in offset order, whose timestamp is at or after the given one."""
        for segment in self._segments:
            if segment.end_offset <= log_start_offset or segment.max_timestamp[0] < timestamp_ms:
                continue
            for position, header in segment.batches_since(timestamp_ms, log_start_offset):
                found = _first_record_since(segment, position, header, timestamp_ms, log_start_offset)
                if found is not None:
                    return found
        return None

    def max_timestamp_offset(self, log_start_offset: int) -> TimestampOffset | None:
        """The first record that has the largest timestamp of the log."""
        best: Segment | None = None
        for segment in self._segments:
            if segment.size and (best is None or segment.max_timestamp[0] > best.max_timestamp[0]):
                best = segment
        if best is None or best.max_timestamp[0] < 0:
            return None
        timestamp, last_offset = best.max_timestamp
        boundary = best.find(last_offset)
        if boundary is None:
            return None
        for position, header in best.batches(boundary.position):
            return _first_record_since(best, position, header, timestamp, log_start_offset)
        return None


def _first_record_since(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, log_start_offset: int
) -> TimestampOffset | None:
    """Decodes the one batch. With LogAppendTime all its records have the header's timestamp."""
    data = segment.file.pread(header.size_bytes, position)
    if len(data) < header.size_bytes:
        raise corrupt(f"{segment.file.path}: the batch at position {position} is cut.")
    for record in iterate_records(data):
        if record.timestamp >= timestamp_ms and record.offset >= log_start_offset:
            return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
