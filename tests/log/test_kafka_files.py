"""Apache Kafka and we read each other's files: its dump tool accepts ours, our log reads a directory of its own."""

from __future__ import annotations

import errno
import os
import random
import re
from pathlib import Path

import pytest

import oracle
from log.batches import batch
from penstock.env.clock import SystemClock
from penstock.env.files import SystemFiles
from penstock.errors import StorageError
from penstock.log.config import LogConfig
from penstock.log.loader import load_log
from penstock.log.log import Log
from penstock.log.manager import LogManager
from penstock.log.open_segments import OpenSegments
from penstock.types import TopicPartition, topic_id_from_text
from penstock.wire.compression import compress
from penstock.wire.record import Record, iterate_records
from penstock.wire.records import (
    ATTRIBUTES,
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    HEADER_SIZE,
    LENGTH,
    LOG_OVERHEAD,
    Codec,
    iterate_headers,
    update_crc,
)

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TP = TopicPartition("dumped", 0)
CONFIG = LogConfig(segment_bytes=100_000, index_interval_bytes=1000)


@pytest.fixture(scope="module", autouse=True)
def _kafka() -> None:
    reason = oracle.why_unavailable()
    if reason is not None:
        pytest.skip(reason)


def compressed(codec: Codec, values: list[bytes], producer: tuple[int, int, int]) -> bytearray:
    plain = batch(values, producer=producer, timestamp=SystemClock().now_ms())
    data = plain[:HEADER_SIZE] + bytearray(compress(codec, plain[HEADER_SIZE:]))
    LENGTH.pack_into(data, BATCH_LENGTH_AT, len(data) - LOG_OVERHEAD)
    ATTRIBUTES.pack_into(data, ATTRIBUTES_AT, codec)
    update_crc(data, 0)
    return data


def write_under_load(log: Log, chance: random.Random) -> None:
    """Rolls, all codecs, idempotence, truncation, deletion, changes of the leader."""
    sequences = dict.fromkeys(range(5), 0)
    for number in range(3000):
        producer = chance.randrange(5)
        values = [b"%d " % number * chance.randint(1, 30) for _ in range(chance.randint(1, 10))]
        data = compressed(Codec(number % 5), values, (producer, 0, sequences[producer]))
        log.append_as_leader(data, number // 1000)
        sequences[producer] += len(values)
        log.advance_high_watermark(log.log_end_offset)
        if number == 2000:
            log.truncate_to(log.log_end_offset - 200)
            sequences = {each: next_sequence(log, each) for each in sequences}
    log.delete_records(500)


def next_sequence(log: Log, producer: int) -> int:
    entry = log.producers.entry(producer)
    return entry.last_sequence + 1 if entry is not None else 0


def dump(paths: list[Path], *options: str) -> str:
    """One run of the tool for all files: starting Java takes longer than the rest."""
    arguments = [*options, "--files", ",".join(str(path) for path in paths)]
    done = oracle.run_tool("org.apache.kafka.tools.DumpLogSegments", arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def check_with_kafka(directory: Path, log: Log) -> None:
    """Each file of the log, with Kafka's own eyes."""
    text = dump(sorted(directory.glob("*.log")), "--deep-iteration")
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert offsets == list(range(log.segments.first.base_offset, log.log_end_offset))
    assert not re.search(r"isvalid: false|invalid bytes|[Mm]ismatch|[Ee]xception", text), text[-2000:]
    indexes = sorted(directory.glob("*index"))
    assert dump(indexes, "--index-sanity-check").count("passed sanity check") == len(indexes)
    assert not re.search(r"[Mm]ismatch|out of order|not found|[Ee]xception", dump(indexes))
    snapshots = sorted(directory.glob("*.snapshot"))
    assert dump(snapshots).count("producerId: 1 ") == len(snapshots)


def test_kafka_accepts_every_file_that_we_wrote_under_load(tmp_path: Path) -> None:
    manager = LogManager(SystemFiles(), SystemClock(), [str(tmp_path)])
    manager.open({})
    log = manager.create(TP, bytes(range(16)), CONFIG)
    write_under_load(log, random.Random(1))
    assert len(log.segments) > 5
    manager.close()
    check_with_kafka(tmp_path / str(TP), log)


def test_kafka_accepts_what_we_recovered_after_a_crash(tmp_path: Path) -> None:
    manager = LogManager(SystemFiles(), SystemClock(), [str(tmp_path)])
    manager.open({})
    log = manager.create(TP, bytes(range(16)), CONFIG)
    write_under_load(log, random.Random(2))
    newest = Path(log.segments.active.path(".log"))
    log.fence(OSError(errno.EIO, "the process dies here"))
    with pytest.raises(StorageError):
        log.roll()
    manager.close()
    os.truncate(newest, newest.stat().st_size - 7)
    again = LogManager(SystemFiles(), SystemClock(), [str(tmp_path)])
    again.open({TP: (bytes(range(16)), CONFIG)})
    recovered = again.logs[TP]
    assert 0 < log.log_end_offset - recovered.log_end_offset <= 10
    recovered.append_as_leader(batch([b"after the crash"], timestamp=SystemClock().now_ms()), 9)
    again.close()
    check_with_kafka(tmp_path / str(TP), recovered)


def records_of(log: Log) -> list[Record]:
    found: list[Record] = []
    offset = log.log_start_offset
    while (piece := log.read(offset, 1 << 20, log.log_end_offset)) is not None:
        data = piece.file.pread(piece.size, piece.position)
        for position, header in iterate_headers(data):
            found += iterate_records(data, position)
            offset = header.next_offset
    return found


@pytest.mark.parametrize("stop", ["cleanly", "by force"])
def test_a_directory_that_kafka_wrote_is_read_record_for_record(tmp_path: Path, stop: str) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    node = oracle.KafkaNode(tmp_path / "kafka", {"log.segment.bytes": "1048576", "num.partitions": "1"})
    sent: list[tuple[bytes, bytes]] = []
    with node as kafka:
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, "compression.type": codec}
            )
            for number in range(2000):
                key, value = b"%d" % number, b"%s %d " % (codec.encode(), number) * 20
                producer.produce("written", key=key, value=value, headers={"number": b"%d" % number})
                sent.append((key, value))
                producer.poll(0)
            assert producer.flush(60) == 0
        if stop == "by force":
            kafka.kill()
    (data_directory,) = {path.parent.parent for path in (tmp_path / "kafka").glob("**/written-0/partition.metadata")}
    text = (data_directory / "written-0" / "partition.metadata").read_text()
    topic_id = topic_id_from_text(text.split("topic_id: ")[1])
    manager = LogManager(SystemFiles(), SystemClock(), [str(data_directory)])
    manager.open({TopicPartition("written", 0): (topic_id, LogConfig())})
    log = manager.logs[TopicPartition("written", 0)]
    records = records_of(log)
    assert [(record.key, record.value) for record in records] == sent
    assert [record.offset for record in records] == list(range(len(sent)))
    assert records[5].headers == (("number", b"5"),)
    assert log.corruptions == []
    assert len(log.producers.entries) == 5
    found = log.offset_for_timestamp(records[4321].timestamp)
    assert found is not None
    assert found.offset == next(each.offset for each in records if each.timestamp >= records[4321].timestamp)
    manager.close()


def test_kafka_goes_on_with_what_we_wrote_through_several_stops(tmp_path: Path) -> None:
    """Kafka takes the last time index entry of a stopped log for its largest timestamp, and does not look further."""
    confluent_kafka = pytest.importorskip("confluent_kafka")
    admins = pytest.importorskip("confluent_kafka.admin")
    now_ms = SystemClock().now_ms()
    with oracle.KafkaNode(tmp_path / "kafka", {"num.partitions": "1"}) as kafka:
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce("shared", b"0", timestamp=now_ms)
        assert producer.flush(60) == 0
        kafka.stop()
        directory = str(kafka.log_dir / "shared-0")
        for number in range(1, 10):
            log = load_log(
                SystemFiles(), SystemClock(), OpenSegments(), directory, TopicPartition("shared", 0), bytes(16), CONFIG
            )
            log.append_as_leader(batch([b"%d" % number], timestamp=now_ms + number * 10), log.epochs.latest_epoch)
            log.close()
        kafka.start()
        producer.produce("shared", b"10", timestamp=now_ms)
        assert producer.flush(60) == 0
        admin = admins.AdminClient({"bootstrap.servers": kafka.bootstrap})
        partition = confluent_kafka.TopicPartition("shared", 0)
        for spec, expected in (
            (admins.OffsetSpec.latest(), 11),
            (admins.OffsetSpec.max_timestamp(), 9),
            (admins.OffsetSpec.for_timestamp(now_ms + 41), 5),
        ):
            (found,) = admin.list_offsets({partition: spec}).values()
            assert found.result(30).offset == expected
