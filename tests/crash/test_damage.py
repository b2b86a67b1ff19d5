"""Bits that change on the disk while the broker is down: it starts, serves the rest, and says what is damaged.

Each round damages a copy of a data directory, as a clean stop or a kill left it, and starts the broker on it.
`PENSTOCK_DAMAGES` (5) is the number of random rounds, `PENSTOCK_SEED` chooses others.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords

import raw
from brokers import PenstockProcess

DAMAGES = int(os.environ.get("PENSTOCK_DAMAGES", "5"))
SEED = int(os.environ.get("PENSTOCK_SEED", "1"))
SETTINGS = {"log.segment.bytes": str(1 << 20)}
TOPIC = "orders"
PARTITIONS = 2
BATCHES = 30
RECORDS_PER_BATCH = 10
PAGE = 4096

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class Written:
    """A data directory as a stop left it, and what it holds."""

    data: Path
    values: dict[int, list[bytes]]


@pytest.fixture(scope="module", params=["clean", "killed"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """Three segments and more in each partition, by an idempotent producer."""
    directory = tmp_path_factory.mktemp("written")
    broker = PenstockProcess(directory, SETTINGS)
    values: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    with broker:
        with raw.Connection(broker.bootstrap) as connection:
            raw.create_topic(connection, TOPIC, PARTITIONS)
            producer_id, epoch = raw.init_producer_id(connection)
            for number in range(BATCHES * PARTITIONS):
                partition, sequence = number % PARTITIONS, number // PARTITIONS * RECORDS_PER_BATCH
                content = [b"%d %d " % (sequence + each, partition) + os.urandom(10_000) for each in range(10)]
                batch = raw.batch(content, (producer_id, epoch, sequence))
                assert raw.produce(connection, TOPIC, batch, partition).error_code == 0
                values[partition] += content
        if request.param == "killed":
            broker.kill()
    yield Written(broker.log_dir, values)
    shutil.rmtree(directory)


HINTS = (
    f"{TOPIC}-*/*.index",
    f"{TOPIC}-*/*.timeindex",
    f"{TOPIC}-*/*.snapshot",
    f"{TOPIC}-*/leader-epoch-checkpoint",
    "*-offset-checkpoint",
    "meta.properties",
    ".kafka_cleanshutdown",
)
"""Files that only say again, or sooner, what the batches themselves say."""


@pytest.mark.parametrize("how", ["garbage", "empty", "longer"])
def test_what_is_only_a_hint_may_be_damaged(written: Written, tmp_path: Path, how: str) -> None:
    shutil.copytree(written.data, tmp_path / "data")
    for path in [path for pattern in HINTS for path in (tmp_path / "data").glob(pattern)]:
        was = path.read_bytes()
        path.write_bytes({"garbage": os.urandom(len(was)), "empty": b"", "longer": was + os.urandom(11)}[how])
    check(tmp_path, written, lost_batches=0)


@pytest.mark.parametrize("number", range(DAMAGES))
def test_damage_anywhere_costs_no_more_than_what_it_hit(written: Written, tmp_path: Path, number: int) -> None:
    chance = random.Random(SEED * 1000 + number)
    shutil.copytree(written.data, tmp_path / "data")
    closed = sorted((tmp_path / "data").glob(f"{TOPIC}-*/*"))
    path = chance.choice([each for each in closed if each.stat().st_size and each.name != "partition.metadata"])
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    if chance.random() < 0.5:
        data[at] ^= 1 << chance.randrange(8)
    else:
        data[at : at + PAGE] = os.urandom(len(data[at : at + PAGE]))
    path.write_bytes(data)
    said = check(tmp_path, written, lost_batches=2 if path.suffix == ".log" else 0)
    print(f"\n{path.name} at {at} of {len(data)}: {said}")


def test_a_damaged_closed_segment_is_reported_after_a_kill(written: Written, tmp_path: Path) -> None:
    shutil.copytree(written.data, tmp_path / "data")
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (tmp_path / "data" / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    path = tmp_path / "data" / f"{TOPIC}-1" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    check(tmp_path, written, lost_batches=1)
    assert f"{path}: positions" in (tmp_path / "stderr").read_text()


def check(directory: Path, written: Written, lost_batches: int) -> str:
    """The broker starts, serves all but so many batches, and takes new ones."""
    with PenstockProcess(directory, SETTINGS) as broker, raw.Connection(broker.bootstrap) as connection:
        missing = 0
        for partition, values in written.values.items():
            found = readable(connection, partition, len(values))
            missing += len(set(values) - found)
            assert found <= set(values), "something that was never written"
            assert raw.produce(connection, TOPIC, raw.batch([b"new"]), partition).error_code == 0
        assert missing <= lost_batches * RECORDS_PER_BATCH, f"{missing} records are lost: {broker.stderr()}"
    assert "Traceback" not in broker.stderr(), broker.stderr()
    return f"{missing} records lost"


def readable(connection: raw.Connection, partition: int, end_offset: int) -> set[bytes]:
    """The values that a patient consumer gets: after an error or a wrong checksum it tries the next offset."""
    found: set[bytes] = set()
    offset = 0
    while offset < end_offset:
        answer = raw.fetch(connection, TOPIC, offset, partition=partition)
        next_offset = offset
        if answer.error_code == 0:
            for batch in intact_batches(bytes(answer.records or b"")):
                if batch.base_offset < next_offset and batch.base_offset + RECORDS_PER_BATCH <= next_offset:
                    break  # it goes back: not what was asked for
                found.update(record.value for record in batch)
                next_offset = batch.base_offset + RECORDS_PER_BATCH
        offset = max(offset + 1, next_offset)
    return found


def intact_batches(data: bytes) -> Iterator[DefaultRecordBatch]:
    """Up to the first that is not as it was written."""
    records = MemoryRecords(data)
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            return
        yield batch
