"""M11: reading never deletes; a slow consumer costs a fast one nothing; a large backlog is served."""

from __future__ import annotations

from collections.abc import Callable

import raw
from brokers import PenstockProcess
from clients import Driver, Record


def test_m11_what_was_read_can_be_read_again(
    penstock: PenstockProcess, client: Driver, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    client.produce(penstock.bootstrap, topic, [Record(b"%d" % number) for number in range(100)])
    readings = [client.consume(penstock.bootstrap, topic, 0, 100) for _ in range(3)]
    assert readings[0] == readings[1] == readings[2]


def test_m11_a_slow_consumer_costs_a_fast_one_nothing(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    """The slow one asks for megabytes and does not read them; the fast one gets each message as it comes."""
    topic = topic_on_penstock()
    with (
        raw.Connection(penstock.bootstrap) as producer,
        raw.Connection(penstock.bootstrap) as slow,
        raw.Connection(penstock.bootstrap) as fast,
    ):
        for _ in range(10):
            raw.produce(producer, topic, raw.batch([b"x" * 900_000]))
        for _ in range(10):
            slow.send("Fetch", 12, **raw.fetch_fields(topic, 0, partition_max_bytes=20 << 20))
        for number in range(50):
            fast.send("Fetch", 12, **raw.fetch_fields(topic, 10 + number, max_wait_ms=20_000, min_bytes=1))
            raw.produce(producer, topic, raw.batch([b"%d" % number]))
            answer = fast.receive("Fetch", 12).responses[0].partitions[0]
            assert raw.values(answer.records) == [b"%d" % number]


def test_m11_a_backlog_is_served_from_the_start(
    penstock: PenstockProcess, client: Driver, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock(segment_bytes=str(1 << 20))
    with raw.Connection(penstock.bootstrap) as connection:
        for number in range(40):
            raw.produce(connection, topic, raw.batch([b"%04d" % number * 250] * 500))
    got = client.consume(penstock.bootstrap, topic, 0, 20_000)
    assert [record.value for record in got] == [b"%04d" % (n // 500) * 250 for n in range(20_000)]
