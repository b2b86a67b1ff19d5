"""M14: on fetch the bytes go from the page cache to the socket by `sendfile`."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import raw
from brokers import PenstockProcess

STRACE = shutil.which("strace")
BYTES = 900_000


@pytest.mark.skipif(STRACE is None, reason="the system calls of a process are seen with strace, which is not here")
def test_m14_fetched_records_are_sent_by_sendfile(tmp_path: Path) -> None:
    assert STRACE is not None
    calls = tmp_path / "calls"
    with PenstockProcess(tmp_path / "broker") as broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "t")
        raw.produce(connection, "t", raw.batch([b"x" * BYTES]))
        watch = [STRACE, "-f", "-qq", "-e", "trace=sendfile", "-p", str(broker.pid), "-o", str(calls)]
        with subprocess.Popen(watch, stderr=subprocess.PIPE) as strace:
            try:
                while not sent_bytes(calls):
                    if strace.poll() is not None:
                        pytest.skip(f"strace may not look: {(strace.stderr.read() if strace.stderr else b'').decode()}")
                    raw.fetch(connection, "t", 0)
                before = sent_bytes(calls)
                raw.fetch(connection, "t", 0)
            finally:
                strace.send_signal(signal.SIGINT)
                strace.wait(20)
        assert sent_bytes(calls) - before >= BYTES


def sent_bytes(calls: Path) -> int:
    """The sum of what the calls returned, failed ones left out."""
    lines = calls.read_text().splitlines() if calls.exists() else []
    returned = [line.rpartition("= ")[2].split()[0] for line in lines if "= " in line]
    return sum(int(number) for number in returned if number.isdigit())


def test_m14_large_fetches_arrive_whole(tmp_path: Path) -> None:
    """Also when the socket takes only a part at a time."""
    with PenstockProcess(tmp_path) as broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "t")
        values = [bytes([number]) * BYTES for number in range(20)]
        for value in values:
            raw.produce(connection, "t", raw.batch([value]))
        answer = raw.fetch(connection, "t", 0, partition_max_bytes=50 << 20)
        assert raw.values(answer.records) == values
