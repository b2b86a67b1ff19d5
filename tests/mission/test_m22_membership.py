"""M22: joins, leaves and crashes are noticed and partitions move; a partition has at most one consumer of a group."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import penstock as library
from brokers import SOURCE, PenstockProcess
from clients import Confluent, Record
from mission.watching import poll_until
from penstock import TopicPartition

QUICK = {
    "classic": {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200},
    "consumer": {"group.protocol": "consumer"},
}
"""What makes a consumer's death be noticed soon; for the consumer protocol the broker's settings say that."""
NewConsumer = Callable[..., library.Consumer]


@pytest.fixture(params=QUICK)
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def consumer(watchful: PenstockProcess, group: str, protocol: str) -> Iterator[NewConsumer]:
    """Makes consumers of the test's group; they leave at the end."""
    with ExitStack() as stack:

        def make(*topics: str, **settings: Any) -> library.Consumer:
            made = library.Consumer(topics, watchful.bootstrap, group=group, options=QUICK[protocol], **settings)
            return stack.enter_context(made)

        yield make


def is_shared_out(consumers: list[library.Consumer], topic: str, partitions: int) -> bool:
    """Every partition has exactly one of them."""
    owned = sorted(where for each in consumers for where in each.assignment)
    return owned == [TopicPartition(topic, number) for number in range(partitions)]


def test_m22_partitions_move_when_consumers_join_and_leave(
    consumer: NewConsumer, topic_on_watchful: Callable[..., str]
) -> None:
    topic = topic_on_watchful(partitions=4)
    one = consumer(topic)
    poll_until(lambda: is_shared_out([one], topic, 4), one)
    two = consumer(topic)
    poll_until(lambda: len(two.assignment) == 2 and is_shared_out([one, two], topic, 4), one, two)
    one.close()
    poll_until(lambda: is_shared_out([two], topic, 4), two)


def test_m22_more_consumers_than_partitions_leave_some_idle(
    consumer: NewConsumer, topic_on_watchful: Callable[..., str]
) -> None:
    topic = topic_on_watchful(partitions=2)
    three = [consumer(topic) for _ in range(3)]
    poll_until(lambda: sorted(len(each.assignment) for each in three) == [0, 1, 1], *three)
    assert is_shared_out(three, topic, 2)


class Owners:
    """Who has which partition, by what the listeners hear. Two at once is what must never be."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, str] = {}
        self.changes = 0

    def listeners(self, name: str) -> dict[str, Any]:
        def on_assigned(partitions: list[TopicPartition]) -> None:
            for where in partitions:
                assert self.by_partition.get(where, name) == name, f"{where} has two owners"
                self.by_partition[where] = name
                self.changes += 1

        def on_revoked(partitions: list[TopicPartition]) -> None:
            for where in partitions:
                assert self.by_partition.pop(where) == name

        return {"on_assigned": on_assigned, "on_revoked": on_revoked}


def test_m22_a_partition_never_has_two_consumers_of_a_group(
    consumer: NewConsumer, topic_on_watchful: Callable[..., str]
) -> None:
    """Not even while the group rebalances: five times someone comes or goes."""
    topic = topic_on_watchful(partitions=6)
    owners = Owners()
    living: list[library.Consumer] = []
    for step, count in enumerate([1, 2, 3, 2, 3]):
        if count > len(living):
            living.append(consumer(topic, **owners.listeners(f"consumer {step}")))
        else:
            living.pop(0).close()
        poll_until(
            lambda: all(len(each.assignment) == 6 // len(living) for each in living) and len(owners.by_partition) == 6,
            *living,
        )
        assert is_shared_out(living, topic, 6)
    assert owners.changes > 6


MORTAL = """
import json, sys, penstock
bootstrap, topic, group, options = sys.argv[1:]
with penstock.Consumer(topic, bootstrap, group=group, options=json.loads(options)) as consumer:
    print(len(consumer.wait_assigned()), flush=True)
    for message in consumer:
        pass
"""


def test_m22_a_crash_is_noticed(
    watchful: PenstockProcess, consumer: NewConsumer, topic_on_watchful: Callable[..., str], group: str, protocol: str
) -> None:
    topic = topic_on_watchful(partitions=2)
    command = [sys.executable, "-c", MORTAL, watchful.bootstrap, topic, group, json.dumps(QUICK[protocol])]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as mortal:
        try:
            assert mortal.stdout is not None
            assert mortal.stdout.readline() == "2\n"
            survivor = consumer(topic)
            poll_until(lambda: len(survivor.assignment) == 1, survivor)
        finally:
            mortal.kill()
    poll_until(lambda: is_shared_out([survivor], topic, 2), survivor)


def test_m22_one_consumer_reads_several_topics(
    watchful: PenstockProcess, consumer: NewConsumer, topic_on_watchful: Callable[..., str]
) -> None:
    topics = [topic_on_watchful() for _ in range(3)]
    for topic in topics:
        Confluent().produce(watchful.bootstrap, topic, [Record(topic.encode())] * 10)
    got = [message.value.decode() for message in consumer(*topics, stop_at_end=True)]
    assert sorted(got) == sorted(topics * 10)


def test_m22_a_listener_hears_of_every_change(
    consumer: NewConsumer, topic_on_watchful: Callable[..., str], protocol: str
) -> None:
    """A classic consumer gives everything up and gets its part; the other gives up only what it loses."""
    topic = topic_on_watchful(partitions=2)
    heard: list[tuple[str, int]] = []
    one = consumer(
        topic,
        on_assigned=lambda partitions: heard.append(("assigned", len(partitions))),
        on_revoked=lambda partitions: heard.append(("revoked", len(partitions))),
    )
    poll_until(lambda: heard == [("assigned", 2)], one)
    two = consumer(topic)
    eager = [("assigned", 2), ("revoked", 2), ("assigned", 1)]
    expected = eager if protocol == "classic" else [("assigned", 2), ("revoked", 1)]
    # librdkafka also tells of an assignment of nothing.
    poll_until(lambda: [each for each in heard if each[1]] == expected, one, two)
