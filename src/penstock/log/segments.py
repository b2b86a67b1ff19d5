"""The segments of one log, in order of their base offsets; the last one is active.

Adding a segment makes its `.log` file; the name is durable after the log's next sync (`Log.files_to_sync`), which comes
before anything in it counts as flushed. Deleting is Kafka's: the `.log` is renamed to `.deleted` at once, which is what
decides, and removed `file.delete.delay.ms` later; the indexes, which nobody else can be reading, go at once. The
directory is synced after each segment, so a crash among several leaves no gap between segments: from the front the
oldest goes first, from the end the newest.

After a crash: `.deleted` files and indexes without a log are removed when the log is opened (recovery.py).
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence

from penstock.env.files import Files
from penstock.log.config import LogConfig
from penstock.log.open_segments import OpenSegments
from penstock.log.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    Segment,
)
from penstock.log.transaction_index import AbortedTransaction

_logger = logging.getLogger(__name__)


class Segments:
    """Never empty once the log is open."""

    __slots__ = ("_base_offsets", "_deleted", "_directory", "_files", "_open_segments", "_segments", "active")

    active: Segment

    def __init__(self, files: Files, open_segments: OpenSegments, directory: str) -> None:
        self._files = files
        self._open_segments = open_segments
        self._directory = directory
        self._segments: list[Segment] = []
        self._base_offsets: list[int] = []
        self._deleted: deque[tuple[int, str]] = deque()

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def base_offsets(self) -> Sequence[int]:
        return self._base_offsets

    @property
    def closed_size_bytes(self) -> int:
        """All but the active one: it grows with every append, and this is summed up when it changes only."""
        return sum(segment.size for segment in self._segments[:-1])

    def floor(self, offset: int) -> int:
        """The number of the last segment that begins at or before the offset; -1 when all begin after it."""
        return bisect_right(self._base_offsets, offset) - 1

    def aborted_between(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with batches in the range; their markers may be in later segments."""
        found: list[AbortedTransaction] = []
        for segment in self._segments[max(0, self.floor(offset)) :]:
            if segment.has_aborted:
                more, is_complete = segment.transaction_index.between(offset, end_offset)
                found += more
                if is_complete:
                    break
        return found

    def new(self, base_offset: int, config: LogConfig) -> Segment:
        """A segment that is not one of the log's yet."""
        return Segment(self._files, self._open_segments, self._directory, base_offset, config)

    def create(self, base_offset: int, config: LogConfig, now_ms: int) -> None:
        """Make a new segment, from now on the active one. On OSError nothing has changed."""
        assert not self._segments or base_offset > self._base_offsets[-1], "segments come in order"
        segment = self.new(base_offset, config)
        segment.created_ms = now_ms
        for suffix in SEGMENT_SUFFIXES:  # left by a deletion that failed half way; an old index would mislead
            if self._files.exists(segment.path(suffix)):
                self._files.unlink(segment.path(suffix))
        segment.activate()
        self.hold(segment)
        self.active = segment

    def hold(self, segment: Segment) -> None:
        """A closed segment, found on disk."""
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)

    def reactivate_last(self) -> None:
        """After the segments behind it were removed."""
        self.active = self._segments[-1]
        if not self.active.is_active:
            self.active.activate()

    def delete(self, number: int, remove_at_ms: int) -> None:
        """Take one segment, the first or the last, out of the log; its `.log` is removed at the given time."""
        segment = self._segments[number]
        path = segment.path(LOG_SUFFIX)
        self._files.rename(path, path + DELETED_SUFFIX)
        del self._segments[number], self._base_offsets[number]
        self._deleted.append((remove_at_ms, path + DELETED_SUFFIX))
        self._open_segments.forget(segment)
        segment.forget_files()
        for suffix in INDEX_SUFFIXES:
            if self._files.exists(segment.path(suffix)):
                self._files.unlink(segment.path(suffix))
        self._files.sync_dir(self._directory)

    def sweep_deleted(self, now_ms: int) -> int:
        """Remove the files of deleted segments whose time has come; how many. A thread may do it beside the log."""
        count = 0
        while self._deleted and self._deleted[0][0] <= now_ms:
            _, path = self._deleted.popleft()
            try:
                self._files.unlink(path)
                count += 1
            except OSError as error:
                _logger.warning("%s could not be removed and is tried again at the next start: %s", path, error)
        return count
