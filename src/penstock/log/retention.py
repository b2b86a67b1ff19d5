"""Which segments a log no longer has to keep. Pure: sizes and times in, a count of segments from the front out.

Rules, which are Kafka's: segments go from the oldest on, and the first that must stay ends the search. A segment goes
when the log start offset has passed it; when its newest record is older than `retention.ms`; or when the log without
it is still at least `retention.bytes` large. Nothing at or above the high watermark goes by time or size. The active
segment may go too: the log rolls first, so that one segment is always there. An empty active segment stays.
By time the active segment goes only when it was also not written to for `retention.ms`: history that is loaded with its
old timestamps stays readable for a while, as it does in Kafka until its segment rolls.

A topic that only compacts (`cleanup.policy=compact`) loses nothing by time or size, but still what is below the log
start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.log.config import NO_LIMIT, LogConfig


class Kept(Protocol):
    """What retention looks at in a segment."""

    @property
    def size(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def newest_timestamp(self) -> int:
        """Of its records; where they have none, when the file was last written."""
        ...

    def written_ms(self) -> int:
        """When the file was last written."""
        ...


def expired_segment_count(
    segments: Sequence[Kept], config: LogConfig, now_ms: int, log_start_offset: int, high_watermark: int
) -> int:
    """How many segments from the front can go."""
    excess_bytes = 0
    if config.deletes and config.retention_bytes != NO_LIMIT:
        excess_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    for segment in segments:
        if segment.size == 0 and segment is segments[-1]:
            break
        below_start = segment.end_offset <= log_start_offset
        by_policy = config.deletes and segment.end_offset <= high_watermark
        too_old = config.retention_ms != NO_LIMIT and _is_old(segment, segments[-1], now_ms - config.retention_ms)
        too_much = config.retention_bytes != NO_LIMIT and excess_bytes - segment.size >= 0
        if not below_start and not (by_policy and (too_old or too_much)):
            break
        excess_bytes -= segment.size
        count += 1
    return count


def _is_old(segment: Kept, active: Kept, oldest_ms: int) -> bool:
    if segment.newest_timestamp() >= oldest_ms:
        return False
    return segment is not active or segment.written_ms() < oldest_ms
