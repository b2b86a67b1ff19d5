"""A broker of a few lines, for tests of clients and loaders: it answers each request with what it is told."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import raw


@contextmanager
def serve(answer: Callable[[bytes], bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """A broker that answers each request with `answer(request)`; gives its port and the requests it got."""
    got: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def talk(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while length := stream.read(4):
                request = stream.read(struct.unpack(">i", length)[0])
                got.append(request)
                try:
                    connection.sendall(answer(request))
                except OSError:
                    return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1], got
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def response_frame(api: str, version: int, **fields: object) -> bytes:
    """A whole answer with its length, as a broker would send it."""
    message_type = raw.message_class(f"{api}Response")
    response = message_type(version=version, **raw._structs(message_type, version, fields))
    response.with_header(correlation_id=1)
    body = bytes(response.encode(header=True))
    return struct.pack(">i", len(body)) + body
