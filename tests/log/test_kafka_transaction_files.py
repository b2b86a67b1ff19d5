"""Transactions in files: Kafka's dump tool accepts ours, and a directory of Kafka's means the same to us as to it."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import oracle
import raw
from changes import check_created
from log.batches import batch
from penstock.env.clock import SystemClock
from penstock.env.files import SystemFiles
from penstock.log.config import LogConfig
from penstock.log.log import Log
from penstock.log.manager import LogManager
from penstock.types import TopicPartition, topic_id_from_text
from penstock.wire.batch_builder import ControlType, EndTxnMarker
from transactional import Transactional

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TP = TopicPartition("dumped", 0)
TOPIC_ID = bytes(range(16))
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=1000)
TRANSACTIONAL = 16
TOPIC = "written"
READ_COMMITTED = 1


@pytest.fixture(scope="module", autouse=True)
def _kafka() -> None:
    reason = oracle.why_unavailable()
    if reason is not None:
        pytest.skip(reason)


def dump(paths: list[Path], *options: str) -> str:
    arguments = [*options, "--files", ",".join(str(path) for path in paths)]
    done = oracle.run_tool("org.apache.kafka.tools.DumpLogSegments", arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def write_under_load(log: Log, chance: random.Random) -> None:
    """Many producers whose transactions interleave, end both ways, span segments, and stay open at the end."""
    state = {producer: [0, 0] for producer in range(6)}  # epoch, sequence
    for number in range(1500):
        producer = chance.randrange(6)
        epoch, sequence = state[producer]
        if chance.random() < 0.25:
            marker = EndTxnMarker(chance.choice(list(ControlType)), number // 700)
            state[producer] = [epoch + 1, 0]
            log.append_marker(producer, epoch + 1, marker, 0, transaction_version=2)
        else:
            values = [b"%d " % number * 5] * chance.randint(1, 4)
            now_ms = SystemClock().now_ms()
            data = batch(
                values, producer=(producer, epoch, sequence), attributes=TRANSACTIONAL, timestamp=now_ms, key=None
            )
            guard = log.start_verification(producer, epoch, sequence, supports_epoch_bump=True)
            log.append_as_leader(data, 0, guard=guard)
            state[producer][1] += len(values)
        log.advance_high_watermark(log.log_end_offset)


def expected_index(log: Log) -> list[tuple[int, ...]]:
    return [tuple(each) for each in log.aborted_transactions(log.log_start_offset, log.log_end_offset)]


@pytest.mark.parametrize("stop", ["cleanly", "by force"])
def test_kafka_accepts_every_file_of_ours_with_transactions(tmp_path: Path, stop: str) -> None:
    manager = LogManager(SystemFiles(), SystemClock(), [str(tmp_path)])
    manager.open({})
    log = manager.create(TP, TOPIC_ID, CONFIG)
    write_under_load(log, random.Random(3))
    if stop == "by force":  # the files as they are, and a start that makes the indexes anew
        log.is_fenced = True
        for path in (tmp_path / str(TP)).glob("*.txnindex"):
            path.write_bytes(path.read_bytes()[:-5])
        manager.close()
        manager = LogManager(SystemFiles(), SystemClock(), [str(tmp_path)])
        manager.open({TP: (TOPIC_ID, CONFIG)})
        expected = expected_index(log)
        log = manager.logs[TP]
        assert expected_index(log) == expected
    manager.close()
    check_with_kafka(tmp_path / str(TP), log)


def check_with_kafka(directory: Path, log: Log) -> None:
    assert len(log.segments) > 5
    text = dump(sorted(directory.glob("*.log")), "--deep-iteration")
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)]
    assert offsets == list(range(log.log_end_offset))
    assert not re.search(r"isvalid: false|invalid bytes|[Mm]ismatch|[Ee]xception", text), text[-2000:]
    assert len(re.findall(r"endTxnMarker: (COMMIT|ABORT)", text)) == text.count("isControl: true") > 100
    indexes = sorted(directory.glob("*.txnindex"))
    pattern = r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    found = [tuple(map(int, entry)) for entry in re.findall(pattern, dump(indexes))]
    assert found == expected_index(log)
    assert len(found) > 50
    newest = max(directory.glob("*.snapshot"))
    pattern = r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (\d+) currentTxnFirstOffset: (\S+)"
    producers = re.findall(pattern, dump([newest]))
    assert sorted(producers) == sorted(
        (str(each.producer_id), str(each.epoch), str(each.coordinator_epoch), optional(each.current_txn_first_offset))
        for each in log.producers.entries
    )
    assert any(first != "OptionalLong.empty" for *_, first in producers), "some are open"


def optional(offset: int) -> str:
    """As Java prints it."""
    return "OptionalLong.empty" if offset < 0 else f"OptionalLong[{offset}]"


def run_transactions(kafka: oracle.KafkaNode) -> None:
    """Three producers by hand on a topic with small segments; the last one is left open."""
    with raw.Connection(kafka.bootstrap) as connection:
        raw.create_topic(connection, TOPIC, segment_bytes="1048576")
        check_created(kafka, connection, TOPIC)
    producers = [Transactional(kafka.bootstrap) for _ in range(3)]
    for producer in producers:
        assert producer.settled(producer.init) == 0
    for turn in range(8):
        for producer in producers:
            assert producer.settled(lambda each=producer: each.add(TOPIC)) == 0  # type: ignore[misc]
            assert producer.produce(TOPIC, [b"x" * 50_000] * 2) == 0
        for number, producer in enumerate(producers):
            if (turn, number) != (7, 2):
                wanted = (turn + number) % 3 == 0
                assert producer.settled(lambda each=producer, is_commit=wanted: each.end(is_commit)) == 0  # type: ignore[misc]
                producer.wait_for_state("CompleteCommit" if wanted else "CompleteAbort")
    for producer in producers:
        producer.close()


@pytest.mark.parametrize("stop", ["cleanly", "by force"])
def test_a_directory_of_kafkas_means_the_same_to_us(tmp_path: Path, stop: str) -> None:
    node = oracle.KafkaNode(tmp_path / "kafka")
    with node as kafka:
        run_transactions(kafka)
        with raw.Connection(kafka.bootstrap) as connection:
            answers = {
                offset: raw.fetch(connection, TOPIC, offset, isolation_level=READ_COMMITTED, partition_max_bytes=1)
                for offset in range(0, 55, 5)
            }
            end = raw.fetch(connection, TOPIC, 0).high_watermark
        if stop == "by force":
            kafka.kill()
        else:
            kafka.stop()
    directory = node.log_dir / f"{TOPIC}-0"
    topic_id = topic_id_from_text((directory / "partition.metadata").read_text().split("topic_id: ")[1])
    manager = LogManager(SystemFiles(), SystemClock(), [str(node.log_dir)])
    manager.open({TopicPartition(TOPIC, 0): (topic_id, LogConfig(segment_bytes=1 << 20))})
    log = manager.logs[TopicPartition(TOPIC, 0)]
    log.advance_high_watermark(log.log_end_offset)
    assert len(log.segments) > 1
    assert (log.log_end_offset, log.last_stable_offset) == (end, answers[0].last_stable_offset)
    assert log.last_stable_offset < log.log_end_offset
    for offset, answer in answers.items():
        kafkas = [(each.producer_id, each.first_offset) for each in answer.aborted_transactions]
        # Kafka's list reaches to its next index entry or segment, ours to the end of what is returned.
        ours = [(each.producer_id, each.first_offset) for each in log.aborted_transactions(offset, end)]
        assert kafkas == ours[: len(kafkas)]
        assert [each for each in ours if each[1] <= offset] == [each for each in kafkas if each[1] <= offset]
    pattern = r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    text = dump(sorted(directory.glob("*.txnindex")))
    assert [tuple(map(int, found)) for found in re.findall(pattern, text)] == expected_index(log)
    manager.close()
