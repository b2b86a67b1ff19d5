"""What this broker keeps of a partition of `__consumer_offsets`, where the groups live whose ids hash to it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from penstock.broker.groups.records import TransactionEnd
from penstock.broker.groups.shard import Shard
from penstock.broker.internal_topic import HomeState
from penstock.broker.replicated import ReplicatedLog
from penstock.env.clock import Clock

SHORTEST_TIMER_S = 0.001
"""A timer that went off a little early is set again; not more often than this."""
NEVER = float("inf")


class Home:
    """One partition: its log, the groups in it, a timer for each group that needs one, and who waits for their turn."""

    __slots__ = ("ended_while_loading", "log", "shard", "state", "timers", "waiting")

    def __init__(self, log: ReplicatedLog, shard: Shard) -> None:
        self.log = log
        self.shard = shard
        self.state = HomeState.LOADING
        self.ended_while_loading: list[TransactionEnd] = []
        """Markers that came after the end up to which the log is read; as many as transactions were left prepared."""
        self.timers: dict[str, tuple[float, asyncio.TimerHandle]] = {}
        """Group id -> when it goes off, and what makes it."""
        self.waiting: dict[str, deque[Callable[[], None]]] = {}
        """Group whose records, as a consumer group or to become one, are on their way -> what must be done after that.
        Bounded by the requests that connections may have pending."""

    def set_timer(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        group_id: str,
        deadline_s: float,
        on_timer: Callable[[], None],
    ) -> None:
        """An early timer is left as it is: it finds nothing to do, and is set again."""
        if deadline_s == NEVER:
            self.cancel_timer(group_id)
            return
        known = self.timers.get(group_id)
        if known is not None and known[0] <= deadline_s:
            return
        self.cancel_timer(group_id)
        delay_s = max(deadline_s - clock.monotonic(), SHORTEST_TIMER_S)
        self.timers[group_id] = (deadline_s, loop.call_later(delay_s, on_timer))

    def cancel_timer(self, group_id: str) -> None:
        timer = self.timers.pop(group_id, None)
        if timer is not None:
            timer[1].cancel()

    def cancel_timers(self) -> None:
        for group_id in tuple(self.timers):
            self.cancel_timer(group_id)
