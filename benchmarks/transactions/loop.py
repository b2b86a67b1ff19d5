"""Consume, process, produce: confluent-kafka copies a topic, with the offsets in the transaction of the output.

The clock runs from the first message on: how long a group takes to begin is a matter of `benchmarks.groups`. The
consumer reads committed messages only, up to 1,000 go into one transaction, and the copy must be whole in the end.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.broker.clients import PRODUCER, RUN_TIMEOUT_SECONDS
from benchmarks.broker.systems import System, Usage

from .producers import TRANSACTION_MESSAGES, commit

FETCHING = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1}


def run_loop(system: System, source: str, target: str, count: int) -> tuple[Usage, int]:
    """Copy `count` messages; also how many transactions it took."""
    servers = {"bootstrap.servers": system.bootstrap}
    group = {"group.id": f"{target}-group", "isolation.level": "read_committed"}
    producer = Producer({**servers, **PRODUCER, "transactional.id": f"{target}-copier"})
    producer.init_transactions(RUN_TIMEOUT_SECONDS)
    consumer = Consumer({**servers, **group, **FETCHING})
    try:
        consumer.subscribe([source])
        return _copy(system, consumer, producer, target, count)
    finally:
        consumer.close()


def _copy(system: System, consumer: Consumer, producer: Producer, target: str, count: int) -> tuple[Usage, int]:
    messages = _take(consumer)
    copied = transactions = 0
    with system.measure() as usage:
        while True:
            _copy_some(consumer, producer, messages, target)
            copied += len(messages)
            transactions += 1
            if copied >= count:
                return usage, transactions
            messages = _take(consumer)


def _take(consumer: Consumer) -> list[Any]:
    deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        messages = consumer.consume(TRANSACTION_MESSAGES, 0.01)
        failed = next((message.error() for message in messages if message.error()), None)
        if failed is not None:
            raise RuntimeError(f"the consumer got {failed}")
        if messages:
            return messages
    raise TimeoutError(f"no message came in {RUN_TIMEOUT_SECONDS:.0f} s")


def _copy_some(consumer: Consumer, producer: Producer, messages: list[Any], target: str) -> None:
    producer.begin_transaction()
    for message in messages:
        producer.produce(target, message.value())
    last = messages[-1]
    positions = [TopicPartition(last.topic(), last.partition(), last.offset() + 1)]
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), RUN_TIMEOUT_SECONDS)
    commit(producer)
