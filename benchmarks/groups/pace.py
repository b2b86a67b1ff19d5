"""The paced loader: requests at even distances in time, whatever the answers do.

Request number n is due n / rate seconds after the start, and goes out on connection n modulo the number of connections
with whatever else is due there by then. What a request took is counted from the moment when it was due, not from when
it was sent: a broker that stalls makes the requests late that wait behind, and that must show.
"""

from __future__ import annotations

import gc
import select
import time
from array import array
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.broker.loader import Channel, Load, connect

POLL_SECONDS = 0.001
ANSWER_TIMEOUT_SECONDS = 60.0


def run_paced(port: int, loads: Sequence[Load], per_second: int) -> array[int]:
    """Each load on a connection of its own, `per_second` requests in all; the nanoseconds that each answer took."""
    with ExitStack() as stack:
        channels = [Channel(stack.enter_context(connect(port)), load, in_flight=0) for load in loads]
        gc.disable()
        try:
            return _drive(channels, 1_000_000_000 // per_second)
        finally:
            gc.enable()


def _drive(channels: Sequence[Channel], interval_ns: int) -> array[int]:
    total = sum(channel.load.count for channel in channels)
    taken = array("q")
    with select.epoll() as poll:
        numbers = {channel.socket.fileno(): number for number, channel in enumerate(channels)}
        for descriptor in numbers:
            poll.register(descriptor, select.EPOLLIN)
        began_ns = time.monotonic_ns()
        deadline_ns = began_ns + total * interval_ns + int(ANSWER_TIMEOUT_SECONDS * 1e9)
        while len(taken) < total:
            now_ns = time.monotonic_ns()
            if now_ns > deadline_ns:
                raise TimeoutError(f"{len(taken)} of {total} answers came in time")
            _send_due(channels, (now_ns - began_ns) // interval_ns + 1)
            for descriptor, _ in poll.poll(POLL_SECONDS):
                number = numbers[descriptor]
                _receive(channels[number], number, len(channels), began_ns, interval_ns, taken)
    return taken


def _send_due(channels: Sequence[Channel], due: int) -> None:
    """The sockets block: a broker that takes no more stops the loader, and the delay counts."""
    for number, channel in enumerate(channels):
        channel.send_until((due - number + len(channels) - 1) // len(channels))


def _receive(channel: Channel, number: int, step: int, began_ns: int, interval_ns: int, taken: array[int]) -> None:
    before = channel.answered
    channel.receive()
    now_ns = time.monotonic_ns()
    for index in range(before, channel.answered):
        taken.append(now_ns - began_ns - (index * step + number) * interval_ns)
