"""Groups of confluent-kafka consumers: rebalances, crashes, static members, commits, reset policies.

Consumers run in one thread, polled in turn: a rebalance needs all of them. A crash is a consumer in a process of its
own that is killed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from brokers import Broker
from clients import Confluent, Record

DEADLINE_SECONDS = 60.0
NewConsumer = Callable[..., Consumer]
QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200, "auto.offset.reset": "earliest"}


@pytest.fixture
def consumer(broker: Broker, group: str) -> Iterator[NewConsumer]:
    """Makes consumers of the test's group; they are closed at the end."""
    with ExitStack() as stack:

        def make(*topics: str, **options: Any) -> Consumer:
            named = {key.replace("_", "."): value for key, value in options.items()}
            made = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group} | QUICK | named)
            stack.callback(made.close)
            if topics:
                made.subscribe(list(topics))
            return made

        yield make


def produce(broker: Broker, topic: str, count: int, partition: int = 0, start: int = 0) -> None:
    records = [Record(b"%d" % number) for number in range(start, start + count)]
    Confluent().produce(broker.bootstrap, topic, records, partition=partition)


def poll_until(consumers: Sequence[Consumer], is_so: Callable[[], bool]) -> list[confluent_kafka.Message]:
    """Poll them all in turn until it is so; what they read."""
    read = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"it did not happen in time; assigned: {[owned(c) for c in consumers]}"
        for each in consumers:
            message = each.poll(0.02)
            if message is not None:
                if message.error() is not None:
                    raise KafkaException(message.error())
                read.append(message)
    return read


def read(consumer: Consumer, count: int) -> list[int]:
    """The next `count` values."""
    found: list[int] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} came in time"
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(int(message.value() or b"-1"))
    return found


def owned(consumer: Consumer) -> set[int]:
    return {each.partition for each in consumer.assignment()}


def are_split(consumers: Sequence[Consumer], partitions: int, each: int | None = None) -> Callable[[], bool]:
    """Whether together they own every partition once (and each so many)."""

    def is_so() -> bool:
        parts = [owned(one) for one in consumers]
        is_whole = sum(map(len, parts)) == partitions and set().union(*parts) == set(range(partitions))
        return is_whole and (each is None or {len(part) for part in parts} == {each})

    return is_so


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_consumers_share_the_partitions_come_and_go(
    consumer: NewConsumer, broker: Broker, new_topic: Callable[..., str], strategy: str
) -> None:
    topic = new_topic(partitions=4)
    one = consumer(topic, partition_assignment_strategy=strategy)
    poll_until([one], are_split([one], 4))
    two = consumer(topic, partition_assignment_strategy=strategy)
    poll_until([one, two], are_split([one, two], 4, each=2))
    for partition in range(4):
        produce(broker, topic, 5, partition)
    got: list[confluent_kafka.Message] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(got) < 20:
        assert time.monotonic() < deadline
        got += [message for each in (one, two) if (message := each.poll(0.05)) is not None]
    assert sorted((message.partition(), message.offset()) for message in got) == [
        (partition, offset) for partition in range(4) for offset in range(5)
    ]
    one.unsubscribe()
    poll_until([one, two], are_split([two], 4))


def test_more_consumers_than_partitions_leave_some_without(
    consumer: NewConsumer, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    three = [consumer(topic) for _ in range(3)]
    poll_until(three, are_split(three, 2))
    busy = next(each for each in three if owned(each))
    busy.unsubscribe()
    rest = [each for each in three if each is not busy]
    poll_until(three, are_split(rest, 2, each=1))


def test_several_topics_and_a_pattern(consumer: NewConsumer, broker: Broker, new_topic: Callable[..., str]) -> None:
    first, second = new_topic(), new_topic()
    produce(broker, first, 3)
    produce(broker, second, 3, start=10)
    assert sorted(read(consumer(first, second), 6)) == [0, 1, 2, 10, 11, 12]
    pattern = consumer(f"^({first}|{second})$", group_id=f"{first}-pattern")
    assert sorted(read(pattern, 6)) == [0, 1, 2, 10, 11, 12]


def test_two_groups_both_read_everything_and_one_group_shares(
    consumer: NewConsumer, broker: Broker, topic: str, group: str
) -> None:
    produce(broker, topic, 10)
    assert read(consumer(topic), 10) == list(range(10))
    assert read(consumer(topic, group_id=f"{group}-other"), 10) == list(range(10))


def test_a_static_member_that_restarts_keeps_its_partitions_without_a_rebalance(
    consumer: NewConsumer, broker: Broker, group: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    rebalances: list[str] = []
    one = consumer(group_instance_id="one")
    one.subscribe(
        [topic],
        on_assign=lambda _, parts: rebalances.append("assign"),
        on_revoke=lambda _, parts: rebalances.append("revoke"),
    )
    config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "group.instance.id": "two"} | QUICK
    two = Consumer(config)
    two.subscribe([topic])
    poll_until([one, two], are_split([one, two], 2, each=1))
    before = owned(two)
    seen = len(rebalances)
    two.close()  # a static member does not leave
    back = Consumer(config)
    back.subscribe([topic])
    poll_until([one, back], lambda: bool(owned(back)))
    assert owned(back) == before
    assert len(rebalances) == seen, rebalances
    back.close()


def test_an_instance_that_is_started_twice_is_fenced(consumer: NewConsumer, topic: str) -> None:
    one = consumer(topic, group_instance_id="same")
    poll_until([one], are_split([one], 1))
    two = consumer(topic, group_instance_id="same")
    poll_until([two], are_split([two], 1))
    with pytest.raises(KafkaException) as fenced:
        poll_until([one], lambda: False)
    assert fenced.value.args[0].code() == confluent_kafka.KafkaError._FATAL


@pytest.mark.parametrize("how", ["sync", "async", "auto", "message", "offsets", "store"])
def test_a_commit_is_where_the_next_consumer_begins(
    consumer: NewConsumer, broker: Broker, topic: str, how: str
) -> None:
    produce(broker, topic, 10)
    options = {"enable_auto_commit": how in ("auto", "store"), "enable_auto_offset_store": how != "store"}
    one = consumer(topic, auto_commit_interval_ms=100, **options)
    assert read(one, 6) == list(range(6))
    if how == "sync":
        one.commit(asynchronous=False)
    elif how == "async":
        one.commit()
    elif how == "offsets":
        one.commit(offsets=[TopicPartition(topic, 0, 6)], asynchronous=False)
    elif how == "store":
        one.store_offsets(offsets=[TopicPartition(topic, 0, 6)])
    elif how == "message":
        one.seek(TopicPartition(topic, 0, 5))
        message = one.poll(DEADLINE_SECONDS)
        assert message is not None
        one.commit(message, asynchronous=False)
    poll_until([], lambda: committed(one, topic) == 6)
    one.unsubscribe()
    two = consumer(topic, enable_auto_commit=False)
    assert read(two, 4) == [6, 7, 8, 9]


def test_an_offset_is_committed_with_a_note(consumer: NewConsumer, topic: str) -> None:
    one = consumer(enable_auto_commit=False)
    told = one.commit(offsets=[TopicPartition(topic, 0, 42, metadata="why")], asynchronous=False)
    assert [each.error for each in told] == [None]
    (found,) = one.committed([TopicPartition(topic, 0)], timeout=DEADLINE_SECONDS)
    assert (found.offset, found.metadata) == (42, "why")


def test_nothing_committed_is_no_offset(consumer: NewConsumer, topic: str) -> None:
    (found,) = consumer().committed([TopicPartition(topic, 0)], timeout=DEADLINE_SECONDS)
    assert found.offset == confluent_kafka.OFFSET_INVALID


def test_a_group_without_offsets_begins_at_the_beginning_or_at_the_end(
    consumer: NewConsumer, broker: Broker, topic: str
) -> None:
    produce(broker, topic, 10)
    assert read(consumer(topic), 10) == list(range(10))
    late = consumer(topic, auto_offset_reset="latest", group_id=f"{topic}-late")
    first = None
    for number in range(10, 10_000):  # the end is where the log ends when the consumer is ready
        produce(broker, topic, 1, start=number)
        first = late.poll(0.2)
        if first is not None:
            break
    assert first is not None
    assert first.offset() is not None
    assert int(first.value() or b"") == first.offset() >= 10


def test_a_group_without_offsets_and_without_a_policy_is_told(
    consumer: NewConsumer, broker: Broker, topic: str
) -> None:
    produce(broker, topic, 1)
    one = consumer(topic, auto_offset_reset="error")
    with pytest.raises(KafkaException) as told:
        poll_until([one], lambda: False)
    assert told.value.args[0].code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET


def test_a_consumer_moves_about(consumer: NewConsumer, broker: Broker, topic: str) -> None:
    produce(broker, topic, 10)
    one = consumer(topic)
    assert read(one, 10) == list(range(10))
    one.seek(TopicPartition(topic, 0, 3))
    assert read(one, 2) == [3, 4]
    one.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert read(one, 1) == [0]
    one.seek(TopicPartition(topic, 0, 10))
    produce(broker, topic, 1, start=10)
    assert read(one, 1) == [10]


def test_a_consumer_that_pauses_stays_in_the_group(consumer: NewConsumer, broker: Broker, topic: str) -> None:
    produce(broker, topic, 5)
    one = consumer(topic)
    assert read(one, 5) == list(range(5))
    one.pause(one.assignment())
    produce(broker, topic, 5, start=5)
    until = time.monotonic() + 0.5
    poll_until([], lambda: one.poll(0.05) is None and time.monotonic() > until)
    one.resume(one.assignment())
    assert read(one, 5) == list(range(5, 10))


def test_a_consumer_that_does_not_poll_is_out(consumer: NewConsumer, topic: str) -> None:
    one = consumer(topic, max_poll_interval_ms=6000)
    poll_until([one], are_split([one], 1))
    two = consumer(topic)
    poll_until([two], are_split([two], 1))


def committed(consumer: Consumer, topic: str) -> int:
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=DEADLINE_SECONDS)
    return int(found.offset)
