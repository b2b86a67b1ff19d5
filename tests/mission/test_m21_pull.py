"""M21: pull with long poll; the consumer owns its offset: seek, rewind, earliest, latest, a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import kafka
import pytest

import raw
from brokers import PenstockProcess


class Reader:
    """kafka-python's consumer on one partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.partition = kafka.TopicPartition(topic, 0)
        self.consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap)
        self.consumer.assign([self.partition])

    def next_value(self) -> bytes:
        while True:
            polled = self.consumer.poll(timeout_ms=20_000, max_records=1)
            if polled:
                value: bytes = polled[self.partition][0].value
                return value


@pytest.fixture
def topic(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> str:
    """Ten messages, a second apart."""
    name = topic_on_penstock()
    with raw.Connection(penstock.bootstrap) as connection:
        for number in range(10):
            raw.produce(connection, name, raw.batch([b"%d" % number], timestamp=raw.RECENT + number * 1000))
    return name


@pytest.fixture
def reader(penstock: PenstockProcess, topic: str) -> Iterator[Reader]:
    made = Reader(penstock.bootstrap, topic)
    yield made
    made.consumer.close()


def test_m21_seek_and_rewind(reader: Reader) -> None:
    for offset in (5, 0, 9, 3, 3):
        reader.consumer.seek(reader.partition, offset)
        assert reader.next_value() == b"%d" % offset
    assert reader.next_value() == b"4"


def test_m21_from_earliest(reader: Reader) -> None:
    reader.consumer.seek_to_beginning(reader.partition)
    assert [reader.next_value() for _ in range(10)] == [b"%d" % number for number in range(10)]


def test_m21_from_latest(penstock: PenstockProcess, topic: str, reader: Reader) -> None:
    reader.consumer.seek_to_end(reader.partition)
    assert reader.consumer.position(reader.partition) == 10
    with raw.Connection(penstock.bootstrap) as connection:
        raw.produce(connection, topic, raw.batch([b"new"]))
    assert reader.next_value() == b"new"


def test_m21_from_a_time(reader: Reader) -> None:
    found = reader.consumer.offsets_for_times({reader.partition: raw.RECENT + 6500})[reader.partition]
    reader.consumer.seek(reader.partition, found.offset)
    assert reader.next_value() == b"7"


def test_m21_a_long_poll_ends_when_a_message_comes(penstock: PenstockProcess, topic: str) -> None:
    """The waiting costs no traffic: one request, one answer."""
    with raw.Connection(penstock.bootstrap) as consumer, raw.Connection(penstock.bootstrap) as producer:
        consumer.send("Fetch", 12, **raw.fetch_fields(topic, 10, max_wait_ms=25_000, min_bytes=1))
        assert consumer.is_silent(0.3)
        raw.produce(producer, topic, raw.batch([b"new"]))
        answer = consumer.receive("Fetch", 12).responses[0].partitions[0]
        assert raw.values(answer.records) == [b"new"]
