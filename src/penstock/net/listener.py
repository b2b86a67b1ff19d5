"""Where clients connect: accepts within the limits, and ends connections that idle or dawdle.

Out of descriptors the listener waits and goes on; it never dies of a busy moment. One sweep every few seconds looks at
all connections: no timer per connection, nothing to pay for an idle one.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import select
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

from penstock.env.network import Network
from penstock.net.buffers import Buffers
from penstock.net.departures import Departures
from penstock.net.server_connection import Limits, Pending, Reply, ServerConnection, Shared

log = logging.getLogger(__name__)

ACCEPTS_PER_TURN = 64
"""New connections taken before others are served again."""

ACCEPT_PAUSE_S = 0.2
"""How long to wait when the process is out of descriptors."""

FAULT_PERIOD_S = 5.0
"""At most one line about misbehaving clients in this time."""

SWEEP_S = 2.0
"""How often idle and dawdling connections are looked for."""


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Bounds on all connections together."""

    max_connections: int = 10_000
    max_connections_per_ip: int = 2**31 - 1
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    idle_s: float = 600.0
    partial_request_s: float = 30.0
    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class Server:
    """All listeners and all connections of one broker."""

    def __init__(
        self,
        network: Network,
        executor: Executor,
        limits: Limits,
        listener_limits: ListenerLimits,
    ) -> None:
        self._network = network
        self._executor = executor
        self._limits = limits
        self.listener_limits = listener_limits
        """May be replaced at any time; the backlog is that of the start."""
        self._listening: list[tuple[socket.socket, str]] = []
        self._ids = itertools.count(1)
        self._per_ip: Counter[str] = Counter()
        self._sweeper: asyncio.TimerHandle | None = None
        self.connections: set[ServerConnection] = set()
        self.accepted_count = 0
        self.refused_count = 0
        self.fault_count = 0
        self._fault_told_at = -FAULT_PERIOD_S

    def bind(self, host: str, port: int, listener_name: str) -> int:
        """Take an address; clients queue until `start`. The port, which is the system's choice when `port` is 0."""
        listening = self._network.listen(host, port, self.listener_limits.backlog)
        self._listening += [(sock, listener_name) for sock in listening]
        bound_port: int = listening[0].getsockname()[1]
        return bound_port

    def start(self, serve: Callable[[ServerConnection, memoryview], Reply | Pending]) -> None:
        """Let clients in; each of their requests goes to `serve`."""
        loop = asyncio.get_running_loop()
        self._shared = Shared(loop, self._executor, Buffers(), self._limits, serve, self._on_closed, Departures(loop))
        for sock, name in self._listening:
            loop.add_reader(sock.fileno(), self._accept, sock, name)
        self._sweeper = loop.call_later(SWEEP_S, self._sweep)

    def _accept(self, listening: socket.socket, listener_name: str) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                self._pause_accepting(listening, listener_name, error)
                return
            self._admit(sock, address[0], listener_name)

    def _pause_accepting(self, listening: socket.socket, listener_name: str, error: OSError) -> None:
        log.warning("new connections wait: %s (raise the limit of open files)", error)
        loop = self._shared.loop
        loop.remove_reader(listening.fileno())
        loop.call_later(ACCEPT_PAUSE_S, self._resume_accepting, listening, listener_name)

    def _resume_accepting(self, listening: socket.socket, listener_name: str) -> None:
        if listening.fileno() >= 0:
            self._shared.loop.add_reader(listening.fileno(), self._accept, listening, listener_name)

    def _admit(self, sock: socket.socket, ip: str, listener_name: str) -> None:
        limits = self.listener_limits
        allowed = limits.per_ip_overrides.get(ip, limits.max_connections_per_ip)
        if len(self.connections) >= limits.max_connections or self._per_ip[ip] >= allowed:
            self.refused_count += 1
            sock.close()
            return
        try:
            _prepare(sock, limits)
            connection = ServerConnection(self._shared, sock, next(self._ids), listener_name)
        except OSError:  # it went away between accept and now
            sock.close()
            return
        self.accepted_count += 1
        self._per_ip[ip] += 1
        self.connections.add(connection)

    def _on_closed(self, connection: ServerConnection, reason: str, is_fault: bool) -> None:
        self.connections.discard(connection)
        ip = connection.peer_address[0]
        self._per_ip[ip] -= 1
        if not self._per_ip[ip]:
            del self._per_ip[ip]
        host, port = connection.peer_address
        address = f"{host}:{port}"
        log.debug("connection %d from %s ended: %s", connection.connection_id, address, reason)
        if is_fault:
            self._tell_fault(address, reason)

    def _tell_fault(self, address: str, reason: str) -> None:
        """Someone sends what we cannot read: said, but not as often as it happens."""
        self.fault_count += 1
        now = self._shared.loop.time()
        if now - self._fault_told_at >= FAULT_PERIOD_S:
            self._fault_told_at = now
            log.warning("closed the connection from %s: %s (%d such so far)", address, reason, self.fault_count)

    def _sweep(self) -> None:
        loop = self._shared.loop
        now = loop.time()
        limits = self.listener_limits
        for connection in tuple(self.connections):
            traffic = connection.received_bytes + connection.outbox.sent_bytes
            if traffic != connection.seen_bytes or connection.pending_count:
                connection.seen_bytes = traffic
                connection.active_at = now
            if connection.is_deaf and connection.outbox.is_empty and _is_gone(connection):
                connection.close("the client closed it")
            elif connection.partial_since and now - connection.partial_since > limits.partial_request_s:
                if not connection.pending_count and connection.outbox.is_empty:
                    connection.close("a request was not finished in time")
            elif now - connection.active_at > limits.idle_s:
                connection.close("it was idle")
        self._sweeper = loop.call_later(SWEEP_S, self._sweep)

    def stop_accepting(self) -> None:
        for sock, _ in self._listening:
            if self._sweeper is not None:  # it was started
                self._shared.loop.remove_reader(sock.fileno())
            sock.close()
        self._listening.clear()

    def stop(self) -> None:
        """Close every listener and connection."""
        self.stop_accepting()
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._shared.departures.leave()
        for connection in tuple(self.connections):
            connection.close("the broker stops")


def _is_gone(connection: ServerConnection) -> bool:
    """Whether the client has closed its end; asked of connections that are not read, which would not notice."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


def _prepare(sock: socket.socket, limits: ListenerLimits) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if limits.send_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
    if limits.receive_buffer_bytes > 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
