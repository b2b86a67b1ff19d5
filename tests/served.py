"""The net layer alone: a server whose requests a test answers itself."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from concurrent.futures import ThreadPoolExecutor

from penstock.env.network import SystemNetwork
from penstock.net.listener import ListenerLimits, Server
from penstock.net.server_connection import Limits


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@contextlib.asynccontextmanager
async def serving(serve, limits=None, listener_limits=None):
    with ThreadPoolExecutor(2) as executor:
        server = Server(SystemNetwork(), executor, limits or Limits(), listener_limits or ListenerLimits())
        server.port = server.bind("127.0.0.1", 0, "PLAINTEXT")
        server.start(serve)
        try:
            yield server
        finally:
            server.stop()


def run(coroutine):
    asyncio.run(asyncio.wait_for(coroutine, 30))
