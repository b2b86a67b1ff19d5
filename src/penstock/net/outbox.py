"""What waits to be sent on one connection, in order: bytes, and slices of files that go out by `sendfile`.

As much is sent as the socket takes, and the loop calls again when it takes more. A slice costs no memory however large
it is and however slow the reader. Before a slice is sent its pages are looked for with `preadv(RWF_NOWAIT)`; cold ones
are read by a thread first, so that one old consumer never stalls the loop.

`send` and `send_spliced` raise OSError when the connection is gone, for their caller to close it. What goes out later,
when nobody calls, tells its end to the connection: `on_drained` when all is sent, `on_failed` when it cannot be.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from penstock.env.files import File
from penstock.types import Bytes

TURN_BYTES = 4 * 1024 * 1024
"""How much one connection sends before the others get their turn."""

STRETCH_BYTES = 1024 * 1024
"""How much is sent by one call, after a look at its first and last page; both in memory, the rest most likely is."""


class Slice(Protocol):
    """Part of a file, as a log hands it out."""

    @property
    def file(self) -> File: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...


class Outbox:
    """The sending half of a connection."""

    __slots__ = (
        "_closed",
        "_executor",
        "_fd",
        "_is_waiting",
        "_loop",
        "_on_drained",
        "_on_failed",
        "_parts",
        "_sock",
        "sent_bytes",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        executor: Executor,
        on_drained: Callable[[], None],
        on_failed: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        self._executor = executor
        self._on_drained = on_drained
        self._on_failed = on_failed
        self._parts: deque[memoryview | _Remaining] = deque()
        self._is_waiting = False
        self._closed = False
        self.sent_bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._parts

    def send(self, data: Bytes) -> bool:
        """Bytes right away when nothing waits before them, the rest when the socket takes it; whether nothing waits.
        OSError: it is gone."""
        if self._parts:
            self._parts.append(memoryview(data))
            return False
        try:
            count = self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            count = 0
        self.sent_bytes += count
        if count < len(data):
            self._parts.append(memoryview(data)[count:])
            self._wait()
            return False
        return True

    def send_spliced(self, data: bytearray, splices: list[tuple[int, Slice]]) -> None:
        """Bytes with slices of files in between, each at its position in `data`."""
        view = memoryview(data)
        start = 0
        for position, piece in splices:
            if position > start:
                self._parts.append(view[start:position])
                start = position
            if piece.size:
                self._parts.append(_Remaining(piece))
        if start < len(view):
            self._parts.append(view[start:])
        if not self._is_waiting:
            self._flush()

    def _flush(self) -> None:
        """Send until the socket is full, a page is cold, or the turn is over."""
        budget = TURN_BYTES
        parts = self._parts
        while parts:
            if budget <= 0:
                self._wait()
                return
            count = self._send_first(parts[0], more=len(parts) > 1)
            if count < 0:
                return
            budget -= count
            self.sent_bytes += count
        self._stop_waiting()

    def _send_first(self, part: memoryview | _Remaining, more: bool) -> int:
        """Bytes that went out, or -1 when something has to be waited for."""
        try:
            if isinstance(part, _Remaining):
                return self._send_slice(part)
            count = self._sock.send(part, socket.MSG_MORE if more else 0)
        except (BlockingIOError, InterruptedError):
            self._wait()
            return -1
        if count == len(part):
            self._parts.popleft()
        else:
            self._parts[0] = part[count:]
        return count

    def _send_slice(self, part: _Remaining) -> int:
        if part.is_cold():
            self._stop_waiting()
            self._is_waiting = True  # for the thread, not for the socket
            future = self._loop.run_in_executor(self._executor, part.warm)
            future.add_done_callback(self._on_warm)
            return -1
        count = os.sendfile(self._fd, part.file.fileno(), part.position, min(part.size, STRETCH_BYTES))
        if count == 0:
            raise ConnectionAbortedError("the file ended before the slice did")
        if part.advance(count):
            self._parts.popleft()
        return count

    def _on_warm(self, future: asyncio.Future[None]) -> None:
        self._is_waiting = False
        error = future.exception()
        if self._closed:
            return
        if error is not None:
            self._fail(f"a slice could not be read: {error}")
        else:
            self._go_on()

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._loop.add_writer(self._fd, self._go_on)

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._fd)

    def _go_on(self) -> None:
        """Called by the loop: nobody else learns how it went."""
        try:
            self._flush()
        except OSError as error:
            self._fail(str(error))
            return
        if not self._parts:
            self._on_drained()

    def _fail(self, reason: str) -> None:
        self.close()
        self._on_failed(reason)

    def close(self) -> None:
        """Forget what is left. The socket belongs to the connection."""
        if not self._closed:
            self._closed = True
            self._loop.remove_writer(self._fd)
            self._parts.clear()


class _Remaining:
    """What is left of a slice."""

    __slots__ = ("_probed_to", "file", "position", "size")

    _can_probe = hasattr(os, "preadv") and hasattr(os, "RWF_NOWAIT")

    def __init__(self, piece: Slice) -> None:
        self.file = piece.file
        self.position = piece.position
        self.size = piece.size
        self._probed_to = piece.position

    def advance(self, count: int) -> bool:
        """Count what was sent; True at the end."""
        self.position += count
        self.size -= count
        return not self.size

    def is_cold(self) -> bool:
        """Whether the next pages would have to be read from the disk; asked once per stretch."""
        if self.position < self._probed_to or not _Remaining._can_probe:
            return False
        self._probed_to = self.position + min(self.size, STRETCH_BYTES)
        probe = bytearray(1)
        try:
            for position in (self.position, self._probed_to - 1):
                os.preadv(self.file.fileno(), [probe], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            _Remaining._can_probe = False
        return False

    def warm(self) -> None:
        """Read the stretch, in a thread: what matters is that its pages are in memory afterwards."""
        self.file.pread(min(self.size, STRETCH_BYTES), self.position)
