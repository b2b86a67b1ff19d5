"""M08: flush after so many messages or so long; by default the operating system decides.

What a flush moves is the recovery point: a broker that was killed checks only what lies behind it.
"""

from __future__ import annotations

import time
from pathlib import Path

import raw
from brokers import PenstockProcess

CHECKPOINT = "recovery-point-offset-checkpoint"
QUICK = {"log.flush.scheduler.interval.ms": "100", "log.flush.offset.checkpoint.interval.ms": "100"}


def recovery_point(broker: PenstockProcess, topic: str) -> int:
    """The offset up to which the checkpoint says the partition is on the disk."""
    path = broker.log_dir / CHECKPOINT
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[2]) for line in lines[2:] if line.split()[:2] == [topic, "0"]), 0)


def wait_for_recovery_point(broker: PenstockProcess, topic: str, offset: int) -> None:
    deadline = time.monotonic() + 20
    while recovery_point(broker, topic) < offset:
        assert time.monotonic() < deadline, recovery_point(broker, topic)
        time.sleep(0.05)


def test_m08_flush_after_so_many_messages(tmp_path: Path) -> None:
    settings = {**QUICK, "log.flush.interval.messages": "10"}
    with PenstockProcess(tmp_path, settings) as broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "t")
        for _ in range(25):
            raw.produce(connection, "t", raw.batch([b"v"]))
        wait_for_recovery_point(broker, "t", 20)


def test_m08_flush_after_so_long(tmp_path: Path) -> None:
    settings = {**QUICK, "log.flush.interval.ms": "200"}
    with PenstockProcess(tmp_path, settings) as broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "t")
        raw.produce(connection, "t", raw.batch([b"v"] * 7))
        wait_for_recovery_point(broker, "t", 7)


def test_m08_what_was_acknowledged_survives_kill_9_without_a_flush(tmp_path: Path) -> None:
    """The operating system has it; only a power cut needs more, and that is what replicas or a flush are for."""
    with PenstockProcess(tmp_path) as broker:
        with raw.Connection(broker.bootstrap) as connection:
            raw.create_topic(connection, "t")
            for number in range(200):
                assert raw.produce(connection, "t", raw.batch([b"%d" % number])).error_code == 0
        broker.kill()
        broker.start()
        with raw.Connection(broker.bootstrap) as connection:
            assert raw.values(raw.fetch(connection, "t").records) == [b"%d" % number for number in range(200)]
            assert raw.produce(connection, "t", raw.batch([b"next"])).base_offset == 200
