"""`max.message.bytes` to the byte, and batches of every size up to it."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import pytest
from kio.schema.errors import ErrorCode as Code

import raw
from brokers import Broker
from clients import Confluent, Driver, Record

DEFAULT_LIMIT = 1024 * 1024 + 12
"""Kafka's default: 1 MiB and the bytes before a batch's own length counts."""


def batch_of(size: int) -> bytes:
    """A batch of one record that has exactly this size."""
    value_size = size - len(raw.batch([b""]))
    while True:
        built = raw.batch([b"x" * value_size])
        if len(built) <= size:
            assert len(built) == size, "no batch has this size: a length before it grew by a byte"
            return built
        value_size -= 1


@pytest.mark.parametrize("limit", [2000, 100_000, DEFAULT_LIMIT])
def test_the_limit_is_the_size_of_the_whole_batch(
    connection: raw.Connection, new_topic: Callable[..., str], limit: int
) -> None:
    topic = new_topic() if limit == DEFAULT_LIMIT else new_topic(max_message_bytes=str(limit))
    assert raw.produce(connection, topic, batch_of(limit)).base_offset == 0
    over = raw.produce(connection, topic, batch_of(limit + 1))
    assert (Code(over.error_code), over.base_offset) == (Code.message_too_large, -1)
    assert raw.produce(connection, topic, batch_of(limit)).base_offset == 1


def test_only_the_compressed_size_counts(connection: raw.Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="2000")
    assert raw.produce(connection, topic, raw.batch([b"x" * 100_000], compression=1)).error_code == 0


def test_what_the_broker_would_store_counts(connection: raw.Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="2000", compression_type="uncompressed")
    answer = raw.produce(connection, topic, raw.batch([b"x" * 100_000], compression=1))
    assert answer.error_code == Code.message_too_large


def test_a_large_record_goes_through_every_client(broker: Broker, client: Driver, topic: str) -> None:
    value = bytes(range(256)) * 3900
    client.produce(broker.bootstrap, topic, [Record(value)])
    assert client.consume(broker.bootstrap, topic, 0, 1)[0].value == value


def test_a_record_larger_than_the_fetch_limit_is_still_delivered(
    broker: Broker, client: Driver, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(max_message_bytes="8000000")
    value = b"x" * 5_000_000
    Confluent().produce(broker.bootstrap, topic, [Record(value)] * 2, options={"message.max.bytes": 8_000_000})
    got = client.consume(broker.bootstrap, topic, 0, 2)
    assert [record.value for record in got] == [value, value]


def test_a_client_is_told_that_its_message_is_too_large(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="1000")
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        Confluent().produce(broker.bootstrap, topic, [Record(b"x" * 2000)])
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE


def test_a_batch_of_a_hundred_thousand_records(connection: raw.Connection, topic: str) -> None:
    values = [b"%d" % number for number in range(100_000)]
    records = raw.batch(values, compression=1)
    assert raw.produce(connection, topic, records).error_code == 0
    assert raw.produce(connection, topic, raw.batch([b"next"])).base_offset == 100_000
    answer = raw.fetch(connection, topic, 99_999)
    assert raw.values(answer.records) == [*values, b"next"]
