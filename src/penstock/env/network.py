"""Sockets, passed in. A simulated network gives out objects with the same few methods."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol


class Network(Protocol):
    def listen(self, host: str, port: int, backlog: int) -> Sequence[socket.socket]:
        """Bound, listening, non-blocking sockets, one per address that `host` stands for; OSError when it cannot."""
        ...


class SystemNetwork:
    """The machine's own network."""

    __slots__ = ()

    def listen(self, host: str, port: int, backlog: int) -> Sequence[socket.socket]:
        flags = socket.AI_PASSIVE
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=flags)
        listening: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in dict.fromkeys(addresses):
                listening.append(_listen(family, kind, protocol, address, backlog))
                if port == 0:  # every address gets the port that the first one was given
                    break
        except OSError:
            for sock in listening:
                sock.close()
            raise
        return listening


def _listen(family: int, kind: int, protocol: int, address: object, backlog: int) -> socket.socket:
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)  # type: ignore[arg-type]
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
