"""M13: batches on send (linger, batch size) and on fetch (min and max bytes, max wait)."""

from __future__ import annotations

from collections.abc import Callable

import raw
from brokers import PenstockProcess
from clients import Confluent, Record


def batch_sizes(penstock: PenstockProcess, topic: str) -> list[int]:
    with raw.Connection(penstock.bootstrap) as connection:
        return [batch.records_count for batch in raw.batches(raw.fetch(connection, topic).records)]


def test_m13_a_lingering_producer_sends_batches(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    Confluent().produce(penstock.bootstrap, topic, [Record(b"x" * 100)] * 1000, options={"linger.ms": 200})
    assert sum(batch_sizes(penstock, topic)) == 1000
    assert len(batch_sizes(penstock, topic)) < 20


def test_m13_batch_size_limits_a_batch(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    topic = topic_on_penstock()
    options = {"linger.ms": 200, "batch.num.messages": 10}
    Confluent().produce(penstock.bootstrap, topic, [Record(b"x" * 100)] * 1000, options=options)
    assert sum(batch_sizes(penstock, topic)) == 1000
    assert max(batch_sizes(penstock, topic)) <= 10


def test_m13_a_fetch_brings_many_batches_at_once(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    with raw.Connection(penstock.bootstrap) as connection:
        for _ in range(100):
            raw.produce(connection, topic, raw.batch([b"v"]))
    assert batch_sizes(penstock, topic) == [1] * 100


def test_m13_a_fetch_waits_for_min_bytes_but_not_longer_than_max_wait(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    with raw.Connection(penstock.bootstrap) as producer, raw.Connection(penstock.bootstrap) as consumer:
        consumer.send("Fetch", 12, **raw.fetch_fields(topic, 0, max_wait_ms=20_000, min_bytes=500))
        for _ in range(2):
            raw.produce(producer, topic, raw.batch([b"x" * 200]))
            assert consumer.is_silent(0.1) == (raw.fetch(producer, topic).high_watermark == 1)
        answer = consumer.receive("Fetch", 12).responses[0].partitions[0]
        assert raw.values(answer.records) == [b"x" * 200] * 2
        ended = raw.fetch(consumer, topic, 2, max_wait_ms=100, min_bytes=500)
        assert (ended.error_code, raw.values(ended.records)) == (0, []), "min bytes never came"


def test_m13_a_fetch_brings_no_more_than_max_bytes_but_always_a_batch(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    with raw.Connection(penstock.bootstrap) as connection:
        for _ in range(10):
            raw.produce(connection, topic, raw.batch([b"x" * 1000]))
        size = len(raw.fetch(connection, topic).records) // 10
        assert len(raw.fetch(connection, topic, partition_max_bytes=3 * size).records) == 3 * size
        assert len(raw.fetch(connection, topic, max_bytes=5 * size).records) == 5 * size
        assert len(raw.fetch(connection, topic, partition_max_bytes=1, max_bytes=1).records) >= size
