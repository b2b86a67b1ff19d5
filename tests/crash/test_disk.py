"""A full disk, and no descriptors left: the broker waits, serves what it can, and goes on when there is room again."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as Code

import raw
from brokers import PenstockProcess
from processes import MIB, descriptor_count

WAIT_SECONDS = 60.0
DISK_BYTES = 48 * MIB
BALLAST_BYTES = 16 * MIB

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with a ballast that can be dropped."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(directory)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs to mount a small tmpfs, and may not: {done.stderr.strip()}")
    (directory / "ballast").write_bytes(bytes(BALLAST_BYTES))
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.parametrize("reserve", [0, 4 * MIB], ids=["to-the-last-byte", "with-a-reserve"])
def test_a_full_disk_refuses_writes_and_serves_reads_until_there_is_room(small_disk: Path, reserve: int) -> None:
    settings = {"penstock.disk.reserve.bytes": str(reserve), "log.segment.bytes": str(MIB)}
    broker = PenstockProcess(small_disk, settings)
    with broker:
        with raw.Connection(broker.bootstrap) as connection:
            raw.create_topic(connection, "orders")
            wait_until(lambda: can_produce(connection))
            taken = fill(connection)
            assert read_all(connection) == taken
            assert produce(connection, b"x" * 900_000).error_code == Code.kafka_storage_error.value
            broker.kill()
        broker.start()
        with raw.Connection(broker.bootstrap) as connection:
            assert read_all(connection) == taken, "what was taken is there after a crash on a full disk"
            (small_disk / "ballast").unlink()
            wait_until(lambda: produce(connection, b"after").error_code == 0)
            assert read_all(connection) == [*taken, b"after"]
    broker.start()
    with raw.Connection(broker.bootstrap) as connection:
        assert read_all(connection) == [*taken, b"after"]
    broker.stop()
    assert "Traceback" not in broker.stderr(), broker.stderr()


def fill(connection: raw.Connection) -> list[bytes]:
    """Write until the broker refuses; it must refuse with an error that clients retry."""
    taken = [b"warm"]
    for number in range(200):
        value = b"%06d" % number + b"v" * 500_000
        answer = produce(connection, value)
        if answer.error_code:
            assert answer.error_code == Code.kafka_storage_error.value, answer
            assert number > 5, answer
            return taken
        taken.append(value)
    raise AssertionError("the disk never got full")


def test_new_connections_wait_when_there_are_no_descriptors(tmp_path: Path) -> None:
    with PenstockProcess(tmp_path) as broker, raw.Connection(broker.bootstrap) as early:
        raw.create_topic(early, "orders")
        assert produce(early, b"0").base_offset == 0  # what serves this is loaded now
        limit = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (descriptor_count(broker.pid) + 5, limit[1]))
        with ExitStack() as stack:
            waiting = [stack.enter_context(raw.Connection(broker.bootstrap)) for _ in range(40)]
            wait_until(lambda: "new connections wait" in broker.stderr())
            for number in range(1, 20):
                assert produce(early, b"%d" % number).base_offset == number
            resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, limit)
            for connection in waiting:
                assert connection.call("ApiVersions", 0).error_code == 0
        assert "Traceback" not in broker.stderr(), broker.stderr()


def produce(connection: raw.Connection, value: bytes) -> Any:
    return raw.produce(connection, "orders", raw.batch([value]))


def can_produce(connection: raw.Connection) -> bool:
    return bool(produce(connection, b"warm").error_code == 0)


def read_all(connection: raw.Connection) -> list[bytes | None]:
    """Every record up to the high watermark; each batch's checksum is looked at."""
    found: list[bytes | None] = []
    while True:
        answer = raw.fetch(connection, "orders", len(found))
        assert answer.error_code == 0, answer
        values = raw.values(answer.records)
        if not values:
            assert answer.high_watermark == len(found)
            return found
        found += values


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)
