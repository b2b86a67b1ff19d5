"""Groups that change their protocol while they work, with confluent-kafka: classic to consumer, and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

import raw
from brokers import Broker
from clients import Confluent, Record

DEADLINE_SECONDS = 60.0
CLASSIC = {"group.protocol": "classic", "session.timeout.ms": 10_000, "heartbeat.interval.ms": 300}
MODERN = {"group.protocol": "consumer"}
NewConsumer = Callable[..., Consumer]


@pytest.fixture
def consumer(broker: Broker, group: str) -> Iterator[NewConsumer]:
    """Makes consumers of the test's group; they are closed at the end."""
    with ExitStack() as stack:

        def make(topic: str, options: dict[str, Any]) -> Consumer:
            config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
            made = Consumer(config | options)
            stack.callback(made.close)
            made.subscribe([topic])
            return made

        yield make


def owned(consumer: Consumer) -> set[int]:
    return {each.partition for each in consumer.assignment()}


def poll_until(consumers: Sequence[Consumer], sizes: Sequence[int]) -> list[int]:
    """Until they have every partition once, so many each (in any order); what they read meanwhile."""
    values = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        parts = [owned(each) for each in consumers]
        whole = sorted(index for part in parts for index in part)
        if whole == list(range(sum(sizes))) and sorted(map(len, parts)) == sorted(sizes):
            return values
        assert time.monotonic() < deadline, f"it did not happen in time: {parts}"
        for each in consumers:
            message = each.poll(0.02)
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            values.append(int(message.value() or b""))


def kind(connection: raw.Connection, group: str) -> str:
    answer = connection.call("ListGroups", 5, states_filter=[], types_filter=[])
    return next(str(each.group_type).lower() for each in answer.groups if each.group_id == group)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_consumers_change_their_protocol_one_by_one_and_back(
    consumer: NewConsumer,
    broker: Broker,
    connection: raw.Connection,
    group: str,
    new_topic: Callable[..., str],
    strategy: str,
) -> None:
    if (broker.name, strategy) == ("kafka", "cooperative-sticky"):
        pytest.skip(
            "Kafka answers GROUP_ID_NOT_FOUND ('an unsupported custom assignor is in use') where a classic member has "
            "user data, as one with librdkafka's cooperative-sticky has from its second join on"
        )
    topic = new_topic(partitions=4)
    classic = CLASSIC | {"partition.assignment.strategy": strategy}
    one, two = consumer(topic, classic), consumer(topic, classic)
    poll_until([one, two], [2, 2])
    assert kind(connection, group) == "classic"
    one.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    three = consumer(topic, MODERN)
    poll_until([one, two, three], [2, 1, 1])
    assert kind(connection, group) == "consumer"
    one.unsubscribe()
    poll_until([one, two, three], [0, 2, 2])
    two.unsubscribe()
    poll_until([one, two, three], [0, 0, 4])
    back = consumer(topic, classic)
    poll_until([back, three], [2, 2])
    assert kind(connection, group) == "consumer"
    three.unsubscribe()
    poll_until([back, three], [4, 0])
    assert kind(connection, group) == "classic"
    records = [Record(b"%d" % number) for number in range(5)]
    for partition in range(4):
        Confluent().produce(broker.bootstrap, topic, records, partition=partition)
    got = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(got) < 20:
        assert time.monotonic() < deadline
        message = back.poll(0.1)
        if message is not None and message.error() is None:
            got.append((message.partition(), message.offset()))
    assert sorted(got) == [(partition, offset) for partition in range(4) for offset in range(5)]
