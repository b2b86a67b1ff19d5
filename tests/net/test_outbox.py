"""The sending half over real sockets: partial sends, slices, cold pages, and how it tells its end."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.env.files import File, SystemFiles
from penstock.net import outbox as outbox_module
from penstock.net.outbox import Outbox

CONTENT = bytes(range(251)) * 20_000


class FileSlice(NamedTuple):
    file: File
    position: int
    size: int


class Pair:
    """An outbox with a tiny send buffer, the client's end, and what the outbox said."""

    def __init__(self, executor: Executor) -> None:
        ours, self.client = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the system's smallest
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        ours.setblocking(False)
        self.client.setblocking(False)
        self.ours = ours
        self.drained = 0
        self.failures: list[str] = []
        self.loop = asyncio.get_running_loop()
        self.outbox = Outbox(self.loop, ours, executor, self._on_drained, self.failures.append)

    def _on_drained(self) -> None:
        self.drained += 1

    async def read(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            part = await self.loop.sock_recv(self.client, 4096)
            assert part, f"it ended after {len(got)} bytes"
            got += part
        return bytes(got)

    async def until(self, condition: Callable[[], Any]) -> None:
        while not condition():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def connected() -> AsyncIterator[Pair]:
    with ThreadPoolExecutor(1) as executor:
        pair = Pair(executor)
        try:
            yield pair
        finally:
            pair.outbox.close()
            pair.ours.close()
            pair.client.close()


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 30))


@pytest.fixture
def file(tmp_path: Path) -> File:
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    return SystemFiles().open(str(path), writable=False)


def test_bytes_that_the_socket_does_not_take_follow_in_order() -> None:
    async def scenario() -> None:
        async with connected() as pair:
            pair.outbox.send(CONTENT)
            assert not pair.outbox.is_empty
            pair.outbox.send(b"the end")
            assert await pair.read(len(CONTENT) + 7) == CONTENT + b"the end"
            await pair.until(lambda: pair.outbox.is_empty)
            assert (pair.drained, pair.outbox.sent_bytes) == (1, len(CONTENT) + 7)

    run(scenario())


def test_what_is_sent_at_once_tells_nobody() -> None:
    """The caller knows already; a call back into it would find it in the middle of its work."""

    async def scenario() -> None:
        async with connected() as pair:
            pair.outbox.send(b"short")
            pair.outbox.send_spliced(bytearray(b"short too"), [])
            assert pair.outbox.is_empty
            assert await pair.read(14) == b"shortshort too"
            assert pair.drained == 0

    run(scenario())


def test_slices_are_sent_in_pieces_between_the_bytes(file: File) -> None:
    async def scenario() -> None:
        async with connected() as pair:
            slices = [(3, FileSlice(file, 7, 1_000_000)), (3, FileSlice(file, 0, 0)), (5, FileSlice(file, 1, 1))]
            pair.outbox.send_spliced(bytearray(b"abcde"), slices)
            pair.outbox.send_spliced(bytearray(b"xyz"), [(0, FileSlice(file, 100, 50_000))])
            expected = b"abc" + CONTENT[7:1_000_007] + b"de" + CONTENT[1:2] + CONTENT[100:50_100] + b"xyz"
            assert await pair.read(len(expected)) == expected
            await pair.until(lambda: pair.outbox.is_empty)

    run(scenario())


def test_one_turn_sends_a_bounded_amount(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "TURN_BYTES", 100)
    monkeypatch.setattr(outbox_module, "STRETCH_BYTES", 10)

    async def scenario() -> None:
        async with connected() as pair:
            pair.outbox.send_spliced(bytearray(b"-"), [(0, FileSlice(file, 0, 1000))])
            assert pair.outbox.sent_bytes <= 100
            assert await pair.read(1001) == CONTENT[:1000] + b"-"

    run(scenario())


def make_cold(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every page looked for is on the disk only; where was looked."""
    looked: list[int] = []

    def preadv(_fd: int, _buffers: Any, position: int, _flags: int) -> int:
        looked.append(position)
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", preadv)
    return looked


def test_cold_pages_are_read_by_a_thread(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = make_cold(monkeypatch)
    threads: set[int] = set()
    pread = type(file).pread

    class Watched:
        def fileno(self) -> int:
            return file.fileno()

        def pread(self, size: int, position: int) -> bytes:
            threads.add(threading.get_ident())
            return pread(file, size, position)

    async def scenario() -> None:
        async with connected() as pair:
            pair.outbox.send_spliced(bytearray(b"<>"), [(1, FileSlice(Watched(), 5, 3_000_000))])  # type: ignore[arg-type]
            pair.outbox.send(b"after")
            assert await pair.read(3_000_007) == b"<" + CONTENT[5:3_000_005] + b">after"
            await pair.until(lambda: pair.drained)

    run(scenario())
    assert looked[0] == 5
    assert threads
    assert threading.get_ident() not in threads


def test_a_slice_that_cannot_be_read_fails_the_connection(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cold(monkeypatch)

    class Broken:
        def fileno(self) -> int:
            return file.fileno()

        def pread(self, _size: int, _position: int) -> bytes:
            raise OSError("the disk is gone")

    async def scenario() -> None:
        async with connected() as pair:
            pair.outbox.send_spliced(bytearray(b"-"), [(0, FileSlice(Broken(), 0, 10))])  # type: ignore[arg-type]
            await pair.until(lambda: pair.failures)
            assert "the disk is gone" in pair.failures[0]

    run(scenario())


def test_a_connection_that_ends_while_a_page_is_read_stays_ended(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    make_cold(monkeypatch)
    may_read = threading.Event()

    class Slow:
        def fileno(self) -> int:
            return file.fileno()

        def pread(self, size: int, position: int) -> bytes:
            may_read.wait(10)
            return file.pread(size, position)

    async def scenario() -> None:
        async with connected() as pair:
            pair.outbox.send_spliced(bytearray(b"-"), [(0, FileSlice(Slow(), 0, 10))])  # type: ignore[arg-type]
            pair.outbox.close()
            may_read.set()
            await asyncio.get_running_loop().run_in_executor(pair.outbox._executor, int)
            await asyncio.sleep(0)
            assert (pair.failures, pair.drained, pair.outbox.sent_bytes) == ([], 0, 0)

    run(scenario())


def test_a_file_that_is_shorter_than_its_slice_fails_the_connection(file: File) -> None:
    async def scenario() -> None:
        async with connected() as pair:
            with pytest.raises(ConnectionAbortedError):
                pair.outbox.send_spliced(bytearray(b"-"), [(0, FileSlice(file, len(CONTENT), 10))])

    run(scenario())


def test_a_client_that_goes_away_in_the_middle_is_told_once(file: File) -> None:
    async def scenario() -> None:
        async with connected() as pair:
            pair.outbox.send_spliced(bytearray(b"-"), [(0, FileSlice(file, 0, 5_000_000))])
            pair.client.close()
            await pair.until(lambda: pair.failures)
            assert len(pair.failures) == 1
            assert pair.drained == 0

    run(scenario())


def test_sending_to_a_client_that_is_gone_raises() -> None:
    async def scenario() -> None:
        async with connected() as pair:
            pair.client.close()
            with pytest.raises(OSError, match="pipe"):
                pair.outbox.send(b"x")

    run(scenario())
