"""What goes in comes out: every client, compression and acks; keys, headers, timestamps, tombstones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import raw
from brokers import Broker
from clients import COMPRESSIONS, DRIVERS, Acks, Confluent, Driver, Record


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_come_back_as_they_were_sent(
    broker: Broker, client: Driver, topic: str, compression: str, acks: Acks
) -> None:
    sent = [
        Record(b"value %d " % number * 20, b"key %d" % number, timestamp=raw.RECENT + number) for number in range(50)
    ]
    offsets = client.produce(broker.bootstrap, topic, sent, acks=acks, compression=compression)
    assert offsets == ([None] * 50 if acks == "0" else list(range(50)))
    got = client.consume(broker.bootstrap, topic, 0, 50)
    assert got == [Record(r.value, r.key, (), r.timestamp, offset) for offset, r in enumerate(sent)]


PAIRS = [(writer, reader) for writer in DRIVERS for reader in DRIVERS if writer is not reader]


@pytest.mark.parametrize(("writer", "reader"), PAIRS, ids=lambda driver: driver.name)
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_one_client_reads_what_another_wrote(
    broker: Broker, writer: Driver, reader: Driver, topic: str, compression: str
) -> None:
    writer.produce(broker.bootstrap, topic, [Record(b"x" * 300, b"k")] * 20, compression=compression)
    got = reader.consume(broker.bootstrap, topic, 0, 20)
    assert [(r.offset, r.key, r.value) for r in got] == [(n, b"k", b"x" * 300) for n in range(20)]


def test_keys_values_and_tombstones_keep_null_and_empty_apart(broker: Broker, client: Driver, topic: str) -> None:
    pairs = [(b"k", b"v"), (b"k", None), (None, b"v"), (b"", b"v"), (b"k", b""), (b"", b""), (bytes(range(256)), b"\0")]
    client.produce(broker.bootstrap, topic, [Record(value, key) for key, value in pairs])
    got = client.consume(broker.bootstrap, topic, 0, len(pairs))
    assert [(r.key, r.value) for r in got] == pairs


def test_a_record_may_be_all_null(broker: Broker, topic: str) -> None:
    """Not every client can send one, but the protocol can."""
    with raw.Connection(broker.bootstrap) as connection:
        assert raw.produce(connection, topic, raw.batch([None])).error_code == 0
        (only,) = [r for part in raw.batches(raw.fetch(connection, topic).records) for r in part]
    assert (only.key, only.value) == (None, None)


def test_headers_keep_order_duplicates_and_other_alphabets(broker: Broker, client: Driver, topic: str) -> None:
    headers = (("a", b"1"), ("b", b""), ("a", b"2"), ("", b""), ("ключ", "值".encode()), ("bin", bytes(range(256))))
    client.produce(broker.bootstrap, topic, [Record(b"v", headers=headers)])
    (got,) = client.consume(broker.bootstrap, topic, 0, 1)
    assert got.headers == headers


def test_a_header_may_be_null(broker: Broker, client: Driver, topic: str) -> None:
    """librdkafka writes it, because kafka-python cannot; every client reads it."""
    headers = (("null", None), ("empty", b""))
    Confluent().produce(broker.bootstrap, topic, [Record(b"v", headers=headers)])
    (got,) = client.consume(broker.bootstrap, topic, 0, 1)
    assert got.headers == headers


def test_a_thousand_headers_on_one_record(broker: Broker, topic: str) -> None:
    headers = tuple((f"h{number}", b"%d" % number) for number in range(1000))
    Confluent().produce(broker.bootstrap, topic, [Record(b"v", headers=headers)])
    (got,) = Confluent().consume(broker.bootstrap, topic, 0, 1)
    assert got.headers == headers


@pytest.mark.parametrize("timestamp", [1, 1_000_000_000_000])
def test_create_time_is_the_producers_however_old(
    broker: Broker, client: Driver, new_topic: Callable[..., str], timestamp: int
) -> None:
    topic = new_topic(retention_ms="-1")
    client.produce(broker.bootstrap, topic, [Record(b"v", timestamp=timestamp)])
    assert client.consume(broker.bootstrap, topic, 0, 1)[0].timestamp == timestamp


def test_log_append_time_is_the_brokers(broker: Broker, client: Driver, new_topic: Callable[..., str]) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    client.produce(broker.bootstrap, topic, [Record(b"v", timestamp=raw.RECENT + number) for number in range(3)])
    stamps = {record.timestamp for record in client.consume(broker.bootstrap, topic, 0, 3)}
    assert all(stamp is not None and stamp > raw.RECENT + 1000 for stamp in stamps)
