"""`kill -9` of the broker under load, many times in a row on one data directory.

Three idempotent producers with different codecs and one plain one live across the restarts. The default is a dozen
kills, then a few clean stops; `PENSTOCK_KILLS=100` makes it a hundred kills, `PENSTOCK_SEED=7` chooses other moments.
Run with `-s` for the figures.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from pathlib import Path

import pytest

import oracle
import raw
from brokers import PenstockProcess
from loads import Load, check_load, check_offsets, read_topic
from log_files import check_indexes, check_with_kafka, check_with_penstock
from penstock.log.config import LogConfig

KILLS = int(os.environ.get("PENSTOCK_KILLS", "12"))
SEED = int(os.environ.get("PENSTOCK_SEED", "1"))
PARTITIONS = 3
SEGMENT_BYTES = 1 << 20
INDEX_INTERVAL_BYTES = 20_000
"""Some batches, so that most stops find the newest batches without an entry."""

STOPS = 3
EARLIEST_KILL_S, LATEST_KILL_S = 0.0, 0.4


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("durability", "kills"), [pytest.param("os", KILLS, id="os"), pytest.param("fsync", max(3, KILLS // 4), id="fsync")]
)
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(tmp_path: Path, durability: str, kills: int) -> None:
    settings = {
        "log.segment.bytes": str(SEGMENT_BYTES),
        "log.index.interval.bytes": str(INDEX_INTERVAL_BYTES),
        "penstock.durability": durability,
    }
    broker = PenstockProcess(tmp_path, settings)
    with broker:
        create(broker, "orders")
        loads = [
            Load(broker.bootstrap, "orders", PARTITIONS, "lz4", "lz4"),
            Load(broker.bootstrap, "orders", PARTITIONS, "zstd", "zstd"),
            Load(broker.bootstrap, "orders", PARTITIONS, "gzip", "gzip", burst=3),
            Load(broker.bootstrap, "orders", PARTITIONS, "plain", "snappy", idempotent=False),
        ]
        for load in loads:
            load.start()
        starts = kill_again_and_again(broker, loads, kills, random.Random(SEED))
        stop_again_and_again(broker, loads)
        for load in loads:
            load.finish()
        broker.restart()
        content = read_topic(broker.bootstrap, "orders", PARTITIONS)
        check_offsets(content)
        for load in loads:
            check_load(load, content)
    show(loads, starts, durability, sum(map(len, content.values())))
    config = LogConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=INDEX_INTERVAL_BYTES)
    check_indexes(broker.log_dir, tmp_path / "rebuilt", config)
    check_with_penstock(broker.log_dir)
    if durability == "os" and oracle.why_unavailable() is None:
        check_with_kafka(broker.log_dir)


def kill_again_and_again(broker: PenstockProcess, loads: list[Load], kills: int, chance: random.Random) -> list[float]:
    """How long each start took until `ready`. Now and then the broker is killed before the loads are back."""
    starts = []
    for _ in range(kills):
        if chance.random() < 0.8:
            for load in loads:
                load.wait_for_progress()
        time.sleep(chance.uniform(EARLIEST_KILL_S, LATEST_KILL_S))  # the random moment, not a wait for anything
        broker.kill()
        began = time.monotonic()
        broker.start()
        starts.append(time.monotonic() - began)
        check_quiet(broker)
    return starts


def stop_again_and_again(broker: PenstockProcess, loads: list[Load]) -> None:
    """Clean stops, in the midst of the load: no scan makes the indexes anew that go on from here."""
    for _ in range(STOPS):
        for load in loads:
            load.wait_for_progress()
        broker.restart()
        check_quiet(broker)
    for load in loads:
        load.wait_for_progress()


def check_quiet(broker: PenstockProcess) -> None:
    text = broker.stderr()
    assert "Traceback" not in text, text
    assert "a bug in" not in text, text
    assert "damaged" not in text, text


def create(broker: PenstockProcess, topic: str, partitions: int = PARTITIONS, **configs: str) -> None:
    with raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, topic, partitions, **configs)


def show(loads: list[Load], starts: list[float], durability: str, messages: int) -> None:
    acknowledged = sum(len(load.acknowledged) for load in loads)
    print(
        f"\n{durability}: {len(starts)} kills, {acknowledged} acknowledged, {messages} in the log; start after a kill: "
        f"median {statistics.median(starts) * 1000:.0f} ms, worst {max(starts) * 1000:.0f} ms"
    )
