"""M17: the partition is named by the caller, chosen by the key's hash, balanced, or the caller's own function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import confluent_kafka
import kafka
import kafka.partitioner

from brokers import PenstockProcess


def send(penstock: PenstockProcess, topic: str, keys: list[bytes | None], **options: object) -> list[int]:
    """The partitions that confluent-kafka chose."""
    chosen: list[int] = []

    def on_delivery(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None
        chosen.append(message.partition() or 0)

    producer = confluent_kafka.Producer({"bootstrap.servers": penstock.bootstrap, **options})
    for key in keys:
        producer.produce(topic, b"v", key=key, on_delivery=on_delivery)
    assert producer.flush(30) == 0
    return chosen


def test_m17_named_by_the_caller(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    topic = topic_on_penstock(partitions=4)
    producer = kafka.KafkaProducer(bootstrap_servers=penstock.bootstrap)
    sent = [producer.send(topic, b"v", partition=2) for _ in range(10)]
    assert {future.get(20).partition for future in sent} == {2}
    producer.close()


def test_m17_by_hash_of_the_key(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    topic = topic_on_penstock(partitions=4)
    producer = kafka.KafkaProducer(bootstrap_servers=penstock.bootstrap)
    first, second = (
        {number: producer.send(topic, b"v", key=b"%d" % number).get(20).partition for number in range(40)}
        for _ in range(2)
    )
    producer.close()
    assert first == second
    assert set(first.values()) == {0, 1, 2, 3}


def test_m17_balanced_without_a_key(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    topic = topic_on_penstock(partitions=4)
    counts = Counter(send(penstock, topic, [None] * 2000, **{"sticky.partitioning.linger.ms": 0}))
    assert set(counts) == {0, 1, 2, 3}
    assert max(counts.values()) < 1000


def test_m17_the_callers_own_function(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    topic = topic_on_penstock(partitions=4)

    class ByLastDigit(kafka.partitioner.Partitioner):  # type: ignore[misc]
        def partition(
            self, topic: str, key: bytes, serialized_key: bytes, value: bytes, serialized_value: bytes, cluster: Any
        ) -> int:
            return int(serialized_key[-1:]) % len(cluster.partitions_for_topic(topic))

    producer = kafka.KafkaProducer(bootstrap_servers=penstock.bootstrap, partitioner=ByLastDigit())
    sent = {n: producer.send(topic, b"v", key=b"%d" % n).get(20).partition for n in range(20)}
    producer.close()
    assert sent == {n: n % 10 % 4 for n in range(20)}
