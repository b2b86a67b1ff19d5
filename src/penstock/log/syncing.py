"""How far a log is durable, and what a thread may sync so that it gets further while the log goes on.

A sync covers the log's end as it is when the sync starts: the bytes of each segment that reaches beyond the recovery
point, the indexes and the producer snapshot of each segment closed since, and the directory when it has new names.
The thread touches none of the log's state: closed segments are opened anew by path (`fdatasync` writes what any
descriptor wrote), so the log may release or delete them meanwhile, and a file that is gone needs no sync. Several
syncs may run at once. When one has finished, what it covered counts, less what was truncated while it ran.

The recovery point that goes to the checkpoint is not above a closed segment whose indexes are not synced yet: the next
start then scans that segment and makes them anew, and may trust the indexes of every segment below.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from penstock.env.files import Files
from penstock.log.producer_state import SNAPSHOT_SUFFIX
from penstock.log.segment import SEGMENT_SUFFIXES, Segment, segment_path


class Syncable(Protocol):
    def sync(self) -> None:
        """Blocks until it survives a crash; an OSError means that the log must be fenced."""
        ...


@dataclass(frozen=True, slots=True)
class PathSync:
    """The files of a segment."""

    files: Files
    paths: tuple[str, ...]

    def sync(self) -> None:
        for path in self.paths:
            try:
                file = self.files.open(path)
            except FileNotFoundError:
                continue
            file.sync()
            file.close()


@dataclass(frozen=True, slots=True)
class DirectorySync:
    """The names in the log's directory."""

    files: Files
    directory: str

    def sync(self) -> None:
        self.files.sync_dir(self.directory)


@dataclass(slots=True)
class _Run:
    """One sync that has started and not finished."""

    end_offset: int
    closed: set[Segment]
    names: set[int]


class Durability:
    """What of a log would survive a crash now."""

    __slots__ = ("_closed", "_directory", "_files", "_names", "_running", "recovery_point")

    def __init__(self, files: Files, directory: str, recovery_point: int, first_name: int) -> None:
        self.recovery_point = recovery_point
        self._files = files
        self._directory = directory
        self._closed: set[Segment] = set()
        self._names = {first_name}
        self._running: dict[int, deque[_Run]] = {}

    @property
    def checkpoint_offset(self) -> int:
        """The recovery point that may be written down."""
        return min([self.recovery_point, *(segment.base_offset for segment in self._closed)])

    @property
    def has_closed_segments(self) -> bool:
        """A segment was closed and is not synced, indexes included; Kafka syncs it in any case, soon."""
        return bool(self._closed)

    def on_created(self, base_offset: int) -> None:
        self._names.add(base_offset)

    def on_closed(self, segment: Segment) -> None:
        self._closed.add(segment)

    def on_truncated(self, offset: int) -> None:
        """Everything from the offset on is gone, or will be."""
        self.recovery_point = min(self.recovery_point, offset)
        for runs in self._running.values():
            for run in runs:
                run.end_offset = min(run.end_offset, offset)

    def keep_only(self, segments: Iterable[Segment]) -> None:
        """Others were deleted, or are active again."""
        self._closed &= {segment for segment in segments if not segment.is_active}

    def start(self, segments: Iterable[Segment], end_offset: int) -> list[Syncable]:
        """What to sync, in this order. The oldest comes first, so that no hole becomes durable before what is below."""
        found: list[Syncable] = []
        for segment in segments:
            if segment.is_active and segment.end_offset > self.recovery_point:
                found.append(segment.file)
            elif not segment.is_active and (segment in self._closed or segment.end_offset > self.recovery_point):
                found.append(PathSync(self._files, self._paths(segment)))
        if found and self._names:
            found.append(DirectorySync(self._files, self._directory))
        run = _Run(end_offset, set(self._closed), set(self._names) if found else set())
        self._running.setdefault(end_offset, deque()).append(run)
        return found

    def _paths(self, segment: Segment) -> tuple[str, ...]:
        """The segment's own files, and the producers as of its end."""
        snapshot = segment_path(self._directory, segment.end_offset, SNAPSHOT_SUFFIX)
        return (*(segment.path(suffix) for suffix in SEGMENT_SUFFIXES), snapshot)

    def finish(self, end_offset: int) -> None:
        """A sync that was started for this end is done; among equals the oldest is taken, which claims the least."""
        runs = self._running.get(end_offset)
        if not runs:
            return
        run = runs.popleft()
        if not runs:
            del self._running[end_offset]
        self.recovery_point = max(self.recovery_point, run.end_offset)
        self._closed -= run.closed
        self._names -= run.names
