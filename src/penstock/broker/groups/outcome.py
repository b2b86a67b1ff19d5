"""What goes into a group's machine besides the request, and what comes out.

A machine does no I/O. It is told the time (`Now`) and who asks (`Client`), and it fills an `Outcome`: answers to give
at once, and records to write. An answer that must wait is kept by the machine, under the `Ticket` that came with the
request, until a later event gives it. When the records are committed the machine is told so, which may give more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.broker.groups.records import GroupRecord

Ticket = Callable[[Any], None]
"""What takes the response of one request; called once, by the shell."""


class Now(NamedTuple):
    """One moment by both clocks: records carry the wall's time, timeouts count by the other."""

    wall_ms: int
    monotonic_s: float

    def after(self, timeout_ms: int) -> float:
        """A deadline."""
        return self.monotonic_s + timeout_ms / 1000


class Client(NamedTuple):
    """Who sent a request, and in which version of it."""

    version: int
    client_id: str
    host: str


@dataclass(slots=True)
class Outcome:
    """What an event came to."""

    answers: list[tuple[Ticket, Any]] = field(default_factory=list)
    records: list[GroupRecord] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why a rebalance began, for the log."""
