"""A client's connection to one broker, blocking: the pure machine of `wire.connection` on a socket.

    with BlockingConnection.open("127.0.0.1", 9092, "my-client", clock, deadline) as connection:
        response = connection.request(metadata.API, MetadataRequest(), deadline)

Rules:
- a deadline is a moment of the clock's `monotonic`, and holds for the whole call, not for each byte;
- after any error the connection is closed: what the broker got, and what it would answer, is not known any more;
- requests may be pipelined: `send` several, then `receive` as many answers, in the same order.

Errors are `OSError` (`TimeoutError` among them) when the network fails, and `KafkaError` when the broker answers
nonsense or has no version of an API in common. It does not reconnect or retry: `client` does.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from penstock.env.clock import Clock
from penstock.errors import KafkaError
from penstock.types import Bytes
from penstock.wire.api import Api
from penstock.wire.connection import Answer, Connection
from penstock.wire.schema import Struct

RECEIVE_BYTES = 256 * 1024
"""Asked of the socket at a time; a new buffer each, because records in answers are views of it."""

MAX_PARTS = 512
"""Of one call; systems take at least 1,024."""

MAX_HANDSHAKES = 2
"""The second asks in a version that the broker named when it refused the first (KIP-511)."""


class BlockingConnection:
    """One socket to one broker, used by one thread."""

    __slots__ = ("_answers", "_clock", "_machine", "_socket", "allocate", "host", "port")

    def __init__(self, sock: socket.socket, host: str, port: int, client_id: str | None, clock: Clock) -> None:
        self._socket = sock
        self._clock = clock
        self._machine = Connection(client_id)
        self._answers: deque[Answer] = deque()
        self.host = host
        self.port = port
        self.allocate: Callable[[int], memoryview] = _allocate
        """Gives the memory for large answers; whoever reads much has some that is used again."""

    @classmethod
    def open(cls, host: str, port: int, client_id: str | None, clock: Clock, deadline: float) -> Self:
        """Connect, and ask which versions the broker accepts."""
        sock = socket.create_connection((host, port), timeout=_remaining(clock, deadline))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = cls(sock, host, port, client_id, clock)
            connection._handshake(deadline)
        except BaseException:
            sock.close()
            raise
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    @property
    def has_answer(self) -> bool:
        """Whether `receive` has one to give without reading: several may have come together."""
        return bool(self._answers)

    def fileno(self) -> int:
        """For `select`: readable when an answer, or a part of one, has come; look at `has_answer` first."""
        return self._socket.fileno()

    def version_of(self, api: Api) -> int:
        """The version that `send` uses; KafkaError(UNSUPPORTED_VERSION) when there is none in common."""
        return self._machine.version_of(api)

    def request(self, api: Api, message: Struct, deadline: float) -> Struct:
        """Send one request and wait for its answer."""
        assert not self._machine.in_flight, "the answers of pipelined requests are received first"
        self.send(api, message, deadline)
        return self.receive(deadline).message

    def send(self, api: Api, message: Struct, deadline: float, *, expects_answer: bool = True) -> None:
        """Send one request; its answer comes by `receive`."""
        self._send_parts(self._machine.send_parts(api, message, expects_answer=expects_answer), deadline)

    def receive(self, deadline: float) -> Answer:
        """The next answer, in the order of the requests."""
        try:
            while not self._answers:
                if self._machine.partial_size > RECEIVE_BYTES:
                    data: Bytes = self._receive_large(deadline)
                else:
                    self._socket.settimeout(_remaining(self._clock, deadline))
                    data = self._socket.recv(RECEIVE_BYTES)
                    _check_received(len(data))
                self._answers.extend(self._machine.receive(data))
        except (OSError, KafkaError):
            self.close()
            raise
        return self._answers.popleft()

    def close(self) -> None:
        self._socket.close()

    def _receive_large(self, deadline: float) -> memoryview:
        """The whole answer that has begun to come, straight into its place: nothing is copied or grown."""
        answer = self.allocate(self._machine.partial_size)
        begun = self._machine.take_partial()
        position = len(begun)
        answer[:position] = begun
        while position < len(answer):
            self._socket.settimeout(_remaining(self._clock, deadline))
            count = self._socket.recv_into(answer[position:])
            _check_received(count)
            position += count
        return answer

    def _handshake(self, deadline: float) -> None:
        for _ in range(MAX_HANDSHAKES):
            self._send_parts([self._machine.handshake()], deadline)
            self.receive(deadline)
            if self._machine.is_ready:
                return
        raise ConnectionError("the broker accepts no version of ApiVersions")

    def _send_parts(self, parts: list[Bytes], deadline: float) -> None:
        """All of them, in as few calls as the system allows."""
        try:
            while parts:
                self._socket.settimeout(_remaining(self._clock, deadline))
                parts = _unsent(parts, self._socket.sendmsg(parts[:MAX_PARTS]))
        except OSError:
            self.close()
            raise


def _unsent(parts: list[Bytes], count: int) -> list[Bytes]:
    """What is left of the parts when so many bytes are sent."""
    for index, part in enumerate(parts):
        if count < len(part):
            return [memoryview(part)[count:], *parts[index + 1 :]]
        count -= len(part)
    return []


def _allocate(size: int) -> memoryview:
    return memoryview(bytearray(size))


def _check_received(count: int) -> None:
    if not count:
        raise ConnectionResetError("the broker closed the connection")


def _remaining(clock: Clock, deadline: float) -> float:
    seconds = deadline - clock.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds
