"""What the broker counts: plain integers, raised where the thing happens, read by whoever shows them.

A counter on the hot path is one addition; rates and percentiles are made by the reader from two readings.
"""

from __future__ import annotations

from collections import Counter


class Metrics:
    """Counters of one broker since its start."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "fetch_waits",
        "fetches_expired",
        "malformed_requests",
        "messages_in",
        "produce_errors",
        "requests",
        "unexpected_errors",
    )

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        """By API key."""
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.produce_errors = 0
        self.fetch_waits = 0
        self.fetches_expired = 0
        self.malformed_requests = 0
        self.unexpected_errors = 0
