"""`penstock.Consumer` in groups: sharing, commits, guarantees and rebalances, on Penstock and on Apache Kafka alike."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import confluent_kafka
import pytest

import penstock
from brokers import SOURCE, Broker
from capabilities import needs_consumer_protocol, needs_groups
from clients import Confluent, Record
from penstock import TopicPartition

DEADLINE_SECONDS = 30.0
PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


@pytest.fixture(autouse=True)
def _groups(broker: Broker) -> None:
    needs_groups(broker.bootstrap)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest, broker: Broker) -> dict[str, Any]:
    if request.param == "consumer":
        needs_consumer_protocol(broker.bootstrap)
    return PROTOCOLS[request.param]


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """A topic of ten messages."""
    Confluent().produce(broker.bootstrap, topic, [Record(b"%d" % number) for number in range(10)])
    return topic


def rest(broker: Broker, topic: str, group: str, **settings: Any) -> list[int]:
    """The offsets that a group still gets."""
    with penstock.Consumer(topic, broker.bootstrap, group=group, stop_at_end=True, **settings) as consumer:
        return [message.offset for message in consumer]


def wait_until(is_so: Callable[[], object], *polled: penstock.Consumer) -> list[penstock.Message]:
    """Poll the consumers in turn until it is so; what came meanwhile."""
    got = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        for consumer in polled:
            message = consumer.poll(0.05)
            if message is not None:
                got.append(message)
    return got


def test_m04_a_consumer_without_a_group_name_is_in_the_default_group(broker: Broker, filled: str):
    with penstock.Consumer(filled, broker.bootstrap, stop_at_end=True) as consumer:
        assert len(list(consumer)) == 10
    assert rest(broker, filled, "default") == []


def test_two_groups_get_everything_each(broker: Broker, filled: str, group: str):
    assert rest(broker, filled, group) == list(range(10))
    assert rest(broker, filled, group + "-2") == list(range(10))
    assert rest(broker, filled, group) == []


def test_one_group_shares_the_messages(
    broker: Broker, new_topic: Callable[..., str], group: str, protocol: dict[str, Any]
):
    topic = new_topic(partitions=4)

    def consumer() -> penstock.Consumer:
        return penstock.Consumer(topic, broker.bootstrap, group=group, options=protocol)

    with consumer() as first, consumer() as second:
        wait_until(lambda: len(first.assignment) == len(second.assignment) == 2, first, second)
        assert set(first.assignment).isdisjoint(second.assignment)
        with penstock.Producer(broker.bootstrap) as producer:
            for number in range(100):
                producer.send(topic, b"%d" % number, partition=number % 4, forget=True)
        got: list[penstock.Message] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(got) < 100 and time.monotonic() < deadline:
            for each in (first, second):
                mine = each.poll_batch(100, 0.05)
                assert {message.where for message in mine} <= set(each.assignment)
                got += mine
    assert sorted(int(message.value) for message in got) == list(range(100))


def test_what_was_written_after_wait_assigned_is_read(broker: Broker, topic: str, group: str, protocol: dict[str, Any]):
    Confluent().produce(broker.bootstrap, topic, [Record(b"old")])
    with penstock.Consumer(topic, broker.bootstrap, group=group, start="latest", options=protocol) as consumer:
        assert consumer.wait_assigned() == [TopicPartition(topic, 0)]
        Confluent().produce(broker.bootstrap, topic, [Record(b"new")])
        message = consumer.poll(DEADLINE_SECONDS)
    assert message is not None
    assert message.value == b"new"


def test_a_time_to_start_at_counts_only_where_the_group_remembers_nothing(
    broker: Broker, new_topic: Callable[..., str], group: str
):
    topic = new_topic(retention_ms="-1")
    stamps = [1_600_000_000_000, 1_700_000_000_000]
    Confluent().produce(broker.bootstrap, topic, [Record(b"v", timestamp=stamp) for stamp in stamps])
    between = datetime.fromtimestamp(1_650_000_000, UTC)
    before = datetime.fromtimestamp(1_500_000_000, UTC)
    assert rest(broker, topic, group, start=between) == [1]
    assert rest(broker, topic, group, start=before) == []
    assert rest(broker, topic, group + "-2", start=before) == [0, 1]


def fail_at(broker: Broker, topic: str, offset: int, **settings: Any) -> None:
    """A program that fails on one message."""
    with penstock.Consumer(topic, broker.bootstrap, **settings) as consumer:
        for message in consumer:
            if message.offset == offset:
                raise RuntimeError("mine")


async def fail_at_async(broker: Broker, topic: str, offset: int, **settings: Any) -> None:
    async with penstock.AsyncConsumer(topic, broker.bootstrap, **settings) as consumer:
        async for message in consumer:
            if message.offset == offset:
                raise RuntimeError("mine")


def test_an_exception_makes_the_message_come_again(broker: Broker, filled: str, group: str):
    with pytest.raises(RuntimeError, match="mine"):
        fail_at(broker, filled, 4, group=group)
    assert rest(broker, filled, group) == [4, 5, 6, 7, 8, 9]


def test_leaving_the_loop_with_break_counts_as_done(broker: Broker, filled: str, group: str):
    with penstock.Consumer(filled, broker.bootstrap, group=group) as consumer:
        for message in consumer:
            if message.offset == 4:
                break
    assert rest(broker, filled, group) == [5, 6, 7, 8, 9]


def test_at_most_once_never_gives_it_again(broker: Broker, filled: str, group: str):
    with pytest.raises(RuntimeError, match="mine"):
        fail_at(broker, filled, 4, group=group, delivery="at_most_once")
    assert rest(broker, filled, group) == [5, 6, 7, 8, 9]


def test_sync_commits_before_the_next_message(broker: Broker, filled: str, group: str):
    with penstock.Consumer(filled, broker.bootstrap, group=group, commit="sync") as consumer:
        for message in consumer:
            assert consumer.committed() == {message.where: message.offset or None}
            if message.offset == 3:
                break


def test_async_commits_are_there_in_the_end(broker: Broker, filled: str, group: str):
    with penstock.Consumer(filled, broker.bootstrap, group=group, commit="async") as consumer:
        for batch in consumer.batches(4, 1):
            if batch[-1].offset >= 5:
                last = batch[-1].offset
                break
    assert rest(broker, filled, group) == list(range(last + 1, 10))


def test_manual_commits_are_the_callers(broker: Broker, filled: str, group: str):
    settings: Any = {"group": group, "commit": "manual"}
    with penstock.Consumer(filled, broker.bootstrap, **settings) as consumer:
        messages = [next(consumer) for _ in range(6)]
        consumer.commit(messages[2])
        assert consumer.committed() == {messages[0].where: 3}
        consumer.commit()
        assert consumer.committed() == {messages[0].where: 6}
        next(consumer)
        consumer.commit_async(messages[3])
        wait_until(lambda: consumer.committed() == {messages[0].where: 4})
    assert rest(broker, filled, group) == [4, 5, 6, 7, 8, 9]


def test_seek_in_a_group_waits_for_the_partitions(broker: Broker, filled: str, group: str):
    with penstock.Consumer(filled, broker.bootstrap, group=group) as consumer:
        consumer.seek(7)
        assert next(consumer).offset == 7
        consumer.seek("earliest")
        assert next(consumer).offset == 0


def test_rebalance_listeners_are_told_and_may_commit(
    broker: Broker, new_topic: Callable[..., str], group: str, protocol: dict[str, Any]
):
    topic = new_topic(partitions=2)
    for partition in (0, 1):
        Confluent().produce(broker.bootstrap, topic, [Record(b"v")] * 3, partition=partition)
    told: list[tuple[str, list[TopicPartition]]] = []
    settings: Any = {"group": group, "commit": "manual", "options": protocol}
    first = penstock.Consumer(
        topic,
        broker.bootstrap,
        on_assigned=lambda partitions: told.append(("assigned", sorted(partitions))),
        on_revoked=lambda partitions: (told.append(("revoked", sorted(partitions))), first.commit()),  # type: ignore[arg-type]
        **settings,
    )
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with first:
        got = wait_until(lambda: len(first.assignment) == 2, first)
        got += wait_until(lambda: len(got) == 6 or all(lag == 0 for lag in first.lag().values()), first)
        with penstock.Consumer(topic, broker.bootstrap, **settings) as second:
            again = wait_until(lambda: len(first.assignment) == len(second.assignment) == 1, first, second)
    assert again == []
    assert told[0] == ("assigned", both)
    assert any(event == "revoked" for event, _ in told)


def test_a_topic_that_is_not_there_is_a_sentence(broker: Broker, name: str, group: str):
    with (
        penstock.Consumer(name, broker.bootstrap, group=group) as consumer,
        pytest.raises(penstock.KafkaError, match=f"{name}.*no such topic"),
    ):
        next(consumer)


def committed(broker: Broker, topic: str, group: str) -> int:
    """What the broker remembers of partition 0, asked from outside the group."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        return consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=DEADLINE_SECONDS)[0].offset
    finally:
        consumer.close()


VICTIM = """
import sys, time, penstock
bootstrap, topic, group, delivery = sys.argv[1:]
options = {"session.timeout.ms": 6000, "auto.commit.interval.ms": 50}
with penstock.Consumer(topic, bootstrap, group=group, delivery=delivery, options=options) as consumer:
    for message in consumer:
        print(message.offset, flush=True)
        if message.offset == 4:
            time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("delivery", "first"), [("at_least_once", 4), ("at_most_once", 5)])
def test_m24_a_consumer_killed_in_the_middle_of_a_message(
    broker: Broker, filled: str, group: str, delivery: str, first: int
):
    """The commit before it has all the time it wants, and must not count the message under way, or must."""
    command = [sys.executable, "-c", VICTIM, broker.bootstrap, filled, group, delivery]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(SOURCE)}, text=True
    ) as victim:
        assert victim.stdout is not None
        assert [int(victim.stdout.readline()) for _ in range(5)] == [0, 1, 2, 3, 4]
        wait_until(lambda: committed(broker, filled, group) == first)
        victim.send_signal(signal.SIGKILL)
    assert rest(broker, filled, group) == list(range(first, 10))


def test_the_async_twin_in_a_group(broker: Broker, filled: str, group: str):
    async def scenario() -> None:
        settings: Any = {"group": group, "commit": "manual", "stop_at_end": True}
        async with penstock.AsyncConsumer(filled, broker.bootstrap, **settings) as consumer:
            assert await consumer.wait_assigned() == [TopicPartition(filled, 0)]
            async for message in consumer:
                if message.offset == 5:
                    break
            await consumer.commit()
            assert await consumer.committed() == {message.where: 6}
        with pytest.raises(RuntimeError, match="mine"):
            await fail_at_async(broker, filled, 8, group=group)

    asyncio.run(scenario())
    assert rest(broker, filled, group) == [8, 9]
