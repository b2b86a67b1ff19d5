"""Time, passed in. `now_ms` is what people and records mean by time; `monotonic` is what timeouts count by."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970, as the wall clock has it: it may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for timeouts and rates."""
        ...


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
