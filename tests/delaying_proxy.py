"""A proxy between clients and one broker that delivers chosen requests late, as a bad network would.

    with DelayingProxy(broker.bootstrap) as proxy:
        proxy.fate = lambda request: Fate.HOLD if request.api_key == PRODUCE else Fate.PASS
        client(proxy.bootstrap)
        (late,) = proxy.held
        answer = proxy.deliver(late)

Each client connection has one connection to the broker. The test's `fate` is asked about every request, by the thread
of its connection:

- PASS: to the broker at once;
- HOLD: kept; the requests after it on the connection overtake it. Its answer goes to the client when it is delivered;
- LOSE: kept, and the client's connection breaks. The client cannot know whether the request arrived, and tries again;
- COPY: to the broker at once, and a copy is kept: what a client that tries again sends twice.

`deliver` sends a kept request to the broker over a connection of its own and returns the broker's answer, so a test
decides what it arrives after. Requests without an answer (Produce with acks=0) cannot be delivered so.

A client finds the broker by what Metadata and FindCoordinator say. In every answer the broker's address becomes the
proxy's; both are loopback addresses of the same length. Loopback only, and everything has a bound.
"""

from __future__ import annotations

import enum
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
PRODUCE, ADD_PARTITIONS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 0, 24, 26, 28
MAX_FRAME_BYTES = 16 << 20
MAX_CONNECTIONS = 64
MAX_HELD = 10_000
TIMEOUT_SECONDS = 60.0
"""The longest wait for a peer in the middle of something."""

_LENGTH = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")


class Fate(enum.Enum):
    """What becomes of a request."""

    PASS = enum.auto()
    HOLD = enum.auto()
    LOSE = enum.auto()
    COPY = enum.auto()


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One request as the client sent it, length included."""

    api_key: int
    api_version: int
    correlation_id: int
    frame: bytes
    client: socket.socket


class DelayingProxy:
    """Listens on a free port from `with` to its end."""

    def __init__(self, bootstrap: str) -> None:
        self.fate: Callable[[Request], Fate] = lambda _: Fate.PASS
        self.held: list[Request] = []
        """What was held, lost or copied and is not yet delivered, oldest first."""
        self._broker_port = int(bootstrap.rpartition(":")[2])
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        self.bootstrap = f"{HOST}:{self.port}"
        self._sockets: set[socket.socket] = set()
        self._expecting: set[Request] = set()
        """Held requests whose client waits for the answer."""
        self._changed = threading.Condition()
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end(self._listener)
        self._accepting.join(TIMEOUT_SECONDS)
        with self._changed:
            left = list(self._sockets)
        for each in left:
            _end(each)

    def wait_for_held(self, count: int = 1) -> list[Request]:
        """What is held, once it is so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.held) >= count, TIMEOUT_SECONDS), "nothing was held"
            return list(self.held)

    def deliver(self, request: Request) -> bytes:
        """Send a request that was kept; the broker's answer without its length."""
        with self._changed:
            self.held.remove(request)
            is_expected = request in self._expecting
            self._expecting.discard(request)
        with self._connect() as broker:
            broker.sendall(request.frame)
            answer = _receive_frame(broker)
        assert answer is not None, "the broker closed the connection"
        if is_expected:
            with suppress(OSError):  # the client has gone
                request.client.sendall(answer)
        return answer[_LENGTH.size :]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                is_full = len(self._sockets) >= 2 * MAX_CONNECTIONS
            if is_full:
                client.close()
            else:
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Requests of one connection, until a side ends it; its answers have a thread of their own."""
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client, suppress(OSError), self._connect() as broker:
            broker.settimeout(None)
            with self._changed:
                self._sockets |= {client, broker}
            answers = threading.Thread(target=self._answer, args=(broker, client), daemon=True)
            answers.start()
            try:
                while (frame := _receive_frame(client)) is not None and self._pass_on(_request(frame, client), broker):
                    pass
            finally:
                _shut(broker)
                _shut(client)
                answers.join(TIMEOUT_SECONDS)
                with self._changed:
                    self._sockets -= {client, broker}

    def _pass_on(self, request: Request, broker: socket.socket) -> bool:
        """Whether the connection goes on."""
        fate = self.fate(request)
        if fate is not Fate.PASS:
            with self._changed:
                assert len(self.held) < MAX_HELD, "too many requests are held"
                self.held.append(request)
                if fate is Fate.HOLD:
                    self._expecting.add(request)
                self._changed.notify_all()
        if fate in (Fate.PASS, Fate.COPY):
            broker.sendall(request.frame)
        return fate is not Fate.LOSE

    def _answer(self, broker: socket.socket, client: socket.socket) -> None:
        theirs, ours = (HOST.encode() + _LENGTH.pack(port) for port in (self._broker_port, self.port))
        with suppress(OSError):
            while (frame := _receive_frame(broker)) is not None:
                client.sendall(frame.replace(theirs, ours))
        _shut(client)

    def _connect(self) -> socket.socket:
        connection = socket.create_connection((HOST, self._broker_port), timeout=TIMEOUT_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _request(frame: bytes, client: socket.socket) -> Request:
    api_key, api_version, correlation_id = _HEADER.unpack_from(frame, _LENGTH.size)
    return Request(api_key, api_version, correlation_id, frame, client)


def _receive_frame(connection: socket.socket) -> bytes | None:
    """One frame with its length; None when the peer ends the connection, be it in the middle."""
    head = _exactly(connection, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    assert 0 <= length <= MAX_FRAME_BYTES, length
    body = _exactly(connection, length)
    return None if body is None else head + body


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _shut(connection: socket.socket) -> None:
    """End both directions; a thread that waits for the peer goes on."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _end(connection: socket.socket) -> None:
    _shut(connection)
    connection.close()


def lose_first_answer(
    proxy: DelayingProxy, api_key: int, before_again: Callable[[], None] = lambda: None
) -> list[Request]:
    """The first request of its kind arrives, but its client hears nothing, and asks again; what was asked.

    It arrives when the client asks again; after that, and before the second is passed on, `before_again` is called.
    """
    asked: list[Request] = []

    def fate(request: Request) -> Fate:
        if request.api_key != api_key:
            return Fate.PASS
        asked.append(request)
        if len(asked) == 1:
            return Fate.LOSE
        if proxy.held:
            proxy.deliver(proxy.held[0])
            before_again()
        return Fate.PASS

    proxy.fate = fate
    return asked
