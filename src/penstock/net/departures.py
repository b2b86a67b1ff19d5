"""Small answers leave together: those of a few connections that are served in the same turn of the loop.

To send to a client that waits is to wake it, which can cost more than it took to serve it. Where the next connections
belong to the same process, as those of a client with many producers do, it would only find that it has to wait again;
so the answers are gathered and go out one after the other, at the end of the turn at the latest, and it wakes up to all
of them. Nobody waits for much: an answer waits for those of `MAX_GATHERED` small requests, and a large request, which
takes longer to serve, finds those before it sent.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

MAX_GATHERED = 8
"""Connections whose answers wait for each other."""

SMALL_BYTES = 16 * 1024
"""A request, or several that came together: whoever sends more is answered at once."""


class Departing(Protocol):
    def depart(self) -> None:
        """Send what is ready. Raises nothing."""


class Departures:
    __slots__ = ("_call_soon", "_gathered", "_leave")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._leave = self.leave
        self._gathered: list[Departing] = []

    def add(self, connection: Departing) -> None:
        """It has answers, and `depart` is called soon."""
        gathered = self._gathered
        if not gathered:
            self._call_soon(self._leave)
        gathered.append(connection)
        if len(gathered) >= MAX_GATHERED:
            self.leave()

    def leave(self) -> None:
        gathered = self._gathered
        if gathered:
            self._gathered = []
            for connection in gathered:
                connection.depart()
