"""Where fetches wait for data.

A fetch that finds less than `min_bytes` waits on its partitions. Appends only add up how much came to which
partition; once per turn of the event loop, after all appends of that turn, those that have enough are answered. So a
burst of small appends wakes a consumer once.

A fetch of committed data sees nothing of what is appended while a transaction is open, and all of it at once when the
transaction ends. So where the last stable offset is behind the high watermark bytes are not counted for it: it is woken
when that offset has moved, and then reads and waits again if it is still not enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.broker.replicas.partition import Partition


class Waiter:
    """One waiting fetch. `complete` is called once: with enough bytes, at the deadline, or when a partition changed."""

    __slots__ = ("_complete", "_timer", "is_committed", "is_done", "missing_bytes", "partitions", "unstable")

    def __init__(
        self,
        missing_bytes: int,
        partitions: Iterable[Partition],
        complete: Callable[[bool], None],
        is_committed: bool = False,
    ) -> None:
        self.missing_bytes = missing_bytes
        self.is_committed = is_committed
        self.unstable: dict[Partition, int] = {}
        """For committed data: the last stable offset where it was behind the high watermark when the wait began."""
        self.partitions = tuple(partitions)
        self._complete: Callable[[bool], None] | None = complete
        self._timer: asyncio.TimerHandle | None = None
        self.is_done = False

    def start(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self._timer = loop.call_later(timeout_s, self.finish, True)
        for partition in self.partitions:
            partition.waiters.add(self)
            if self.is_committed and partition.log.is_unstable:
                self.unstable[partition] = partition.log.last_stable_offset

    def on_data(self, partition: Partition, size_bytes: int) -> None:
        """So much more was appended; is it enough?"""
        if self.is_committed and (partition.log.is_unstable or partition in self.unstable):
            seen = self.unstable.get(partition)
            if seen is None or partition.log.last_stable_offset > seen:
                self.finish()
            return
        self.missing_bytes -= size_bytes
        if self.missing_bytes <= 0:
            self.finish()

    def finish(self, is_expired: bool = False) -> None:
        complete = self._complete
        if self.cancel() and complete is not None:
            complete(is_expired)

    def cancel(self) -> bool:
        """Stop waiting without an answer; False when it was over already."""
        if self.is_done:
            return False
        self.is_done = True
        self._complete = None  # it knows the waiter: two that know each other are left to the garbage collector
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for partition in self.partitions:
            partition.waiters.discard(self)
        return True


class Purgatory:
    """All that wait, and what arrived in this turn."""

    __slots__ = ("_arrived", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._arrived: dict[Partition, int] = {}

    def wait(self, waiter: Waiter, timeout_ms: float) -> None:
        # What came earlier in this turn was found by the waiter's own read: it must not count again.
        waiter.missing_bytes += sum(self._arrived.get(partition, 0) for partition in waiter.partitions)
        waiter.start(self._loop, timeout_ms / 1000)

    def on_data(self, partition: Partition, size_bytes: int) -> None:
        """Readers of the partition can see more: remember it until the end of the turn."""
        if not self._arrived:
            self._loop.call_soon(self._wake)
        self._arrived[partition] = self._arrived.get(partition, 0) + size_bytes

    def on_change(self, partition: Partition) -> None:
        """The partition moved or went away: whoever waits on it learns so at once."""
        for waiter in tuple(partition.waiters):
            waiter.finish()

    def _wake(self) -> None:
        arrived, self._arrived = self._arrived, {}
        # All that wait now: one that looks and waits again has seen everything of this turn.
        waiting = [(partition, tuple(partition.waiters)) for partition in arrived]
        for partition, waiters in waiting:
            for waiter in waiters:
                if not waiter.is_done:
                    waiter.on_data(partition, arrived[partition])
