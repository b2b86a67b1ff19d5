"""Small answers leave together: those of a few connections that are served in the same turn of the loop.

To send to a client that waits is to wake it, which can cost more than it took to serve it. Where the next connections
belong to the same process, as those of a client with many producers do, it would only find that it has to wait again;
so the answers are gathered and go out one after the other, at the end of the turn at the latest, and it wakes up to all
of them. Nobody waits for much: from the first answer that is gathered on at most `MAX_SERVED` reads are served, however
they are answered, and `MAX_BYTES` of requests; and what takes longer finds the answers before it sent: a large request,
bytes of a log, and whoever waited for what a request brought.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

log = logging.getLogger(__name__)

MAX_SERVED = 8
MAX_BYTES = 32 * 1024
SMALL_BYTES = 16 * 1024
"""A request, or several that came together: whoever sends more is answered at once."""


class Departing(Protocol):
    def depart(self) -> None:
        """Send what is ready."""


class Departures:
    __slots__ = ("_bytes", "_call_soon", "_gathered", "_last", "_leave", "_served")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._leave = self.leave
        self._gathered: list[Departing] = []
        self._served = 0
        self._bytes = 0
        self._last = 0
        """Which connection was answered last."""

    def add(self, connection: Departing, request_bytes: int) -> None:
        """It has answers to that much, and `depart` is called soon; at once where it seems to be the only one."""
        last, self._last = self._last, id(connection)
        if not self._gathered:
            if last == self._last:
                connection.depart()
                return
            self._call_soon(self._leave)
        self._gathered.append(connection)
        self.count(request_bytes)

    def count(self, request_bytes: int) -> None:
        """That much was served, by answers that are gathered or by others."""
        if self._gathered:
            self._served += 1
            self._bytes += request_bytes
            if self._served >= MAX_SERVED or self._bytes >= MAX_BYTES:
                self.leave()

    def leave(self) -> None:
        gathered = self._gathered
        if gathered:
            self._gathered = []
            self._served = self._bytes = 0
            for connection in gathered:
                try:
                    connection.depart()
                except Exception:  # we are wrong; the others must not suffer for it
                    log.exception("an answer could not be sent; this is a bug")
