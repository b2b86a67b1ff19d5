"""M07: appends only, sequential writes, no cache of our own beside the page cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import raw
from brokers import PenstockProcess


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def test_m07_what_is_written_never_changes(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    topic = topic_on_penstock()
    log = penstock.log_dir / f"{topic}-0" / "00000000000000000000.log"
    before = b""
    with raw.Connection(penstock.bootstrap) as connection:
        for number in range(50):
            raw.produce(connection, topic, raw.batch([b"%d" % number * 100] * 10))
            after = log.read_bytes()
            assert after.startswith(before)
            assert len(after) > len(before)
            before = after


def test_m07_the_broker_does_not_keep_what_it_stores(tmp_path: Path) -> None:
    """It takes 60 MB in and gives them out again; its own memory does not hold them."""
    with PenstockProcess(tmp_path) as broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "t")
        records = raw.batch([b"x" * 900_000])
        for _ in range(5):
            raw.produce(connection, "t", records)
            raw.fetch(connection, "t", 0)
        before = resident_bytes(broker.pid)
        for _ in range(60):
            raw.produce(connection, "t", records)
        for offset in range(60):
            assert raw.fetch(connection, "t", offset).error_code == 0
        assert resident_bytes(broker.pid) - before < 30_000_000
