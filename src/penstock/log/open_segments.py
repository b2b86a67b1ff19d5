"""The closed segments whose files are open: a bounded set over all logs; the least recently read is released first.

A broker has many more segments than file descriptors. The active segment of each log holds its file for good; the
others are opened when they are read and released here later. A released file is not closed: it closes its descriptor
when the last slice that refers to it is gone, so a slice in a connection's queue stays readable.
"""

from __future__ import annotations

from typing import Protocol

MAX_OPEN_SEGMENTS = 512
"""Three descriptors each; leaves most of a usual limit of 20,000 to connections and active segments."""


class Releasable(Protocol):
    def release(self) -> None:
        """Let the files go; the next use opens them again."""
        ...


class OpenSegments:
    __slots__ = ("_limit", "_segments")

    def __init__(self, limit: int = MAX_OPEN_SEGMENTS) -> None:
        self._limit = limit
        self._segments: dict[Releasable, None] = {}

    def touch(self, segment: Releasable) -> None:
        """The segment is about to be read."""
        self._segments.pop(segment, None)
        self._segments[segment] = None
        if len(self._segments) > self._limit:
            oldest = next(iter(self._segments))
            del self._segments[oldest]
            oldest.release()

    def forget(self, segment: Releasable) -> None:
        self._segments.pop(segment, None)

    def __len__(self) -> int:
        return len(self._segments)
