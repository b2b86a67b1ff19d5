"""ListOffsets: earliest, latest, by time, by the largest time; on full, empty and shortened logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from kio.schema.errors import ErrorCode as Code

import raw
from brokers import Broker

START = raw.RECENT
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
NOT_FOUND = (-1, -1)


def offset_for(connection: raw.Connection, topic: str, timestamp: int, version: int = 10, **fields: Any) -> Any:
    partition = {"partition_index": fields.pop("partition", 0), "timestamp": timestamp}
    partition |= fields.pop("partition_fields", {})
    response = connection.call(
        "ListOffsets", version, replica_id=-1, topics=[{"name": topic, "partitions": [partition]}], **fields
    )
    return response.topics[0].partitions[0]


def answer(connection: raw.Connection, topic: str, timestamp: int, **fields: Any) -> tuple[int, int]:
    """The offset and the time that it stands for."""
    found = offset_for(connection, topic, timestamp, **fields)
    assert found.error_code == 0, Code(found.error_code)
    return found.offset, found.timestamp


@pytest.fixture
def filled(connection: raw.Connection, topic: str) -> str:
    """Nine records in three batches, at 0, 1, 2, 1000, 1001, 1002, 2000, 2001 and 2002 ms from START."""
    for index in range(3):
        raw.produce(connection, topic, raw.batch([b"v"] * 3, timestamp=START + index * 1000))
    return topic


def delete_records(connection: raw.Connection, topic: str, offset: int) -> None:
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    response = connection.call("DeleteRecords", 2, topics=asked, timeout_ms=30_000)
    assert response.topics[0].partitions[0].error_code == 0


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version(connection: raw.Connection, filled: str, version: int) -> None:
    assert answer(connection, filled, LATEST, version=version) == (9, -1)
    assert answer(connection, filled, EARLIEST, version=version) == (0, -1)
    found = offset_for(connection, filled, START + 1, version=version)
    assert (found.offset, found.timestamp, found.leader_epoch) == (1, START + 1, 0 if version >= 4 else -1)


BY_TIME = {
    -(10**12): (0, START),
    -1: (0, START),
    0: (0, START),
    1: (1, START + 1),
    2: (2, START + 2),
    3: (3, START + 1000),
    1000: (3, START + 1000),
    2002: (8, START + 2002),
    2003: NOT_FOUND,
    1 << 61: NOT_FOUND,
}


@pytest.mark.parametrize("after_start", BY_TIME)
def test_the_first_record_at_or_after_a_time(connection: raw.Connection, filled: str, after_start: int) -> None:
    assert answer(connection, filled, START + after_start) == BY_TIME[after_start]


def test_the_first_record_that_is_late_enough_wins_when_times_go_back(connection: raw.Connection, topic: str) -> None:
    for after_start in (500, 100, 900, 300):
        raw.produce(connection, topic, raw.batch([b"v"], timestamp=START + after_start))
    assert answer(connection, topic, START + 200) == (0, START + 500)
    assert answer(connection, topic, START + 501) == (2, START + 900)
    assert answer(connection, topic, MAX_TIMESTAMP) == (2, START + 900)


@pytest.mark.parametrize("compression", range(5))
def test_times_inside_a_compressed_batch(connection: raw.Connection, topic: str, compression: int) -> None:
    raw.produce(connection, topic, raw.batch([b"v" * 200] * 5, timestamp=START, compression=compression))
    assert answer(connection, topic, START + 3) == (3, START + 3)
    assert answer(connection, topic, MAX_TIMESTAMP) == (4, START + 4)


def test_the_largest_time(connection: raw.Connection, filled: str) -> None:
    assert answer(connection, filled, MAX_TIMESTAMP, version=7) == (8, START + 2002)


def test_of_equal_largest_times_the_first_wins(connection: raw.Connection, topic: str) -> None:
    for _ in range(3):
        raw.produce(connection, topic, raw.batch([b"v"], timestamp=START))
    assert answer(connection, topic, MAX_TIMESTAMP) == (0, START)


def test_an_empty_partition(connection: raw.Connection, topic: str) -> None:
    assert answer(connection, topic, LATEST) == (0, -1)
    assert answer(connection, topic, EARLIEST) == (0, -1)
    assert answer(connection, topic, EARLIEST_LOCAL) == (0, -1)
    for timestamp in (MAX_TIMESTAMP, 0, START):
        found = offset_for(connection, topic, timestamp)
        assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (0, -1, -1, -1)


def test_after_delete_records_the_log_starts_later(connection: raw.Connection, filled: str) -> None:
    delete_records(connection, filled, 4)
    assert answer(connection, filled, EARLIEST) == (4, -1)
    assert answer(connection, filled, LATEST) == (9, -1)
    assert answer(connection, filled, 0) == (4, START + 1001)
    assert answer(connection, filled, START + 1000) == (4, START + 1001)
    assert answer(connection, filled, START + 2000) == (6, START + 2000)


def test_after_all_records_are_deleted_nothing_is_found_by_time(connection: raw.Connection, filled: str) -> None:
    delete_records(connection, filled, -1)
    assert answer(connection, filled, EARLIEST) == (9, -1)
    assert answer(connection, filled, LATEST) == (9, -1)
    assert answer(connection, filled, 0) == NOT_FOUND


@pytest.mark.parametrize(("special", "oldest"), [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9)])
def test_special_times_are_unknown_to_older_versions(
    connection: raw.Connection, filled: str, special: int, oldest: int
) -> None:
    assert offset_for(connection, filled, special, version=oldest).error_code == 0
    assert offset_for(connection, filled, special, version=oldest - 1).error_code == Code.unsupported_version


def test_without_tiered_storage_there_is_no_tiered_offset(connection: raw.Connection, filled: str) -> None:
    assert answer(connection, filled, LATEST_TIERED) == NOT_FOUND


def test_unknown_partitions_and_times(connection: raw.Connection, filled: str, name: str) -> None:
    assert offset_for(connection, name, LATEST).error_code == Code.unknown_topic_or_partition
    assert offset_for(connection, filled, LATEST, partition=9).error_code == Code.unknown_topic_or_partition
    assert offset_for(connection, filled, -9).error_code == Code.unsupported_version


def test_a_partition_asked_for_twice_is_refused(connection: raw.Connection, filled: str) -> None:
    asked = [{"partition_index": 0, "timestamp": LATEST}] * 2
    response = connection.call("ListOffsets", 10, replica_id=-1, topics=[{"name": filled, "partitions": asked}])
    assert {partition.error_code for partition in response.topics[0].partitions} == {Code.invalid_request}


@pytest.mark.parametrize(("epoch", "code"), [(-1, Code.none), (0, Code.none), (5, Code.unknown_leader_epoch)])
def test_the_leader_epoch_is_checked(connection: raw.Connection, filled: str, epoch: int, code: Code) -> None:
    found = offset_for(connection, filled, LATEST, partition_fields={"current_leader_epoch": epoch})
    assert found.error_code == code


def test_read_committed_sees_the_same_end_without_transactions(connection: raw.Connection, filled: str) -> None:
    assert answer(connection, filled, LATEST, isolation_level=1) == (9, -1)


@pytest.mark.parametrize(
    ("epoch", "current", "expected"),
    [
        (0, -1, (Code.none, 0, 9)),
        (0, 0, (Code.none, 0, 9)),
        (5, -1, (Code.none, -1, -1)),
        (-1, -1, (Code.none, -1, -1)),
        (0, 3, (Code.unknown_leader_epoch, -1, -1)),
    ],
)
@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_end_of_a_leader_epoch(
    connection: raw.Connection, filled: str, version: int, epoch: int, current: int, expected: tuple[Code, int, int]
) -> None:
    asked = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}]
    topics = [{"topic": filled, "partitions": asked}]
    found = connection.call("OffsetForLeaderEpoch", version, topics=topics).topics[0].partitions[0]
    assert (Code(found.error_code), found.leader_epoch, found.end_offset) == expected


def test_the_end_of_a_leader_epoch_of_an_unknown_partition(connection: raw.Connection, name: str) -> None:
    asked = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
    response = connection.call("OffsetForLeaderEpoch", 4, topics=[{"topic": name, "partitions": asked}])
    assert response.topics[0].partitions[0].error_code == Code.unknown_topic_or_partition


def test_confluent_finds_offsets_for_times(broker: Broker, filled: str) -> None:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused"})
    asked = [confluent_kafka.TopicPartition(filled, 0, START + after) for after in (0, 3, 5000)]
    found = [consumer.offsets_for_times([partition], timeout=20)[0].offset for partition in asked]
    assert found == [0, 3, confluent_kafka.OFFSET_END]
    assert consumer.get_watermark_offsets(asked[0], timeout=20) == (0, 9)
    consumer.close()


def test_kafka_python_finds_offsets_for_times(broker: Broker, filled: str) -> None:
    partition = kafka.TopicPartition(filled, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap)
    found = [consumer.offsets_for_times({partition: START + after})[partition] for after in (0, 3, 5000)]
    assert [entry and (entry.offset, entry.timestamp) for entry in found] == [(0, START), (3, START + 1000), None]
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 9}
    consumer.close()


def test_aiokafka_finds_offsets_for_times(broker: Broker, filled: str) -> None:
    partition = aiokafka.TopicPartition(filled, 0)

    async def ask() -> tuple[list[Any], dict[Any, int], dict[Any, int]]:
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
            consumer.assign([partition])
            by_time = [(await consumer.offsets_for_times({partition: START + n}))[partition] for n in (0, 3, 5000)]
            return by_time, await consumer.beginning_offsets([partition]), await consumer.end_offsets([partition])

    by_time, first, end = asyncio.run(ask())
    assert [entry and (entry.offset, entry.timestamp) for entry in by_time] == [(0, START), (3, START + 1000), None]
    assert (first, end) == ({partition: 0}, {partition: 9})


def test_many_small_segments_are_searched_alike(connection: raw.Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(segment_bytes="1048576", index_interval_bytes="1000")
    value = b"x" * 100_000
    for number in range(30):
        raw.produce(connection, topic, raw.batch([value], timestamp=START + number * 10))
    for number in range(30):
        assert answer(connection, topic, START + number * 10 - 5) == (number, START + number * 10)
