"""M09: old or surplus segments go, consumed or not, whichever limit comes first; reads go on meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import raw
from brokers import PenstockProcess

VALUE = b"x" * 100_000
HOUR_MS = 3_600_000
QUICK = {"log.retention.check.interval.ms": "100", "log.segment.bytes": str(1 << 20)}


def wait_for_start(connection: raw.Connection, topic: str, is_right: Callable[[int], bool]) -> int:
    """The log's start offset, once retention has moved it where it should be."""
    deadline = time.monotonic() + 30
    while True:
        end = raw.fetch(connection, topic, 0)
        start: int = end.log_start_offset if end.error_code == 0 else earliest(connection, topic)
        if is_right(start):
            return start
        assert time.monotonic() < deadline, start
        time.sleep(0.05)


def earliest(connection: raw.Connection, topic: str) -> int:
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -2}]}]
    found: int = connection.call("ListOffsets", 6, replica_id=-1, topics=asked).topics[0].partitions[0].offset
    return found


def test_m09_by_size(tmp_path: Path) -> None:
    settings = {**QUICK, "log.retention.bytes": str(3 << 20)}
    with PenstockProcess(tmp_path, settings) as broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "t")
        for _ in range(100):
            raw.produce(connection, "t", raw.batch([VALUE]))
        start = wait_for_start(connection, "t", lambda start: start >= 60)
        assert start % 10 == 0, "whole segments go"
        kept = [raw.values(raw.fetch(connection, "t", offset).records)[0] for offset in range(start, 100)]
        assert kept == [VALUE] * len(kept)
        assert sum(log.stat().st_size for log in (broker.log_dir / "t-0").glob("*.log")) >= 3 << 20


def test_m09_by_time(tmp_path: Path) -> None:
    settings = {**QUICK, "log.retention.minutes": "60"}
    with PenstockProcess(tmp_path, settings) as broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "t")
        now = int(time.time() * 1000)
        for age_ms in [2 * HOUR_MS] * 20 + [0] * 10:
            raw.produce(connection, "t", raw.batch([VALUE], timestamp=now - age_ms))
        start = wait_for_start(connection, "t", lambda start: start > 10)
        assert start <= 20, "a segment stays while one record in it is young"


def test_m09_the_active_segment_goes_too_when_all_of_it_is_old(tmp_path: Path) -> None:
    """A small topic need not wait until its only segment is full."""
    with PenstockProcess(tmp_path, QUICK) as broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "t", retention_ms="1000")
        raw.produce(connection, "t", raw.batch([b"old"] * 5))
        wait_for_start(connection, "t", lambda start: start == 5)
        assert raw.produce(connection, "t", raw.batch([b"new"], timestamp=int(time.time() * 1000))).base_offset == 5


def test_m09_a_reader_in_the_middle_of_it_goes_on(tmp_path: Path) -> None:
    """What is being sent while its segment is deleted arrives whole."""
    settings = {**QUICK, "log.retention.bytes": str(2 << 20), "log.segment.delete.delay.ms": "100"}
    with PenstockProcess(tmp_path, settings) as broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "t")
        with raw.Connection(broker.bootstrap) as reader:
            next_offset = 0
            for _ in range(150):
                raw.produce(connection, "t", raw.batch([VALUE]))
                answer = raw.fetch(reader, "t", next_offset)
                if answer.error_code == 0:
                    next_offset += len(raw.values(answer.records))
                else:
                    next_offset = earliest(reader, "t")
            assert next_offset == 150
        wait_for_start(connection, "t", lambda start: start >= 120)
