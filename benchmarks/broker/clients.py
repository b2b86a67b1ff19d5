"""The broker under a real client: confluent-kafka (librdkafka) produces and consumes as fast as it can."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from .frames import text
from .systems import System, Usage

VALUES = 256
"""Different values in turn, so that a batch compresses as a real one and not as one value repeated."""
PRODUCER = {
    "acks": "all",
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 1 << 20,
}
CONSUMER = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    # By default a consumer whose queue is full waits a second before it fetches again.
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1 << 18,
    "fetch.queue.backoff.ms": 1,
}
RUN_TIMEOUT_SECONDS = 120.0


def produce(system: System, topic: str, value_bytes: int, count: int, codec: str) -> Usage:
    """Produce `count` messages; every one must be acknowledged."""
    failures: list[KafkaError] = []
    values = [text(value_bytes, seed) for seed in range(VALUES)]
    producer = Producer({"bootstrap.servers": system.bootstrap, "compression.type": codec, **PRODUCER})
    producer.list_topics(topic, 30)
    with system.measure() as usage:
        send(producer, topic, values, count, lambda error, _message: failures.append(error) if error else None)
        left = producer.flush(RUN_TIMEOUT_SECONDS)
    if left or failures:
        raise RuntimeError(f"{left} messages were not answered, {len(failures)} failed: {failures[:1]}")
    return usage


def send(producer: Producer, topic: str, values: list[bytes], count: int, on_delivery: Any) -> None:
    # The callback is asked of one message in 1,000: on each one it would cost more than the produce call.
    produce_one = producer.produce
    for index in range(count):
        while True:
            try:
                if index % 1000:
                    produce_one(topic, values[index % VALUES])
                else:
                    produce_one(topic, values[index % VALUES], on_delivery=on_delivery)
                    producer.poll(0)
                break
            except BufferError:
                producer.poll(0.01)


def consume(system: System, topic: str, count: int) -> Usage:
    """Consume `count` messages from the beginning of the topic's only partition."""
    consumer = Consumer({"bootstrap.servers": system.bootstrap, **CONSUMER})
    try:
        consumer.list_topics(topic, 30)
        with system.measure() as usage:
            consumer.assign([TopicPartition(topic, 0, 0)])
            take(consumer, count)
    finally:
        consumer.close()
    return usage


def take(consumer: Consumer, count: int) -> None:
    deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
    taken = 0
    while taken < count:
        messages = consumer.consume(10_000, 1.0)
        failed = next((message.error() for message in messages if message.error()), None)
        if failed is not None:
            raise RuntimeError(f"the consumer got {failed}")
        taken += len(messages)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{taken} of {count} messages came in {RUN_TIMEOUT_SECONDS:.0f} s")
