"""Copy exactly once while the broker and the copying programs are killed with -9: the output is the input.

Three thousand messages and three kills of each kind, unless told otherwise. The whole of it:

    PENSTOCK_COPIES=100000 PENSTOCK_KILLS=10 pytest -s tests/crash/test_exactly_once.py

`PENSTOCK_SEED=7` chooses other moments, `-s` shows the figures. The judges are a reader that runs all the while, one at
the end, and the history checker.

Apache Kafka 4.3 is killed only when asked for (`PENSTOCK_KILL_KAFKA=1`), because it does not pass each time: started
again with a transaction in PrepareCommit, it may complete it before it knows all partitions, and write no marker to
those that it does not know yet. The next marker of that producer, maybe an abort, then decides (docs/differences.md).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import oracle
import raw
from brokers import PenstockProcess
from capabilities import needs_transactions
from copying import Copiers, Job, Reader, load, read_all
from penstock.testing.history import History, check

COPIES = int(os.environ.get("PENSTOCK_COPIES", "3000"))
KILLS = int(os.environ.get("PENSTOCK_KILLS", "3"))
SEED = int(os.environ.get("PENSTOCK_SEED", "1"))
PARTITIONS, COPIERS = 4, 2
BATCH_SIZE = max(20, COPIES // 500)
"""Messages in a transaction: many transactions, so that a kill meets one in any state."""

PROGRESS_SECONDS = 120.0
MAX_CALM_SECONDS = 0.5
SETTINGS = {"group.min.session.timeout.ms": "500", "transaction.state.log.num.partitions": "5"}

Node = PenstockProcess | oracle.KafkaNode


@pytest.fixture(params=["penstock", pytest.param("kafka", marks=pytest.mark.oracle)])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    """A broker of its own, to be killed."""
    if request.param == "kafka" and (reason := why_kafka_lives()) is not None:
        pytest.skip(reason)
    kind = PenstockProcess if request.param == "penstock" else oracle.KafkaNode
    with kind(tmp_path / "broker", SETTINGS) as started:
        needs_transactions(started.bootstrap)
        yield started


def why_kafka_lives() -> str | None:
    if "PENSTOCK_KILL_KAFKA" not in os.environ:
        return "Apache Kafka is killed only when PENSTOCK_KILL_KAFKA is set"
    return oracle.why_unavailable()


@pytest.mark.slow
@pytest.mark.timeout(300 + COPIES // 100 + 40 * KILLS)
def test_the_copy_is_the_original_whatever_is_killed(node: Node, tmp_path: Path) -> None:
    history = tmp_path / "history"
    history.mkdir()
    job = Job(node.bootstrap, "source", "target", "copiers", str(history), BATCH_SIZE)
    with raw.Connection(node.bootstrap) as connection:
        raw.create_topic(connection, job.source, PARTITIONS)
        raw.create_topic(connection, job.target, PARTITIONS)
    load(job, PARTITIONS, COPIES)
    reader = Reader(job, "reader", COPIES)
    begun = time.monotonic()
    with Copiers(tmp_path, job, COPIERS) as copiers:
        reader.start()
        rage(node, copiers, reader, random.Random(SEED))
        wait_for(reader, copiers, COPIES)
    took = time.monotonic() - begun
    reader.join()
    last = read_all(job, "last")
    verdict = check(History.load(history.glob("*.jsonl")))
    print(
        f"\n{node.name}: {COPIES} messages, {KILLS} kills of the broker and {KILLS} of copiers, seed {SEED}, "
        f"{took:.0f} s, {len(copiers.gave_up)} copiers gave up {copiers.gave_up[:3]}\n{verdict}"
    )
    assert verdict.is_good, verdict
    original = {partition: list(range(COPIES // PARTITIONS)) for partition in range(PARTITIONS)}
    assert reader.seen == original
    assert last == original


def rage(node: Node, copiers: Copiers, reader: Reader, chance: random.Random) -> None:
    """Kill the broker and copiers in turns of chance, at moments of chance between the beginning and the end."""
    victims = [None] * KILLS + [chance.randrange(COPIERS) for _ in range(KILLS)]
    chance.shuffle(victims)
    moments = sorted(chance.uniform(0.02, 0.95) for _ in victims)
    for victim, moment in zip(victims, moments, strict=True):
        wait_for(reader, copiers, int(moment * COPIES))
        time.sleep(chance.uniform(0, MAX_CALM_SECONDS))  # the random moment, not a wait for anything
        if victim is None:
            node.kill()
            node.start()
        else:
            copiers.kill(victim)


def wait_for(reader: Reader, copiers: Copiers, count: int) -> None:
    """Until the reader has seen so many copies; progress must be made all the time."""
    seen, deadline = reader.count, time.monotonic() + PROGRESS_SECONDS
    while reader.count < count:
        assert not reader.errors, reader.errors
        copiers.tend()
        if reader.count > seen:
            seen, deadline = reader.count, time.monotonic() + PROGRESS_SECONDS
        assert time.monotonic() < deadline, f"no progress at {seen} of {COPIES}; {copiers.gave_up}"
        time.sleep(0.01)
