"""Receive buffers: one shared by all connections, and private ones for requests that came in pieces.

A connection reads into the shared buffer and serves every whole request from there without a copy. Only the
unfinished rest moves to a private buffer, which grows as bytes really arrive: a declared length alone allocates
nothing beyond the first step. All but the smallest are mapped, not filled with zeros, so a thousand clients that send
64 KB of a large request and then wait cost 64 KB each. Private buffers of the standard size go back to a pool.
"""

from __future__ import annotations

import mmap

SHARED_BYTES = 256 * 1024
"""One read of the socket; fits in a core's cache."""

POOLED_BYTES = 1024 * 1024
"""A private buffer for a large request: most fit, as message.max.bytes is 1 MiB by default."""

SMALL_BYTES = 16 * 1024
"""A rest that fits in this gets a buffer of this size: a thousand slow senders cost 16 MB, not 1 GB."""

MAX_POOLED = 16
"""Buffers kept for reuse; more are given back to the system."""


class Buffers:
    """The shared buffer and the pool of one event loop."""

    __slots__ = ("_pool", "shared")

    def __init__(self) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self._pool: list[memoryview] = []

    def take(self, at_least: int) -> memoryview:
        """A private buffer: small, pooled, or of exactly the size asked for when that is larger than both."""
        if at_least <= SMALL_BYTES:
            return memoryview(bytearray(SMALL_BYTES))
        if at_least <= POOLED_BYTES:
            return self._pool.pop() if self._pool else _map(POOLED_BYTES)
        return _map(at_least)

    def give(self, buffer: memoryview) -> None:
        """A private buffer back; nothing may refer to it any more."""
        if len(buffer) == POOLED_BYTES and len(self._pool) < MAX_POOLED:
            self._pool.append(buffer)

    def grow(self, buffer: memoryview, filled: int, wanted: int) -> memoryview:
        """A larger buffer with the same first bytes: at most double, so that memory follows what arrived."""
        larger = self.take(min(wanted, 2 * max(filled, SMALL_BYTES)))
        larger[:filled] = buffer[:filled]
        self.give(buffer)
        return larger


def _map(size: int) -> memoryview:
    """Memory that the process gets page by page as it is written; huge pages would give it more than that."""
    mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        mapped.madvise(mmap.MADV_NOHUGEPAGE)
    return memoryview(mapped)
