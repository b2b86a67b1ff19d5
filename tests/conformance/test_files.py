"""The files: Kafka's DumpLogSegments accepts every one that Penstock wrote, and our log reads those of Kafka."""

from __future__ import annotations

import random
import shutil
import struct
import threading
import time
from pathlib import Path

import confluent_kafka
import pytest

import oracle
import raw
from brokers import Broker, PenstockProcess
from changes import check_created
from clients import COMPRESSIONS, Confluent, Record
from penstock.env.clock import SystemClock
from penstock.env.files import SystemFiles
from penstock.log.config import LogConfig
from penstock.log.loader import load_log
from penstock.log.log import Log
from penstock.log.open_segments import OpenSegments
from penstock.log.partition_metadata import read_partition_metadata
from penstock.types import TopicPartition
from penstock.wire.record import iterate_records
from penstock.wire.records import iterate_headers

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TOPIC = "files"
PARTITIONS = 3
SMALL_SEGMENTS = {"log.segment.bytes": str(1 << 20), "log.index.interval.bytes": "1000"}
READ_AT_ONCE = 1 << 20


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    reason = oracle.why_unavailable()
    if reason is not None:
        pytest.skip(reason)


# Penstock writes, Kafka's tool reads


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory written under load: rolls, all codecs, idempotence, deleted records, a crash, a clean stop."""
    with PenstockProcess(tmp_path_factory.mktemp("files"), SMALL_SEGMENTS) as broker:
        with raw.Connection(broker.bootstrap) as connection:
            raw.create_topic(connection, TOPIC, PARTITIONS)
        load(broker)
        delete_records(broker, partition=0, offset=1500)
        crash_under_load(broker)
        broker.start()
        load(broker)
        broker.stop()
    return broker.log_dir


def load(broker: Broker) -> None:
    """Each partition gets each codec, from idempotent producers, with keys, headers and tombstones."""
    chance = random.Random(7)
    for partition in range(PARTITIONS):
        for compression in COMPRESSIONS:
            records = [
                Record(
                    None if number % 50 == 0 else chance.randbytes(600),
                    b"key %d" % (number % 10),
                    (("number", b"%d" % number), ("null", None)),
                )
                for number in range(500)
            ]
            options = {"enable.idempotence": True, "batch.size": 50_000}
            Confluent().produce(
                broker.bootstrap, TOPIC, records, partition=partition, compression=compression, options=options
            )


def delete_records(broker: Broker, partition: int, offset: int) -> None:
    asked = [{"name": TOPIC, "partitions": [{"partition_index": partition, "offset": offset}]}]
    with raw.Connection(broker.bootstrap) as connection:
        answer = connection.call("DeleteRecords", 2, topics=asked, timeout_ms=30_000).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, offset)


def crash_under_load(broker: PenstockProcess) -> None:
    """kill -9 while a connection sends one batch after the other."""
    some_written = threading.Event()

    def write() -> None:
        try:
            with raw.Connection(broker.bootstrap) as connection:
                for number in range(1_000_000):
                    raw.produce(connection, TOPIC, raw.batch([b"x" * 5000] * 3), partition=number % PARTITIONS)
                    if number == 200:
                        some_written.set()
        except OSError:
            some_written.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert some_written.wait(60)
    broker.kill()
    writer.join(60)


def complaints(files: list[Path], *options: str) -> list[str]:
    """What DumpLogSegments finds wrong. A file that does not begin at offset 0 always has a gap before its first."""
    done = oracle.run_tool("org.apache.kafka.tools.DumpLogSegments", [*options, "--files", ",".join(map(str, files))])
    invalid = [line for line in done.stdout.splitlines() if "isvalid: false" in line]
    known = ("Non-consecutive offsets in ", "  -1 is followed by ")
    errors = [line for line in done.stderr.splitlines() if line and not line.startswith(known)]
    status = [] if done.returncode == 0 else [f"status {done.returncode}"]
    assert all(f"Dumping {file}" in done.stdout for file in files) or status, done.stdout[:1000]
    return invalid + errors + status


def files_of(directory: Path, suffix: str) -> list[Path]:
    return sorted(directory.glob(f"{TOPIC}-*/*{suffix}"))


def test_the_load_was_what_it_should_be(written: Path) -> None:
    logs = files_of(written, ".log")
    assert len(logs) >= 3 * PARTITIONS, "segments rolled"
    assert files_of(written, ".snapshot"), "producers were remembered"
    assert len(files_of(written, ".index")) == len(files_of(written, ".timeindex")) == len(logs)


def test_every_log_is_accepted_record_by_record(written: Path) -> None:
    assert complaints(files_of(written, ".log"), "--deep-iteration") == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_every_index_is_accepted(written: Path, suffix: str) -> None:
    """By its own sanity check, and entry by entry against the log beside it."""
    indexes = files_of(written, suffix)
    assert complaints(indexes, "--index-sanity-check") == []
    assert complaints(indexes) == []


def test_every_snapshot_of_producers_is_accepted(written: Path) -> None:
    assert complaints(files_of(written, ".snapshot")) == []


@pytest.mark.parametrize(
    ("suffix", "entry_size", "position", "format_"),
    [(".log", 0, 100, ">B"), (".index", 8, 4, ">i"), (".timeindex", 12, 8, ">i")],
)
def test_a_damaged_file_would_be_noticed(
    written: Path, tmp_path: Path, suffix: str, entry_size: int, position: int, format_: str
) -> None:
    """These tests can fail: one number that is off by one is seen."""
    sound = next(file for file in files_of(written, suffix) if file.stat().st_size > 2 * entry_size)
    for beside in sound.parent.glob(sound.stem + ".*"):
        shutil.copy(beside, tmp_path)
    damaged = tmp_path / sound.name
    content = bytearray(damaged.read_bytes())
    (value,) = struct.unpack_from(format_, content, position)
    struct.pack_into(format_, content, position, value ^ 1)
    damaged.write_bytes(content)
    assert complaints([damaged], "--deep-iteration") != []


# Kafka writes, our log reads


def open_copy(source: Path, target: Path, topic: str) -> Log:
    """Our log over a copy of a partition's directory, scanned from the start as after a crash."""
    shutil.copytree(source, target)
    files = SystemFiles()
    topic_id = read_partition_metadata(files, str(target))
    assert topic_id is not None
    config = LogConfig(segment_bytes=1 << 20)
    return load_log(
        files, SystemClock(), OpenSegments(), str(target), TopicPartition(topic, 0), topic_id, config, is_clean=False
    )


def stored_bytes(log: Log) -> bytes:
    """All batches from the start to the end, as the log serves them."""
    parts, offset = [], log.log_start_offset
    while (found := log.read(offset, READ_AT_ONCE, log.log_end_offset)) is not None:
        parts.append(found.file.pread(found.size, found.position))
        offset = [header.next_offset for _, header in iterate_headers(parts[-1])][-1]
    return b"".join(parts)


def fetched_bytes(bootstrap: str, topic: str) -> bytes:
    """The same from a broker, cut batches left out."""
    parts, offset = [], 0
    with raw.Connection(bootstrap) as connection:
        while (found := raw.batches(records := raw.fetch(connection, topic, offset).records)) != []:
            parts.append(bytes(records)[: sum(batch.size_in_bytes for batch in found)])
            offset = found[-1].next_offset
    return b"".join(parts)


def write_transactions(bootstrap: str, topic: str) -> None:
    """One that is committed and one that is aborted: their markers stand in the log too."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(60) == 0
        end(60)


def wait_for_markers(bootstrap: str, topic: str, log_end_offset: int) -> None:
    """The coordinator writes them after it has answered the client."""
    deadline = time.monotonic() + 30
    with raw.Connection(bootstrap) as connection:
        while raw.fetch(connection, topic, 0, max_bytes=1).last_stable_offset < log_end_offset:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_our_log_reads_what_kafka_wrote(kafka: Broker, name: str, tmp_path: Path) -> None:
    with raw.Connection(kafka.bootstrap) as connection:
        raw.create_topic(connection, name, segment_bytes=str(1 << 20), index_interval_bytes="1000")
        check_created(kafka, connection, name)
    headers = (("a", b"1"), ("null", None), ("ключ", b"\xff"))
    chance = random.Random(7)
    for compression in COMPRESSIONS:
        records = [
            Record(None if n % 9 == 0 else chance.randbytes(900), b"k%d" % n, headers[: n % 4], raw.RECENT + n)
            for n in range(400)
        ]
        options = {"enable.idempotence": True, "batch.size": 60_000}
        Confluent().produce(kafka.bootstrap, name, records, compression=compression, options=options)
    write_transactions(kafka.bootstrap, name)
    wait_for_markers(kafka.bootstrap, name, log_end_offset=2000 + 22)
    log = open_copy(kafka.log_dir / f"{name}-0", tmp_path / f"{name}-0", name)
    assert log.corruptions == []
    assert len(list((tmp_path / f"{name}-0").glob("*.log"))) > 1
    ours, theirs = stored_bytes(log), fetched_bytes(kafka.bootstrap, name)
    assert ours == theirs
    read = [record for position, _ in iterate_headers(ours) for record in iterate_records(ours, position)]
    by_kafka_python = [record for batch in raw.batches(theirs) for record in batch]
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in read] == [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in by_kafka_python
    ]
    log.close()


def test_our_log_finds_by_time_what_kafka_wrote(kafka: Broker, name: str, tmp_path: Path) -> None:
    with raw.Connection(kafka.bootstrap) as connection:
        raw.create_topic(connection, name, segment_bytes=str(1 << 20))
        check_created(kafka, connection, name)
        for number in range(30):
            raw.produce(connection, name, raw.batch([b"x" * 100_000], timestamp=raw.RECENT + number * 10))
    log = open_copy(kafka.log_dir / f"{name}-0", tmp_path / f"{name}-0", name)
    for number in range(30):
        found = log.offset_for_timestamp(raw.RECENT + number * 10 - 5)
        assert found is not None
        assert (found.offset, found.timestamp) == (number, raw.RECENT + number * 10)
    log.close()
