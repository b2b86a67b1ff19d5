"""One client's connection: cuts requests out of the bytes, hands them on, and sends the answers in their order.

A request is a 4-byte length and that many bytes. The whole requests that one read brought are served before anything
is sent, and what they answered goes out in one write; small answers of a few connections leave together (`departures`).
An answer that is not ready yet (`Pending`) holds back those after it. Reading stops while too many answers are pending
or the client does not take what it was sent, so a client can only ever hold a bounded amount of the broker's memory.
The views that `serve` gets are of a buffer that is used again as soon as it returns: what outlives the call is copied.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.errors import MalformedError
from penstock.net.buffers import Buffers
from penstock.net.departures import SMALL_BYTES, Departures
from penstock.net.outbox import Outbox, Slice
from penstock.types import Bytes
from penstock.wire.frame import SIZE_BYTES, read_size

log = logging.getLogger(__name__)

_LENGTH = struct.Struct(">i")


class Spliced(NamedTuple):
    """An answer with slices of files in it."""

    data: bytearray
    splices: list[tuple[int, Slice]]


class Pending:
    """An answer that comes later. Whoever made it calls `finish` once; None means that nothing is to be sent."""

    __slots__ = ("_connection", "is_done", "on_cancel", "reply")

    def __init__(self, on_cancel: Callable[[], object] | None = None) -> None:
        self.is_done = False
        self.reply: Reply = None
        self.on_cancel = on_cancel
        self._connection: ServerConnection | None = None

    def finish(self, reply: Reply) -> None:
        assert not self.is_done, "an answer is given once"
        self.reply = reply
        self.is_done = True
        self.on_cancel = None
        if self._connection is not None:
            self._connection.on_pending_done()


Reply = Bytes | Spliced | None


class CloseConnection(Exception):
    """Raised by `serve` to end the connection without an answer; the message says why, for the log."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one connection may hold."""

    max_request_bytes: int = 100 * 1024 * 1024
    max_in_flight: int = 8
    """Answers pending at once; beyond that the connection is not read."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a broker have in common."""

    loop: asyncio.AbstractEventLoop
    executor: Executor
    buffers: Buffers
    limits: Limits
    serve: Callable[[ServerConnection, memoryview], Reply | Pending]
    """Answers one request (without its length), now or later."""
    on_closed: Callable[[ServerConnection, str, bool], None]
    """(connection, why it ended, whether its client did wrong)."""
    departures: Departures


class ServerConnection:
    __slots__ = (
        "_filled",
        "_is_open",
        "_is_reading",
        "_is_turn_over",
        "_pending",
        "_private",
        "_ready",
        "_ready_bytes",
        "_shared",
        "_sock",
        "active_at",
        "client_software",
        "connection_id",
        "listener_name",
        "local_address",
        "memory",
        "outbox",
        "partial_since",
        "peer_address",
        "received_bytes",
        "seen_bytes",
    )

    def __init__(self, shared: Shared, sock: socket.socket, connection_id: int, listener_name: str) -> None:
        self._shared = shared
        self._sock = sock
        self.connection_id = connection_id
        self.listener_name = listener_name
        self.peer_address: tuple[str, int] = sock.getpeername()[:2]
        self.local_address: tuple[str, int] = sock.getsockname()[:2]
        self.client_software = ""
        self.memory: Any = None
        """What whoever serves this connection keeps about it."""
        self.outbox = Outbox(shared.loop, sock, shared.executor, self._resume, self.close)
        self._pending: deque[Pending] = deque()
        self._ready: list[Bytes] = []
        self._ready_bytes = 0
        self._private: memoryview | None = None
        self._filled = 0
        self._is_open = True
        self._is_reading = False
        self._is_turn_over = False
        self.active_at = shared.loop.time()
        self.partial_since = 0.0
        self.received_bytes = 0
        self.seen_bytes = 0
        self._maybe_read()

    def _on_readable(self) -> None:
        view, filled = (self._shared.buffers.shared, 0) if self._private is None else (self._private, self._filled)
        try:
            count = self._sock.recv_into(view[filled:] if filled else view)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(str(error))
            return
        if count == 0:
            self.close("the client closed it")
            return
        self.received_bytes += count
        self._take(view, filled + count)

    def _take(self, view: memoryview, filled: int) -> None:
        """Serve the whole requests in view[:filled], keep the rest, send what is ready, or have it sent soon."""
        try:
            if filled > SMALL_BYTES:
                self._shared.departures.leave()
            served = self._serve_all(view, filled)
            if self._is_open:
                self._is_turn_over = self._ready_bytes >= TURN_BYTES
                # With no private buffer we came from the loop, so it is being read; nothing else may have changed that.
                if served < filled or self._private is not None or self._pending or not self.outbox.is_empty:
                    self._keep(view, filled, served)
                elif self._is_turn_over:
                    self._maybe_read()
                self._send_ready(filled)
        except (CloseConnection, MalformedError) as error:
            self.close(str(error), is_fault=True)
        except OSError as error:
            self.close(str(error))
        except Exception:  # we are wrong: without this the bytes would stay, and the client would wait for ever
            log.exception("a request of connection %d could not be served; this is a bug", self.connection_id)
            self.close("it met a bug")

    def _send_ready(self, request_bytes: int) -> None:
        departures = self._shared.departures
        if request_bytes <= SMALL_BYTES and not self._is_turn_over:
            if self._ready:
                departures.add(self, request_bytes)
            else:
                departures.count(request_bytes)
            return
        self._flush()
        if self._is_turn_over and self.outbox.is_empty:
            self._shared.loop.call_soon(self._next_turn)

    def _serve_all(self, view: memoryview, filled: int) -> int:
        """How far requests were served."""
        position = 0
        pending, ready = self._pending, self._ready
        serve = self._shared.serve
        max_in_flight = self._shared.limits.max_in_flight
        max_request_bytes = self._shared.limits.max_request_bytes
        while filled - position >= SIZE_BYTES and len(pending) < max_in_flight and self._is_open:
            stop = position + SIZE_BYTES + read_size(view, position, max_request_bytes)
            if stop > filled:
                break
            reply = serve(self, view[position + SIZE_BYTES : stop])
            position = stop
            if type(reply) is bytearray and not pending:  # what `_enqueue` does, for nearly all answers
                ready.append(reply)
                self._ready_bytes += len(reply)
                if self._ready_bytes >= TURN_BYTES:
                    break
            elif reply is not None and not self._enqueue(reply):
                break
        return position

    def _enqueue(self, reply: Reply | Pending) -> bool:
        """Put the answer in its place; False when that is enough for this turn."""
        if isinstance(reply, Pending):
            if not reply.is_done:
                reply._connection = self
                self._pending.append(reply)
                return True
            reply = reply.reply
        if self._pending:
            later = Pending()
            later.finish(reply)
            self._pending.append(later)
        elif isinstance(reply, Spliced):
            self._shared.departures.leave()
            self._flush()
            self.outbox.send_spliced(reply.data, reply.splices)
            return self.outbox.is_empty
        elif reply is not None:
            self._ready.append(reply)
            self._ready_bytes += len(reply)
            return self._ready_bytes < TURN_BYTES
        return True

    def _keep(self, view: memoryview, filled: int, served: int) -> None:
        """Move what is left, an unfinished request or requests that have to wait, to a private buffer."""
        rest = filled - served
        buffers = self._shared.buffers
        if not rest:
            if self._private is not None:
                buffers.give(self._private)
                self._private = None
                self.partial_since = 0.0
            self._filled = 0
            self._maybe_read()
            return
        wanted = 4 + _LENGTH.unpack_from(view, served)[0] if rest >= 4 else SMALLEST_REQUEST
        if self._private is None:
            self._private = buffers.take(rest if rest >= wanted else max(rest, min(wanted, 2 * rest)))
            self._private[:rest] = view[served:filled]
            self.partial_since = self._shared.loop.time()
        elif served:
            self._private[:rest] = self._private[served:filled]
            self.partial_since = self._shared.loop.time()
        if rest == len(self._private):
            self._private = buffers.grow(self._private, rest, max(wanted, rest + SMALLEST_REQUEST))
        self._filled = rest
        self._maybe_read()

    def _maybe_read(self) -> None:
        """Read while the client takes its answers, not too many of them are pending, and none of it has to wait."""
        has_room = len(self._pending) < self._shared.limits.max_in_flight and self.outbox.is_empty
        should_read = self._is_open and has_room and not self._is_turn_over
        if should_read and not self._is_reading:
            self._shared.loop.add_reader(self._sock.fileno(), self._on_readable)
        elif self._is_reading and not should_read:
            self._shared.loop.remove_reader(self._sock.fileno())
        self._is_reading = should_read

    def _flush(self) -> None:
        ready = self._ready
        if not ready:
            return
        data = ready[0] if len(ready) == 1 else b"".join(ready)
        ready.clear()
        self._ready_bytes = 0
        if not self.outbox.send(data):
            self._maybe_read()

    def depart(self) -> None:
        """Send what waited for the answers of other connections (`departures`)."""
        if self._is_open:
            try:
                self._flush()
            except OSError as error:
                self.close(str(error))

    def _flush_before_close(self) -> None:
        try:
            self._flush()
        except OSError:
            pass

    def on_pending_done(self) -> None:
        """The first pending answer may be there: send all that are, in order, and read on."""
        pending = self._pending
        if not self._is_open or not pending or not pending[0].is_done:
            return
        self._shared.departures.leave()  # whoever brought what was waited for is answered first
        try:
            while pending and pending[0].is_done:
                reply = pending.popleft().reply
                if isinstance(reply, Spliced):
                    self._flush()
                    self.outbox.send_spliced(reply.data, reply.splices)
                elif reply is not None:
                    self._ready.append(reply)
            self._flush()
        except OSError as error:
            self.close(str(error))
            return
        self._resume()

    def _next_turn(self) -> None:
        if self._is_turn_over and self._is_open and self.outbox.is_empty:
            self._resume()

    def _resume(self) -> None:
        """Requests that had to wait are served before new bytes are read."""
        self._is_turn_over = False
        if self._private is not None and self._filled >= 4 and self.outbox.is_empty:
            self._take(self._private, self._filled)
        else:
            self._maybe_read()

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def is_deaf(self) -> bool:
        """Not reading, because too much is outstanding; that the client went away would not be noticed."""
        return not self._is_reading

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    def close(self, reason: str, *, is_fault: bool = False) -> None:
        """End it, maybe for a fault of its client; pending answers are told that nobody waits any more."""
        if not self._is_open:
            return
        self._is_open = False
        self._flush_before_close()
        if self._is_reading:
            self._shared.loop.remove_reader(self._sock.fileno())
            self._is_reading = False
        self.outbox.close()
        for pending in self._pending:
            if not pending.is_done and pending.on_cancel is not None:
                pending.on_cancel()
        self._pending.clear()
        if self._private is not None:
            self._shared.buffers.give(self._private)
            self._private = None
        self._sock.close()
        self._shared.on_closed(self, reason, is_fault)


TURN_BYTES = 64 * 1024
"""Answers gathered for one write; then the other connections get their turn. A client that asks much and reads nothing
costs so much and one answer more, and one that asks for large answers in small requests does not stop the others."""

SMALLEST_REQUEST = 64
"""Room to ask for when not even a length has arrived."""
