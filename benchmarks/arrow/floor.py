"""What the machine gives at best: the same bytes over a loopback socket, with no broker and no client at its ends.

Reading: a process sends a file with `sendfile`, as a broker does, and this one receives it into one buffer and looks at
nothing. Writing: this one sends a buffer over and over, and the process drops what comes. No client can be faster with
one connection, however little it does.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

BUFFER_BYTES = 1 << 20
FILE_BYTES = 64 << 20


def receive_floor(directory: Path, total_bytes: int) -> float:
    """Seconds to receive so many bytes."""
    buffer, left = bytearray(BUFFER_BYTES), total_bytes
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.write(bytes(FILE_BYTES))
        file.flush()
        with _Peer(_send_file, file.name, total_bytes) as connection:
            began = time.perf_counter()
            while left > 0:
                received = connection.recv_into(buffer)
                if not received:
                    raise RuntimeError(f"{left} bytes of {total_bytes} did not come")
                left -= received
            return time.perf_counter() - began


def send_floor(total_bytes: int) -> float:
    """Seconds to send so many bytes, until the other side has them."""
    buffer, left = memoryview(bytes(BUFFER_BYTES)), total_bytes
    with _Peer(_drop) as connection:
        began = time.perf_counter()
        while left > 0:
            left -= connection.send(buffer[:left])
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        return time.perf_counter() - began


class _Peer:
    """A process on the other side of a connection, while `with` lasts."""

    def __init__(self, *work: object) -> None:
        self._work = work

    def __enter__(self) -> socket.socket:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, *self._work), daemon=True)
        self._process.start()
        theirs.close()
        self._connection = socket.create_connection(("127.0.0.1", ours.recv()))
        return self._connection

    def __exit__(self, *error: object) -> None:
        self._connection.close()
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection, work: object, *arguments: object) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        connection, _ = server.accept()
    assert callable(work)
    with connection:
        work(connection, *arguments)


def _send_file(connection: socket.socket, name: str, total_bytes: int) -> None:
    with open(name, "rb") as file:
        left, position = total_bytes, 0
        while left > 0:
            sent = os.sendfile(
                connection.fileno(), file.fileno(), position, min(left, BUFFER_BYTES, FILE_BYTES - position)
            )
            left, position = left - sent, (position + sent) % FILE_BYTES


def _drop(connection: socket.socket) -> None:
    buffer = bytearray(BUFFER_BYTES)
    while connection.recv_into(buffer):
        pass
    connection.send(b"!")
