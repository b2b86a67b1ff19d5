"""M03: offsets in a partition are consecutive, and messages keep their order in it."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka

from brokers import PenstockProcess
from clients import Driver, Record


def test_m03_a_partition_keeps_the_order(
    penstock: PenstockProcess, client: Driver, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    sent = [b"%d" % number for number in range(2000)]
    client.produce(penstock.bootstrap, topic, [Record(value) for value in sent])
    got = client.consume(penstock.bootstrap, topic, 0, 2000)
    assert [record.value for record in got] == sent
    assert [record.offset for record in got] == list(range(2000))


def test_m03_messages_of_one_key_keep_their_order_among_many_partitions(
    penstock: PenstockProcess, client: Driver, topic_on_penstock: Callable[..., str]
) -> None:
    """A key's messages are in one partition, so their order holds; between partitions there is none to keep."""
    topic = topic_on_penstock(partitions=5)
    producer = confluent_kafka.Producer({"bootstrap.servers": penstock.bootstrap})
    counts = [0] * 5

    def on_delivery(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None
        counts[message.partition() or 0] += 1

    for number in range(1000):
        producer.produce(topic, b"%d" % number, key=b"key %d" % (number % 20), on_delivery=on_delivery)
    assert producer.flush(30) == 0
    seen: dict[bytes | None, list[int]] = {}
    for partition in range(5):
        for record in client.consume(penstock.bootstrap, topic, 0, counts[partition], partition=partition):
            seen.setdefault(record.key, []).append(int(record.value or b""))
    assert len(seen) == 20
    assert all(numbers == sorted(numbers) and len(numbers) == 50 for numbers in seen.values())
