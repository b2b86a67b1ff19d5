"""Free TCP ports for the processes that tests start."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """`count` different loopback ports that nobody listened on a moment ago."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [int(held.getsockname()[1]) for held in sockets]
    finally:
        for held in sockets:
            held.close()
