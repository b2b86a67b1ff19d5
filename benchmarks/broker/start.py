"""Start, memory, and what an idle connection costs, each on a fresh broker.

The start is timed from the beginning of the process, as the kernel knows it, to the first answer to an ApiVersions
request.
Kafka's formatting of its directory, a program of its own before the first start, is not counted.
"""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Self

import raw

from .process import cpu_seconds, resident_bytes, started_at
from .systems import Node, System

POLL_SECONDS = 0.003
SETTLE_SECONDS = 1.0
IDLE_CONNECTIONS = 1000


@dataclass(frozen=True, slots=True)
class Start:
    wall_s: float
    cpu_s: float


class _FirstAnswer:
    """Asks a port for ApiVersions until there is an answer, from a thread of its own."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.at: float | None = None
        self.cpu_s = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _ask(self) -> None:
        request = raw.encode_request("ApiVersions", 0, 1, {})
        while not self._is_over.is_set():
            try:
                with socket.create_connection(("127.0.0.1", self._node.port), timeout=30) as connection:
                    connection.sendall(request)
                    if connection.recv(64):
                        self.at = time.clock_gettime(time.CLOCK_BOOTTIME)
                        self.cpu_s = cpu_seconds(self._node.pid)
                        return
            except OSError:
                pass
            time.sleep(POLL_SECONDS)


def start_node(node: Node) -> Start:
    """Start the broker and say how long its first answer took."""
    with _FirstAnswer(node) as first:
        node.start()
        deadline = time.monotonic() + 10
        while first.at is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
    if first.at is None:
        raise RuntimeError(f"nothing answered on {node.bootstrap}")
    return Start(first.at - started_at(node.pid), first.cpu_s)


def run_start(system: System) -> dict[str, float]:
    """A first start on an empty directory, a second one on the same, and what idling costs after it."""
    directory = system.directory / "start"
    shutil.rmtree(directory, ignore_errors=True)
    node = system.make_node(directory)
    try:
        first = start_node(node)
        node.stop()
        second = start_node(node)
        try:
            idle_bytes, connection_bytes = _idle_memory(node)
        finally:
            node.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return {
        "first_start_s": first.wall_s,
        "first_start_cpu_s": first.cpu_s,
        "second_start_s": second.wall_s,
        "second_start_cpu_s": second.cpu_s,
        "idle_memory_mb": idle_bytes / 1e6,
        "idle_connection_kb": connection_bytes / 1e3,
    }


def _idle_memory(node: Node) -> tuple[int, float]:
    """The resident set after the start, and what each of 1,000 connections adds to it."""
    time.sleep(SETTLE_SECONDS)
    before = resident_bytes(node.pid)
    with idle_connections(node.port, IDLE_CONNECTIONS):
        time.sleep(SETTLE_SECONDS)
        added = resident_bytes(node.pid) - before
    return before, added / IDLE_CONNECTIONS


@contextmanager
def idle_connections(port: int, count: int) -> Iterator[None]:
    """Connections that have asked for ApiVersions, as every client does first, and then say nothing."""
    request = raw.encode_request("ApiVersions", 0, 1, {})
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            connection.sendall(request)
            if not connection.recv(1 << 16):
                raise ConnectionError("the broker closed an idle connection")
        yield
