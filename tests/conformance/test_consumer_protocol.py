"""The consumer group protocol (KIP-848): members by raw frames, and confluent-kafka with group.protocol=consumer.

The broker says how often members send heartbeats (every 5 seconds), so real consumers take a few of those to share
partitions; raw ones send them when they like.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

import raw
from brokers import Broker
from clients import Confluent, Record
from consumers import ConsumerMember
from members import Member
from raw import Code

DEADLINE_SECONDS = 60.0
NewMember = Callable[..., ConsumerMember]
NewConsumer = Callable[..., Consumer]


@pytest.fixture
def joiner(broker: Broker, group: str) -> Iterator[NewMember]:
    """Makes members of the test's group, each on a connection of its own."""
    with ExitStack() as stack:

        def make(name: str, *topics: str, instance: str | None = None) -> ConsumerMember:
            return stack.enter_context(ConsumerMember(broker.bootstrap, group, name, topics, instance))

        yield make


def join(member: ConsumerMember, **fields: Any) -> ConsumerMember:
    assert member.join(**fields).error_code == 0
    return member


def settle(members: Sequence[ConsumerMember], is_so: Callable[[], bool]) -> None:
    """Heartbeats in turn, each with what the member has, until it is so. Kafka waits a second between assignments."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, [member.assigned for member in members]
        for member in members:
            answer = member.confirm()
            assert answer.error_code == 0, answer
        time.sleep(0.05)


def are_shared(members: Sequence[ConsumerMember], topic: str, sizes: Sequence[int]) -> Callable[[], bool]:
    """Whether they have every partition once, so many each (in any order)."""

    def is_so() -> bool:
        parts = [member.assigned.get(topic, []) for member in members]
        everything = sorted(index for part in parts for index in part)
        return everything == list(range(sum(sizes))) and sorted(map(len, parts)) == sorted(sizes)

    return is_so


# By raw frames.


def test_the_first_member_has_everything_at_once(joiner: NewMember, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    member = joiner("a", topic)
    answer = member.join()
    assert (answer.error_code, answer.member_id, answer.heartbeat_interval_ms) == (0, "a", 5000)
    assert answer.member_epoch > 0
    settle([member], are_shared([member], topic, [3]))
    quiet = member.beat()
    assert (quiet.error_code, quiet.assignment, quiet.member_epoch) == (0, None, member.epoch)


def test_the_coordinator_names_a_member_of_version_0(joiner: NewMember, topic: str) -> None:
    member = joiner("", topic)
    answer = member.join(version=0)
    assert answer.error_code == 0
    assert answer.member_id


def test_a_partition_moves_only_after_its_owner_gave_it_up(joiner: NewMember, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    one, two = joiner("a", topic), joiner("b", topic)
    join(one)
    settle([one], are_shared([one], topic, [2]))
    join(two)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(one.assigned[topic]) == 2:  # it is asked to give one up, and says that it still has both
        assert time.monotonic() < deadline
        assert one.beat(have={topic: [0, 1]}).error_code == 0
        assert two.beat().error_code == 0
    for _ in range(3):
        one.beat(have={topic: [0, 1]})
        two.beat()
        assert two.assigned.get(topic, []) == []
    settle([one, two], are_shared([one, two], topic, [1, 1]))


def test_more_members_than_partitions_and_one_leaves(joiner: NewMember, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    members = [join(joiner(name, topic)) for name in "abc"]
    settle(members, are_shared(members, topic, [1, 1, 0]))
    busy = next(member for member in members if member.assigned.get(topic))
    assert busy.leave().member_epoch == -1
    rest = [member for member in members if member is not busy]
    settle(rest, are_shared(rest, topic, [1, 1]))


def test_wrong_members_and_epochs_are_told(joiner: NewMember, topic: str) -> None:
    one = joiner("a", topic)
    assert one.beat(member_epoch=1).error_code == Code.group_id_not_found
    join(one)
    assert joiner("z", topic).beat(member_epoch=1).error_code == Code.unknown_member_id
    assert one.beat(member_epoch=one.epoch + 5).error_code == Code.fenced_member_epoch
    assert one.beat().error_code == 0
    assert one.leave().error_code == 0
    assert one.beat().error_code == Code.unknown_member_id


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"rebalance_timeout_ms": -1}, Code.invalid_request),
        ({"topic_partitions": None}, Code.invalid_request),
        ({"subscribed_topic_names": None}, Code.invalid_request),
        ({"instance_id": ""}, Code.invalid_request),
        ({"rack_id": ""}, Code.invalid_request),
        ({"member_id": ""}, Code.invalid_request),
        ({"group_id": ""}, Code.invalid_request),
        ({"member_epoch": -3}, Code.invalid_request),
        ({"member_epoch": -2}, Code.invalid_request),
        ({"server_assignor": "none-such"}, Code.unsupported_assignor),
        ({"subscribed_topic_regex": "("}, Code.invalid_regular_expression),
    ],
)
def test_requests_that_cannot_be_right_are_refused(
    joiner: NewMember, topic: str, fields: dict[str, Any], code: Code
) -> None:
    assert joiner("a", topic).join(**fields).error_code == code


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_members_choose_the_assignor(joiner: NewMember, new_topic: Callable[..., str], assignor: str) -> None:
    topic = new_topic(partitions=4)
    members = [join(joiner(name, topic), server_assignor=assignor) for name in "ab"]
    settle(members, are_shared(members, topic, [2, 2]))
    assert members[0].describe().assignor_name == assignor
    if assignor == "range":
        assert members[0].assigned == {topic: [0, 1]}


def test_static_members_leave_for_now_and_come_back(joiner: NewMember, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    one, two = joiner("a", topic, instance="i"), joiner("b", topic, instance="k")
    join(one)
    join(two)
    settle([one, two], are_shared([one, two], topic, [1, 1]))
    again = joiner("a2", topic, instance="i")
    assert again.join().error_code == Code.unreleased_instance_id
    before = one.assigned
    assert one.leave(epoch=-2).member_epoch == -2
    assert two.confirm().error_code == 0
    assert len(two.assigned[topic]) == 1, "the place is kept"
    join(again)
    assert again.assigned == before
    assert one.beat(member_epoch=again.epoch).error_code == Code.fenced_instance_id
    assert again.beat().error_code == 0


def test_new_partitions_are_given_out(
    joiner: NewMember, connection: raw.Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=1)
    member = join(joiner("a", topic))
    settle([member], are_shared([member], topic, [1]))
    grow = {"name": topic, "count": 3, "assignments": None}
    connection.call("CreatePartitions", 2, topics=[grow], timeout_ms=10_000)
    settle([member], are_shared([member], topic, [3]))


def test_commits_and_fetches_need_the_right_epoch(joiner: NewMember, topic: str) -> None:
    member = join(joiner("a", topic))
    settle([member], are_shared([member], topic, [1]))
    assert member.commit(topic, 0, 5) == 0
    assert member.commit(topic, 0, 6, generation_id_or_member_epoch=member.epoch + 1) == Code.stale_member_epoch
    assert member.commit(topic, 0, 6, member_id="z") == Code.unknown_member_id
    assert member.commit(topic, 0, 6, member_id="", generation_id_or_member_epoch=-1) == Code.unknown_member_id
    assert member.fetch_offset(topic, 0) == (0, 5)
    assert member.fetch_offset(topic, 0, member_epoch=member.epoch + 1) == (Code.stale_member_epoch, -1)
    assert member.fetch_offset(topic, 0, member_id="z") == (Code.unknown_member_id, -1)
    assert member.fetch_offset(topic, 0, member_id=None, member_epoch=-1) == (0, 5)


def test_a_group_is_listed_described_and_deleted(
    joiner: NewMember, connection: raw.Connection, group: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    member = join(joiner("a", topic, instance="i"))
    settle([member], are_shared([member], topic, [2]))
    assert listed(connection, group) == [("consumer", "consumer", "Stable")]
    described = member.describe()
    assert (described.error_code, described.group_state, described.assignor_name) == (0, "Stable", "uniform")
    assert described.group_epoch == described.assignment_epoch == member.epoch
    (shown,) = described.members
    assert (shown.member_id, shown.instance_id, shown.member_epoch) == ("a", "i", member.epoch)
    assert (shown.client_id, shown.subscribed_topic_names, shown.member_type) == ("penstock-tests", [topic], 1)
    assert shown.client_host.startswith("/127.0.0.1")
    parts = [(each.topic_name, sorted(each.partitions)) for each in shown.assignment.topic_partitions]
    assert parts == [(topic, [0, 1])]
    assert shown.assignment == shown.target_assignment
    (deleted,) = connection.call("DeleteGroups", 2, groups_names=[group]).results
    assert deleted.error_code == Code.non_empty_group
    assert member.leave().error_code == 0
    assert listed(connection, group) == [("consumer", "consumer", "Empty")]
    (deleted,) = connection.call("DeleteGroups", 2, groups_names=[group]).results
    assert deleted.error_code == 0
    assert member.describe().error_code == Code.group_id_not_found
    assert listed(connection, group) == []


def listed(connection: raw.Connection, group: str) -> list[tuple[str, str, str]]:
    answer = connection.call("ListGroups", 5, states_filter=[], types_filter=["consumer"])
    return [
        (each.group_type.lower(), each.protocol_type, each.group_state)
        for each in answer.groups
        if each.group_id == group
    ]


def test_an_empty_group_changes_from_classic_to_consumer_and_back(
    joiner: NewMember, member: Callable[..., Member], topic: str
) -> None:
    classic = member()
    assert classic.join().error_code == 0
    assert classic.commit({(topic, 0): 4}) in ([0], [Code.rebalance_in_progress])
    assert classic.sync({classic.id: b""}).error_code == 0
    assert classic.commit({(topic, 0): 4}) == [0]
    classic.leave()
    modern = join(joiner("a", topic))
    assert modern.fetch_offset(topic, 0) == (0, 4)
    assert modern.describe().error_code == 0
    assert modern.leave().error_code == 0
    back = member()
    assert back.join().error_code == 0
    assert modern.describe().error_code == Code.group_id_not_found


# With confluent-kafka.


@pytest.fixture
def consumer(broker: Broker, group: str) -> Iterator[NewConsumer]:
    """Makes consumers of the test's group; they are closed at the end."""
    with ExitStack() as stack:

        def make(*topics: str, **options: Any) -> Consumer:
            named = {key.replace("_", "."): value for key, value in options.items()}
            config = {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
            made = Consumer(config | named)
            stack.callback(made.close)
            if topics:
                made.subscribe(list(topics))
            return made

        yield make


def produce(broker: Broker, topic: str, count: int, partition: int = 0, start: int = 0) -> None:
    records = [Record(b"%d" % number) for number in range(start, start + count)]
    Confluent().produce(broker.bootstrap, topic, records, partition=partition)


def owned(consumer: Consumer) -> set[int]:
    return {each.partition for each in consumer.assignment()}


def poll_until(consumers: Sequence[Consumer], is_so: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"it did not happen in time: {[owned(each) for each in consumers]}"
        for each in consumers:
            message = each.poll(0.02)
            if message is not None and message.error() is not None:
                raise KafkaException(message.error())


def are_split(consumers: Sequence[Consumer], sizes: Sequence[int]) -> Callable[[], bool]:
    def is_so() -> bool:
        parts = [owned(each) for each in consumers]
        whole = sorted(index for part in parts for index in part)
        return whole == list(range(sum(sizes))) and sorted(map(len, parts)) == sorted(sizes)

    return is_so


def read(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} came in time"
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(int(message.value() or b"-1"))
    return found


def test_consumers_share_come_and_go(
    consumer: NewConsumer, broker: Broker, group: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=4)
    for partition in range(4):
        produce(broker, topic, 5, partition)
    one = consumer(topic)
    assert sorted(read(one, 20)) == sorted(4 * list(range(5)))
    two = consumer(topic)
    poll_until([one, two], are_split([one, two], [2, 2]))
    three = consumer(topic)
    poll_until([one, two, three], are_split([one, two, three], [2, 1, 1]))
    two.unsubscribe()
    poll_until([one, two, three], are_split([one, three], [2, 2]))


def test_more_consumers_than_partitions_leave_some_without(
    consumer: NewConsumer, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    three = [consumer(topic) for _ in range(3)]
    poll_until(three, are_split(three, [1, 1, 0]))


def test_a_commit_is_where_the_next_consumer_begins(consumer: NewConsumer, broker: Broker, topic: str) -> None:
    produce(broker, topic, 10)
    one = consumer(topic, enable_auto_commit=False)
    assert read(one, 6) == list(range(6))
    one.commit(asynchronous=False)
    one.unsubscribe()
    poll_until([one], lambda: not owned(one))
    two = consumer(topic)
    assert read(two, 4) == [6, 7, 8, 9]
    (found,) = two.committed([TopicPartition(topic, 0)], timeout=DEADLINE_SECONDS)
    assert found.offset >= 6


def test_a_pattern_finds_topics_that_come_later(
    consumer: NewConsumer, broker: Broker, group: str, new_topic: Callable[..., str]
) -> None:
    first = new_topic()
    produce(broker, first, 3)
    one = consumer(f"^{first}.*")
    assert read(one, 3) == [0, 1, 2]
    with raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, f"{first}-more", 1)
    produce(broker, f"{first}-more", 3, start=10)
    poll_until([one], lambda: len(one.assignment()) == 2)


def test_a_static_consumer_that_restarts_keeps_its_partitions(
    consumer: NewConsumer, broker: Broker, group: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    one = consumer(topic, group_instance_id="one")
    config = {"bootstrap.servers": broker.bootstrap, "group.id": group, "group.protocol": "consumer"}
    two = Consumer(config | {"group.instance.id": "two"})
    two.subscribe([topic])
    poll_until([one, two], are_split([one, two], [1, 1]))
    before = owned(two)
    two.close()  # it leaves for now
    back = Consumer(config | {"group.instance.id": "two"})
    back.subscribe([topic])
    poll_until([one, back], lambda: bool(owned(back)))
    assert owned(back) == before
    assert owned(one) == {0, 1} - before
    back.close()


CRASHER = """
import sys, confluent_kafka
consumer = confluent_kafka.Consumer(
    {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.protocol": "consumer"})
consumer.subscribe([sys.argv[3]])
while not consumer.assignment():
    consumer.poll(0.1)
print("assigned", flush=True)
while True:
    consumer.poll(0.1)
"""


@pytest.mark.slow
def test_the_partitions_of_a_consumer_that_was_killed_go_to_the_others(
    consumer: NewConsumer, broker: Broker, group: str, new_topic: Callable[..., str]
) -> None:
    """After its session, which is 45 seconds: neither broker lets a group have less."""
    topic = new_topic(partitions=2)
    arguments = [sys.executable, "-c", CRASHER, broker.bootstrap, group, topic]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "assigned\n"
            one = consumer(topic)
            poll_until([one], lambda: len(owned(one)) == 1)
        finally:
            process.kill()
    poll_until([one], are_split([one], [2]), seconds=2 * DEADLINE_SECONDS)
