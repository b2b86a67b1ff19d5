"""The connection machine over real sockets: cutting, order, bounds, slices of files."""

from __future__ import annotations

import asyncio
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from penstock.env.files import File, SystemFiles
from penstock.env.network import SystemNetwork
from penstock.errors import MalformedError
from penstock.net import listener
from penstock.net.listener import ListenerLimits, Server
from penstock.net.server_connection import CloseConnection, Limits, Pending, Spliced
from served import framed, run, serving


class FileSlice(NamedTuple):
    file: File
    position: int
    size: int


def echo(_connection, frame):
    return framed(bytes(frame))


async def connect(server):
    return await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 26)


async def read_frame(reader):
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def test_requests_that_come_in_one_write_are_answered_in_order():
    async def scenario():
        async with serving(echo) as server:
            reader, writer = await connect(server)
            writer.write(b"".join(framed(b"%d" % n) for n in range(100)))
            assert [await read_frame(reader) for _ in range(100)] == [b"%d" % n for n in range(100)]

    run(scenario())


def test_a_request_that_comes_byte_by_byte_is_served():
    async def scenario():
        async with serving(echo) as server:
            reader, writer = await connect(server)
            for byte in framed(b"slowly") + framed(b"but surely"):
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            assert await read_frame(reader) == b"slowly"
            assert await read_frame(reader) == b"but surely"

    run(scenario())


@pytest.mark.parametrize("size", [1, 16_383, 16_384, 262_140, 262_144, 900_000, 1_048_576, 5_000_000])
def test_requests_of_every_size_come_through_whole_and_pipelined(size):
    async def scenario():
        async with serving(echo) as server:
            reader, writer = await connect(server)
            payloads = [bytes([65 + n]) * size for n in range(4)]
            writer.write(b"".join(map(framed, payloads)))
            for payload in payloads:
                assert await read_frame(reader) == payload

    run(scenario())


@pytest.mark.parametrize("declared", [-1, 0, 1001, 2**31 - 1])
def test_a_length_out_of_bounds_ends_the_connection(declared):
    async def scenario():
        async with serving(echo, Limits(max_request_bytes=1000)) as server:
            reader, writer = await connect(server)
            writer.write(framed(b"fine") + struct.pack(">i", declared))
            assert await read_frame(reader) == b"fine"
            assert await reader.read() == b""
            assert not server.connections

    run(scenario())


def test_answers_wait_for_a_pending_one_before_them():
    async def scenario():
        waiting: list[Pending] = []

        def serve(_connection, frame):
            if bytes(frame) == b"wait":
                waiting.append(Pending())
                return waiting[-1]
            return framed(bytes(frame))

        async with serving(serve) as server:
            reader, writer = await connect(server)
            writer.write(framed(b"one") + framed(b"wait") + framed(b"three"))
            assert await read_frame(reader) == b"one"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(reader.readexactly(1), 0.05)
            waiting[0].finish(framed(b"two"))
            assert [await read_frame(reader), await read_frame(reader)] == [b"two", b"three"]

    run(scenario())


def test_no_more_than_the_allowed_number_of_answers_is_pending():
    async def scenario():
        waiting: list[Pending] = []

        def serve(_connection, _frame):
            waiting.append(Pending())
            return waiting[-1]

        async with serving(serve, Limits(max_in_flight=3)) as server:
            reader, writer = await connect(server)
            writer.write(b"".join(framed(b"%d" % n) for n in range(10)))
            for n in range(10):
                while len(waiting) <= n:
                    await asyncio.sleep(0.001)
                assert len(waiting) <= n + 3
                waiting[n].finish(framed(b"%d" % n))
                assert await read_frame(reader) == b"%d" % n

    run(scenario())


def test_slices_of_files_go_out_between_the_bytes(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(bytes(range(256)) * 8192)
    file = SystemFiles().open(str(path), writable=False)

    def serve(_connection, _frame):
        data = bytearray(struct.pack(">i", 6 + 1_000_000 + 3) + b"abcdef")
        return Spliced(data, [(7, FileSlice(file, 1, 1_000_000)), (10, FileSlice(file, 0, 3))])

    async def scenario():
        async with serving(serve) as server:
            reader, writer = await connect(server)
            for _ in range(3):
                writer.write(framed(b"x"))
                content = path.read_bytes()
                assert await read_frame(reader) == b"abc" + content[1:1_000_001] + b"def" + content[:3]

    run(scenario())


def test_a_reader_that_does_not_read_holds_back_only_itself(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(b"z" * 20_000_000)
    file = SystemFiles().open(str(path), writable=False)

    def serve(_connection, frame):
        if bytes(frame) == b"much":
            return Spliced(bytearray(struct.pack(">i", 20_000_000)), [(4, FileSlice(file, 0, 20_000_000))])
        return framed(bytes(frame))

    async def scenario():
        async with serving(serve) as server:
            slow_reader, slow_writer = await connect(server)
            slow_writer.write(framed(b"much"))
            reader, writer = await connect(server)
            for _ in range(100):
                writer.write(framed(b"quick"))
                assert await read_frame(reader) == b"quick"
            assert await read_frame(slow_reader) == b"z" * 20_000_000

    run(scenario())


def test_a_client_that_vanishes_cancels_what_it_waited_for():
    async def scenario():
        cancelled = asyncio.Event()

        async with serving(lambda _connection, _frame: Pending(cancelled.set)) as server:
            _, writer = await connect(server)
            writer.write(framed(b"x"))
            while not server.connections:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            writer.close()
            await cancelled.wait()
            assert not server.connections

    run(scenario())


@pytest.mark.parametrize("error", [CloseConnection("enough"), MalformedError("nonsense")])
def test_what_was_answered_before_an_error_still_arrives(error):
    async def scenario():
        def serve(_connection, frame):
            if bytes(frame) == b"bad":
                raise error
            return framed(bytes(frame))

        async with serving(serve) as server:
            reader, writer = await connect(server)
            writer.write(framed(b"good") + framed(b"bad") + framed(b"never"))
            assert await read_frame(reader) == b"good"
            assert await reader.read() == b""

    run(scenario())


def test_slices_that_follow_a_pause_are_served_once(tmp_path):
    """More requests than may be pending: those that waited in the buffer are answered with slices, each once."""
    path = tmp_path / "segment"
    path.write_bytes(b"0123456789")
    file = SystemFiles().open(str(path), writable=False)
    served: list[bytes] = []
    waiting: list[Pending] = []

    def serve(_connection, frame):
        served.append(bytes(frame))
        if frame[0] == ord("w"):
            waiting.append(Pending())
            return waiting[-1]
        return Spliced(bytearray(struct.pack(">i", 2)), [(4, FileSlice(file, int(bytes(frame)), 2))])

    async def scenario():
        async with serving(serve, Limits(max_in_flight=1)) as server:
            reader, writer = await connect(server)
            writer.write(framed(b"w") + b"".join(framed(b"%d" % n) for n in range(8)))
            while not waiting:
                await asyncio.sleep(0.001)
            waiting[0].finish(framed(b"waited"))
            assert await read_frame(reader) == b"waited"
            assert [await read_frame(reader) for _ in range(8)] == [b"%d%d" % (n, n + 1) for n in range(8)]
            assert served == [b"w", *(b"%d" % n for n in range(8))]

    run(scenario())


def test_a_client_that_vanishes_while_it_is_sent_a_slice_is_forgotten(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(b"z" * 50_000_000)
    file = SystemFiles().open(str(path), writable=False)

    def serve(_connection, _frame):
        return Spliced(bytearray(struct.pack(">i", 50_000_000)), [(4, FileSlice(file, 0, 50_000_000))])

    async def scenario():
        async with serving(serve) as server:
            loop = asyncio.get_running_loop()
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it resets, as a crash does
            sock.setblocking(False)
            await loop.sock_connect(sock, ("127.0.0.1", server.port))
            await loop.sock_sendall(sock, framed(b"x"))
            await loop.sock_recv(sock, 1000)
            assert len(server.connections) == 1
            sock.close()
            while server.connections:
                await asyncio.sleep(0.001)

    run(scenario())


def test_a_client_that_asks_much_and_reads_nothing_holds_little_memory():
    answer = framed(b"a" * 50_000)
    served = 0

    def serve(_connection, _frame):
        nonlocal served
        served += 1
        return answer

    async def scenario():
        async with serving(serve) as server:
            reader, writer = await connect(server)
            writer.write(framed(b"?") * 10_000)
            seen = -1
            while seen != served:  # until the broker serves no more
                seen = served
                await asyncio.sleep(0.05)
            (connection,) = server.connections
            assert sum(map(len, connection.outbox._parts)) <= 8 * 1024 * 1024
            for _ in range(10_000):
                assert await reader.readexactly(len(answer)) == answer

    run(scenario())


def test_a_bug_while_serving_ends_that_connection_only(caplog):
    def serve(_connection, frame):
        if bytes(frame) == b"bug":
            raise ZeroDivisionError
        return framed(bytes(frame))

    async def scenario():
        async with serving(serve) as server:
            unlucky, writer = await connect(server)
            reader, other = await connect(server)
            writer.write(framed(b"bug"))
            assert await unlucky.read() == b""
            other.write(framed(b"fine"))
            assert await read_frame(reader) == b"fine"

    run(scenario())
    assert "this is a bug" in caplog.text


def test_answers_that_come_after_the_client_went_are_dropped(caplog):
    async def scenario():
        waiting: list[Pending] = []

        def serve(_connection, _frame):
            waiting.append(Pending())
            return waiting[-1]

        async with serving(serve) as server:
            _, writer = await connect(server)
            writer.write(framed(b"x"))
            while not waiting:
                await asyncio.sleep(0.001)
            writer.close()
            while server.connections:
                await asyncio.sleep(0.001)
            waiting[0].finish(framed(b"too late"))
            _, again = await connect(server)
            again.close()

    run(scenario())
    assert caplog.text == ""


def test_an_answer_that_is_there_before_it_is_waited_for_is_sent():
    def serve(_connection, frame):
        pending = Pending()
        pending.finish(framed(bytes(frame)))
        return pending

    async def scenario():
        async with serving(serve) as server:
            reader, writer = await connect(server)
            writer.write(framed(b"one") + framed(b"two"))
            assert [await read_frame(reader), await read_frame(reader)] == [b"one", b"two"]

    run(scenario())


def test_connections_beyond_the_limit_are_refused_and_counted():
    async def scenario():
        async with serving(echo, listener_limits=ListenerLimits(max_connections_per_ip=2)) as server:
            pairs = [await connect(server) for _ in range(2)]
            for reader, writer in pairs:
                writer.write(framed(b"in"))
                assert await read_frame(reader) == b"in"
            refused, _ = await connect(server)
            assert await refused.read() == b""
            assert server.refused_count == 1
            pairs[0][1].close()
            while len(server.connections) > 1:
                await asyncio.sleep(0.001)
            reader, writer = await connect(server)
            writer.write(framed(b"again"))
            assert await read_frame(reader) == b"again"

    run(scenario())


def test_dawdling_and_idle_connections_are_closed(monkeypatch):
    monkeypatch.setattr(listener, "SWEEP_S", 0.02)

    async def scenario():
        limits = ListenerLimits(partial_request_s=0.05, idle_s=0.3)
        async with serving(echo, listener_limits=limits) as server:
            dawdler, writer = await connect(server)
            writer.write(struct.pack(">i", 100) + b"part")
            idler, _ = await connect(server)
            assert await dawdler.read() == b""
            assert await idler.read() == b""

    run(scenario())


def test_a_declared_length_alone_allocates_little():
    async def scenario():
        async with serving(echo) as server:
            pairs = []
            for _ in range(20):
                reader, writer = await connect(server)
                writer.write(struct.pack(">i", 100_000_000) + b"x")
                pairs.append((reader, writer))
            while sum(connection.received_bytes for connection in server.connections) < 20 * 5:
                await asyncio.sleep(0.001)
            held = sum(len(connection._private or b"") for connection in server.connections)
            assert held <= 20 * 64 * 1024
            for _, writer in pairs:
                writer.close()

    run(scenario())


def test_a_port_that_is_taken_is_an_os_error():
    with socket.create_server(("127.0.0.1", 0)) as taken, ThreadPoolExecutor(1) as executor:
        server = Server(SystemNetwork(), executor, Limits(), ListenerLimits())
        with pytest.raises(OSError, match="in use"):
            server.bind("127.0.0.1", taken.getsockname()[1], "PLAINTEXT")


@pytest.mark.parametrize(
    ("sent", "guess"), [(b"GET / HTTP/1.1\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01", "TLS"), (b"\xff" * 8, "bytes")]
)
def test_who_sends_nonsense_is_named_in_the_log_but_not_each_time(caplog, sent, guess):
    async def scenario():
        async with serving(echo) as server:
            for _ in range(10):
                reader, writer = await connect(server)
                writer.write(sent)
                assert await reader.read() == b""
            assert server.fault_count == 10
            lines = [record.getMessage() for record in caplog.records if "closed the connection" in record.getMessage()]
            assert len(lines) == 1
            assert guess in lines[0]

    run(scenario())
