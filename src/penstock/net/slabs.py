"""Memory that is used again: large pieces are handed out, and come back by themselves when nobody looks at them.

    slabs = Slabs()
    view = slabs.take(1 << 20)      # a memoryview; its bytes are what somebody left there

The first touch of a page costs as much as copying it several times, and more on a virtual machine. A client that moves
gigabytes through buffers of megabytes would pay that for every byte, since the system takes freed pieces of such a size
back at once.

Rules:
- a slab comes back when the last view of it is gone, Arrow's buffers included; who keeps a view keeps its whole slab;
- a few slabs are kept for later, others are given back to the system. What is larger than a slab is taken and given
  back as it is;
- what is taken is aligned to 64 bytes, as Arrow wants it.

Views may end in any thread; one thread at a time takes.
"""

from __future__ import annotations

import ctypes
import mmap
import weakref
from collections import deque

SLAB_BYTES = 4 << 20
MAX_FREE_SLABS = 8
ALIGNMENT = 64


class Slabs:
    """A few pieces of memory, and the one that is being given away bit by bit."""

    def __init__(self, slab_bytes: int = SLAB_BYTES) -> None:
        self._slab_bytes = slab_bytes
        self._free: deque[mmap.mmap] = deque(maxlen=MAX_FREE_SLABS)
        self._open = memoryview(bytearray())  # writable, also when nothing is taken of it
        self._used = 0

    def take(self, size: int) -> memoryview:
        """So many writable bytes, with anything in them."""
        if size > self._slab_bytes:
            return memoryview(mmap.mmap(-1, size))
        if size > len(self._open) - self._used:
            self._open = self._lease()
            self._used = 0
        view = self._open[self._used : self._used + size]
        self._used += -(-size // ALIGNMENT) * ALIGNMENT
        return view

    def _lease(self) -> memoryview:
        """A whole slab. Views of it share one ctypes object, and when that ends none is left."""
        slab = self._free.pop() if self._free else mmap.mmap(-1, self._slab_bytes)
        lease = (ctypes.c_ubyte * self._slab_bytes).from_buffer(slab)
        weakref.finalize(lease, self._free.append, slab).atexit = False
        return memoryview(lease).cast("B")
