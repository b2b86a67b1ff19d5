"""The same stories of a group with every client, on both brokers: confluent-kafka (classic and KIP-848), kafka-python,
aiokafka and kcat. Each consumer is a process of its own, so that it can be killed. Java's are in `test_groups_java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import raw
from brokers import Broker
from clients import Confluent, Record
from group_clients import KCAT, PYTHON_CLIENTS, GroupClient, wait_for
from members import find_coordinator

NewConsumer = Callable[..., GroupClient]
NO_KCAT = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")


@pytest.fixture(params=[*PYTHON_CLIENTS, pytest.param("kcat", marks=NO_KCAT)])
def name_of_client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def consumer(broker: Broker, group: str, name_of_client: str) -> Iterator[NewConsumer]:
    """Makes consumers of the test's group with the test's client."""
    with ExitStack() as stack:

        def make(*topics: str, group: str = group, **settings: Any) -> GroupClient:
            return stack.enter_context(GroupClient(name_of_client, broker.bootstrap, group, topics, **settings))

        yield make


def produce(broker: Broker, topic: str, count: int, partition: int = 0) -> None:
    Confluent().produce(broker.bootstrap, topic, [Record(b"v")] * count, partition=partition)


def committed(connection: raw.Connection, group: str) -> dict[tuple[str, int], int]:
    (found,) = connection.call("OffsetFetch", 9, groups=[{"group_id": group, "topics": None}]).groups
    return {
        (topic.name, each.partition_index): each.committed_offset for topic in found.topics for each in topic.partitions
    }


def are_shared_out(consumers: list[GroupClient], partitions: int) -> bool:
    """Every partition has one owner, and no consumer has two more than another."""
    sizes = [len(each.owned) for each in consumers]
    whole = sorted(index for each in consumers for index in each.partitions)
    return whole == list(range(partitions)) and max(sizes) - min(sizes) <= 1


def test_consumers_come_share_and_go(consumer: NewConsumer, broker: Broker, new_topic: Callable[..., str]) -> None:
    """Point to point: each message is read by one of them. More consumers than partitions leave one without."""
    topic = new_topic(partitions=2)
    one = consumer(topic)
    wait_for(lambda: one.partitions == {0, 1}, one)
    two = consumer(topic)
    wait_for(lambda: are_shared_out([one, two], 2), one, two)
    three = consumer(topic)
    for partition in range(2):
        produce(broker, topic, 5, partition)
    wait_for(lambda: are_shared_out([one, two, three], 2), one, two, three)
    everyone = [one, two, three]
    wait_for(lambda: sum(len(each.read) for each in everyone) >= 10, *everyone)
    read = sorted(record for each in everyone for record in each.read)
    assert sorted(set(read)) == [(topic, partition, offset) for partition in range(2) for offset in range(5)]
    leaver = next(each for each in everyone if each.owned)
    leaver.stop()
    rest = [each for each in everyone if each is not leaver]
    wait_for(lambda: are_shared_out(rest, 2), *rest)


def test_the_partitions_of_a_consumer_that_was_killed_go_to_another(
    consumer: NewConsumer, name_of_client: str, new_topic: Callable[..., str]
) -> None:
    if name_of_client == "confluent-consumer":
        pytest.skip("its session is 45 seconds on either broker: test_consumer_protocol waits for that")
    topic = new_topic(partitions=2)
    one, two = consumer(topic), consumer(topic)
    wait_for(lambda: are_shared_out([one, two], 2), one, two)
    one.kill()
    wait_for(lambda: two.partitions == {0, 1}, two)


def test_a_static_member_that_restarts_keeps_its_partitions(
    consumer: NewConsumer, name_of_client: str, new_topic: Callable[..., str]
) -> None:
    """A classic one may even be killed; one of a consumer group says that it will be back."""
    topic = new_topic(partitions=2)
    one, two = (consumer(topic, instance=name, session_ms=60_000) for name in ("one", "two"))
    wait_for(lambda: are_shared_out([one, two], 2), one, two)
    before = (set(one.owned), set(two.owned))
    two.stop() if name_of_client == "confluent-consumer" else two.kill()
    back = consumer(topic, instance="two", session_ms=60_000)
    wait_for(lambda: bool(back.owned), one, back)
    assert (one.owned, back.owned) == before


def test_a_cooperative_rebalance(consumer: NewConsumer, name_of_client: str, new_topic: Callable[..., str]) -> None:
    """Every rebalance of a consumer group is; of classic ones those with the cooperative-sticky assignor.

    What a consumer keeps it never gives up, not for a moment.
    """
    if name_of_client == "aiokafka":
        pytest.skip("aiokafka has no cooperative assignor")
    topic = new_topic(partitions=4)
    one = consumer(topic, strategy="cooperative-sticky")
    wait_for(lambda: one.partitions == {0, 1, 2, 3}, one)
    two = consumer(topic, strategy="cooperative-sticky")
    wait_for(lambda: are_shared_out([one, two], 4), one, two)
    kept = set(one.owned)
    two.stop()
    wait_for(lambda: one.partitions == {0, 1, 2, 3}, one)
    states = [{partition for _, partition in state} for state in one.owned_since]
    from_all_on = states[states.index({0, 1, 2, 3}) :]
    assert all({partition for _, partition in kept} <= state for state in from_all_on), states


def test_several_topics_a_pattern_and_another_group(
    consumer: NewConsumer, broker: Broker, connection: raw.Connection, group: str, new_topic: Callable[..., str]
) -> None:
    """Broadcast: the other group reads everything as well."""
    topics = sorted([new_topic(), new_topic()])
    for topic in topics:
        produce(broker, topic, 3)
    whole = [(topic, 0, offset) for topic in topics for offset in range(3)]
    other = f"{group}-other"
    find_coordinator(connection, other)
    named, matched = consumer(*topics), consumer(group=other, pattern="|".join(topics))
    wait_for(lambda: sorted(named.read) == sorted(matched.read) == whole, named, matched)


@pytest.mark.parametrize("how", ["auto", "sync", "async"])
def test_a_commit_is_where_the_next_consumer_begins(
    consumer: NewConsumer,
    broker: Broker,
    connection: raw.Connection,
    group: str,
    name_of_client: str,
    topic: str,
    how: str,
) -> None:
    if name_of_client == "kcat" and how != "auto":
        pytest.skip("kcat commits only by itself")
    produce(broker, topic, 5)
    one = consumer(topic, commit=how)
    wait_for(lambda: committed(connection, group) == {(topic, 0): 5}, one)
    one.stop()
    produce(broker, topic, 5)
    two = consumer(topic, commit=how)
    wait_for(lambda: len(two.read) == 5, two)
    assert two.read == [(topic, 0, offset) for offset in range(5, 10)]


def test_a_group_without_offsets_begins_at_the_end_or_is_told(
    consumer: NewConsumer, broker: Broker, connection: raw.Connection, group: str, name_of_client: str, topic: str
) -> None:
    produce(broker, topic, 5)
    latest = consumer(topic, reset="latest")

    def has_read() -> bool:
        """The end is where the log ends when the consumer asks, some time after it has its partition."""
        if latest.owned:
            produce(broker, topic, 1)
        return bool(latest.read)

    wait_for(has_read, latest)
    assert latest.read[0][2] >= 5
    other = f"{group}-none"
    find_coordinator(connection, other)
    told = consumer(topic, reset="none", group=other)
    told.wait_failed()
    assert not told.read
