"""Polling several consumers in turn until something is so: a rebalance needs all of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import penstock

DEADLINE_SECONDS = 60.0


def poll_until(
    is_so: Callable[[], bool], *consumers: penstock.Consumer, got: dict[penstock.Consumer, list[int]] | None = None
) -> None:
    """What came is put into `got`, as numbers."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"it did not happen; assigned: {[each.assignment for each in consumers]}"
        for consumer in consumers:
            message = consumer.poll(0.02)
            if message is not None and got is not None:
                got[consumer].append(int(message.value))
