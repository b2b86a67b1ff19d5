"""What one client can take from the broker is bounded: memory by what it really sent, sockets by its presence.

The memory is measured from outside, as the broker's resident set and its peak. `PENSTOCK_IDLE_CONNECTIONS` (2,000) is
how many idle connections are opened; the limit of open files must allow that many.
"""

from __future__ import annotations

import functools
import os
import resource
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import cramjam
import pytest

import raw
from brokers import PenstockProcess
from bystanders import Bystander
from penstock.wire import api
from penstock.wire.compile import codec
from penstock.wire.frame import encode_request
from penstock.wire.records import ATTRIBUTES_AT, BATCH_LENGTH_AT, HEADER_SIZE, LOG_OVERHEAD, update_crc
from processes import MIB, forget_peak, peak_resident_bytes, resident_bytes, socket_count

IDLE_CONNECTIONS = int(os.environ.get("PENSTOCK_IDLE_CONNECTIONS", "2000"))
PARTIAL_CONNECTIONS = 1000
PARTIAL_BYTES = 64 * 1024
WAIT_SECONDS = 60.0
LARGEST_FRAME = 100 * MIB
BROKER_RESOURCE = 4

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockProcess]:
    """Partial requests are given up after two seconds, so that a test can see it."""
    settings = {"penstock.partial.frame.timeout.ms": "2000", "socket.listen.backlog.size": "1000"}
    with PenstockProcess(tmp_path_factory.mktemp("bounds"), settings) as process:
        with raw.Connection(process.bootstrap) as connection:
            raw.create_topic(connection, "warm")  # what the first requests load is not what is measured
            for _ in range(50):
                raw.produce(connection, "warm", raw.batch([bytes(1000)]))
                raw.fetch(connection, "warm")
        yield process
        check_no_bug(process)


class Growth:
    """How much more memory the broker has, and had at most, since this was made."""

    def __init__(self, broker: PenstockProcess) -> None:
        self._pid = broker.pid
        forget_peak(self._pid)
        self._before = resident_bytes(self._pid)

    @property
    def now(self) -> int:
        return resident_bytes(self._pid) - self._before

    @property
    def peak(self) -> int:
        return peak_resident_bytes(self._pid) - self._before


def test_a_lying_length_takes_no_memory(broker: PenstockProcess) -> None:
    growth = Growth(broker)
    with ExitStack() as stack:
        for _ in range(200):
            connection = stack.enter_context(raw.Connection(broker.bootstrap))
            connection.send_bytes(struct.pack(">i", LARGEST_FRAME) + b"\x00\x03")
        check_serving(broker)
        assert growth.peak < 16 * MIB


@pytest.mark.parametrize("length", [0, -1, -(2**31), LARGEST_FRAME + 1, 2**31 - 1, 0x47455420])
def test_an_impossible_length_ends_the_connection(broker: PenstockProcess, length: int) -> None:
    """The last one is an HTTP client's GET."""
    with raw.Connection(broker.bootstrap) as connection:
        connection.send_bytes(struct.pack(">i", length) + b"some more bytes")
        assert connection.is_closed_by_peer()


def test_the_largest_frame_is_read_and_forgotten(broker: PenstockProcess) -> None:
    growth = Growth(broker)
    with raw.Connection(broker.bootstrap) as connection:
        connection.send_bytes(struct.pack(">ihhi", LARGEST_FRAME, 0, 9, 1) + b"\xff" * (LARGEST_FRAME - 8))
        assert connection.is_closed_by_peer()
    check_serving(broker)
    assert growth.peak < 256 * MIB
    assert growth.now < 32 * MIB


@pytest.mark.parametrize("filling", [b"\x7f", b"\xff", b"\x80", b"\x00", b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff"])
def test_huge_counts_of_elements_and_tags_take_no_memory(broker: PenstockProcess, filling: bytes) -> None:
    """Every API in every version, its body full of bytes that read as large counts."""
    growth = Growth(broker)
    for one, version in every_version():
        frame = bytes(encode_request(one, version, 1, "abuse", one.request()))
        is_flexible = codec(one.request, version).is_flexible
        head = frame[4 : 4 + 8 + 2 + len("abuse") + is_flexible]
        for size in (64, 50_000):
            body = head + (filling * size)[:size]
            with raw.Connection(broker.bootstrap) as connection:
                connection.send_bytes(struct.pack(">i", len(body)) + body)
                connection.socket.shutdown(socket.SHUT_WR)
                drain(connection)
    check_serving(broker)
    assert growth.peak < 64 * MIB


def test_a_request_with_nothing_in_it_is_answered_or_refused(broker: PenstockProcess) -> None:
    """Empty arrays and default fields, for every API and version."""
    for one, version in every_version():
        request = one.request(acks=-1) if one.name == "Produce" else one.request()
        with raw.Connection(broker.bootstrap) as connection:
            connection.send_bytes(bytes(encode_request(one, version, 7, "abuse", request)))
            try:
                answer = connection.receive_frame()
            except ConnectionError:
                continue
            assert answer[:4] == struct.pack(">i", 7), (one.name, version)
    check_serving(broker)


@pytest.mark.parametrize(
    "configs", [{"cleanup_policy": "compact"}, {"compression_type": "lz4"}], ids=["compacted", "recompressed"]
)
@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
def test_a_bomb_in_a_batch_is_refused(broker: PenstockProcess, name: str, configs: dict[str, str]) -> None:
    topic = f"bomb-{name}-{next(iter(configs.values()))}"
    if configs.get("compression_type") == name:
        configs = {"compression_type": "zstd"}
    batch = bomb(name)
    with raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, topic, 1, **configs)
        growth = Growth(broker)
        for _ in range(3):
            answer = raw.produce(connection, topic, batch)
            assert answer.error_code != 0, answer
        assert raw.fetch(connection, topic).high_watermark == 0
    check_serving(broker)
    assert growth.peak < 48 * MIB


def test_partial_requests_take_what_was_sent_and_are_given_up(broker: PenstockProcess) -> None:
    need_descriptors(2 * PARTIAL_CONNECTIONS)
    check_serving(broker)
    sockets = socket_count(broker.pid)
    growth = Growth(broker)
    with Bystander(broker.bootstrap) as bystander, ExitStack() as stack:
        connections = []
        for _ in range(PARTIAL_CONNECTIONS):
            connection = stack.enter_context(raw.Connection(broker.bootstrap))
            connection.send_bytes(struct.pack(">ihhi", LARGEST_FRAME, 0, 9, 1) + bytes(PARTIAL_BYTES - 12))
            connections.append(connection)
        bystander.wait_for_rounds(10)
        for connection in connections:
            assert connection.is_closed_by_peer()
    wait_until(lambda: socket_count(broker.pid) <= sockets + 10)
    print(f"\n{PARTIAL_CONNECTIONS} partial requests of {PARTIAL_BYTES} bytes: peak {growth.peak / MIB:.1f} MiB more")
    assert growth.peak < 80 * MIB


def test_a_sender_of_one_byte_at_a_time_is_given_up(broker: PenstockProcess) -> None:
    frame = bytes(encode_request(api.load(3), 12, 1, "abuse", api.load(3).request()))
    with Bystander(broker.bootstrap) as bystander, raw.Connection(broker.bootstrap) as connection:
        connection.socket.settimeout(0.2)
        for byte in frame * 100:
            try:
                connection.send_bytes(bytes([byte & 0x7F]))
            except ConnectionError:
                break
            if closed_within_timeout(connection):
                break
        else:
            raise AssertionError("the broker never gave up")
        bystander.check()


def test_idle_connections_are_cheap(broker: PenstockProcess) -> None:
    need_descriptors(2 * IDLE_CONNECTIONS)
    check_serving(broker)
    sockets = socket_count(broker.pid)
    growth = Growth(broker)
    with Bystander(broker.bootstrap) as bystander, ExitStack() as stack:
        for _ in range(IDLE_CONNECTIONS):
            stack.enter_context(raw.Connection(broker.bootstrap))
        wait_until(lambda: socket_count(broker.pid) >= sockets + IDLE_CONNECTIONS)
        bystander.wait_for_rounds(20)
        each = growth.now / IDLE_CONNECTIONS
        print(f"\n{IDLE_CONNECTIONS} idle connections: {each:.0f} bytes each")
        assert each < 10_000
    wait_until(lambda: socket_count(broker.pid) <= sockets + 10)


def test_readers_that_do_not_read_hold_little_memory(broker: PenstockProcess) -> None:
    fill(broker, "large", 24 * MIB)
    growth = Growth(broker)
    with Bystander(broker.bootstrap) as bystander, ExitStack() as stack:
        for _ in range(100):
            connection = stack.enter_context(raw.Connection(broker.bootstrap))
            for _ in range(20):
                connection.send("Fetch", 12, **raw.fetch_fields("large", 0, partition_max_bytes=50 * MIB))
        bystander.wait_for_rounds(20)
        print(f"\n100 readers that do not read: peak {growth.peak / MIB:.1f} MiB more")
        assert growth.peak < 32 * MIB


def test_many_small_requests_with_large_answers_wait_for_their_reader(broker: PenstockProcess) -> None:
    """Forty bytes ask for some ten kilobytes: the broker does not answer far ahead of what is taken."""
    with raw.Connection(broker.bootstrap) as connection:
        resource_asked = {"resource_type": BROKER_RESOURCE, "resource_name": "1"}
        request = connection.frame("DescribeConfigs", 4, resources=[resource_asked], include_documentation=True)
    growth = Growth(broker)
    with Bystander(broker.bootstrap) as bystander, ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(raw.Connection(broker.bootstrap))
            connection.socket.setblocking(False)
            connection.socket.send(request * 5000)
        bystander.wait_for_rounds(20)
        print(
            f"\n5 x 5000 requests with large answers: peak {growth.peak / MIB:.1f} MiB more, "
            f"the bystander's slowest round {bystander.slowest_seconds * 1000:.0f} ms"
        )
        assert growth.peak < 128 * MIB


def test_a_client_that_leaves_while_its_fetches_wait_is_forgotten(broker: PenstockProcess) -> None:
    check_serving(broker)
    sockets = socket_count(broker.pid)
    for _ in range(50):
        with raw.Connection(broker.bootstrap) as connection:
            for _ in range(20):
                connection.send("Fetch", 12, **raw.fetch_fields("warm", 50, max_wait_ms=2**31 - 1, min_bytes=1 << 30))
    wait_until(lambda: socket_count(broker.pid) <= sockets)
    check_serving(broker)


# What the tests use


def check_serving(broker: PenstockProcess) -> None:
    """Everything sent before was handled, for the broker's loop is one: now it answers this."""
    with raw.Connection(broker.bootstrap) as connection:
        assert raw.produce(connection, "warm", raw.batch([b"still here"])).error_code == 0


def check_no_bug(broker: PenstockProcess) -> None:
    text = broker.stderr()
    assert "Traceback" not in text, text[text.index("Traceback") - 500 :][:5000]
    assert "this is a bug" not in text, text


def every_version() -> Iterator[tuple[api.Api, int]]:
    for key in api.MODULES:
        one = api.load(key)
        for version in one.versions:
            yield one, version


def drain(connection: raw.Connection) -> None:
    try:
        while connection.socket.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass


def closed_within_timeout(connection: raw.Connection) -> bool:
    try:
        return connection.socket.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@functools.cache
def bomb(name: str) -> bytes:
    """A batch with a right header and checksum whose one record is as many zeros as a megabyte can be made to hold."""
    compress: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
        "gzip": (1, lambda data: zlib.compress(data, 1, wbits=31)),
        "snappy": (2, lambda data: bytes(cramjam.snappy.compress_raw(data))),
        "lz4": (3, lambda data: bytes(cramjam.lz4.compress(data))),
        "zstd": (4, lambda data: bytes(cramjam.zstd.compress(data, 3))),
    }
    number, squeeze = compress[name]
    size = 18 * MIB if name == "snappy" else 64 * MIB
    whole = bytearray(raw.batch([b"x"], keys=[b"k"])[:HEADER_SIZE]) + squeeze(bytes(size))
    struct.pack_into(">i", whole, BATCH_LENGTH_AT, len(whole) - LOG_OVERHEAD)
    struct.pack_into(">h", whole, ATTRIBUTES_AT, number)
    update_crc(whole, 0)
    return bytes(whole)


def fill(broker: PenstockProcess, topic: str, size: int) -> None:
    with raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, topic)
        for _ in range(size // MIB):
            assert raw.produce(connection, topic, raw.batch([bytes(MIB - 1000)])).error_code == 0


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def need_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 500:
        if hard != resource.RLIM_INFINITY and hard < count + 500:
            pytest.skip(f"needs {count + 500} open files, and the limit is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 500, hard))
