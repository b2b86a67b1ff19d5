"""A consumer-protocol member joins a classic group, in every state, by raw frames: it becomes a consumer group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import raw
from brokers import Broker
from consumers import ConsumerMember
from members import Member, subscription, wait_until
from raw import Code

NewClassic = Callable[[], Member]
NewModern = Callable[[str], ConsumerMember]


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=2)


@pytest.fixture
def classic(member: Callable[..., Member], topic: str) -> NewClassic:
    """Makes classic members that read the topic."""
    return lambda: member(protocols=[{"name": "range", "metadata": subscription(topic)}])


@pytest.fixture
def modern(broker: Broker, group: str, topic: str) -> Iterator[NewModern]:
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(ConsumerMember(broker.bootstrap, group, name, [topic]))


def assignment(topic: str, *partitions: int, data: bytes | None = None) -> bytes:
    numbers = b"".join(number.to_bytes(4, "big") for number in partitions)
    named = len(topic).to_bytes(2, "big") + topic.encode() + len(partitions).to_bytes(4, "big") + numbers
    last = b"\xff\xff\xff\xff" if data is None else len(data).to_bytes(4, "big") + data
    return b"\x00\x00" + b"\x00\x00\x00\x01" + named + last


def kind(connection: raw.Connection, group: str) -> str:
    answer = connection.call("ListGroups", 5, states_filter=[], types_filter=[])
    return next(str(each.group_type).lower() for each in answer.groups if each.group_id == group)


def shared_out(one: Member, two: ConsumerMember, topic: str) -> None:
    """Both take steps until each has one partition."""

    def step() -> bool:
        two.confirm()
        if one.heartbeat() == Code.rebalance_in_progress or one.generation != two.epoch:
            one.begin_join()
            one.end_join()
        synced = one.sync()
        mine = synced.assignment if synced.error_code == 0 else b""
        return len(two.assigned.get(topic, [])) == 1 and mine == assignment(topic, 1 - two.assigned[topic][0])

    wait_until(step)


def test_a_stable_group(classic: NewClassic, modern: NewModern, topic: str) -> None:
    one, two = classic(), modern("two")
    one.join()
    one.sync({one.id: assignment(topic, 0, 1)})
    assert two.join().error_code == 0
    assert kind(one, one.group) == "consumer"
    shared_out(one, two, topic)


def test_a_group_that_waits_for_its_leader(classic: NewClassic, modern: NewModern, topic: str) -> None:
    """CompletingRebalance: whoever asked for an assignment is told to join again."""
    one, other, two = classic(), classic(), modern("two")
    one.join()
    other.begin_join()
    other.end_join()
    other.begin_join()
    wait_until(lambda: one.heartbeat() == Code.rebalance_in_progress)
    one.begin_join()
    leads = one.end_join().leader == one.id
    other.end_join()
    leader, follower = (one, other) if leads else (other, one)
    follower.begin_sync()
    assert two.join().error_code == 0
    assert follower.end_sync().error_code == Code.rebalance_in_progress
    assert leader.sync({leader.id: assignment(topic, 0, 1)}).error_code == Code.rebalance_in_progress
    assert kind(one, one.group) == "consumer"
    assert other.leave().error_code == 0
    shared_out(one, two, topic)


def test_a_group_that_waits_for_members_to_join(classic: NewClassic, modern: NewModern, topic: str) -> None:
    """PreparingRebalance: whoever joins is told to join again; the one that has partitions keeps them until it does."""
    one, other, two = classic(), classic(), modern("two")
    one.join()
    one.sync({one.id: assignment(topic, 0, 1)})
    other.begin_join()
    other.end_join()
    other.begin_join()
    wait_until(lambda: one.heartbeat() == Code.rebalance_in_progress)
    assert two.join().error_code == 0
    answer = other.end_join()
    assert (answer.error_code, answer.member_id) == (Code.rebalance_in_progress, other.id)
    assert kind(one, one.group) == "consumer"
    assert two.confirm().error_code == 0
    assert two.assigned == {}, "the first has both, and has not given them up"
    assert other.leave().error_code == 0
    shared_out(one, two, topic)


def test_a_group_whose_assignor_keeps_data_in_the_assignment(
    classic: NewClassic, modern: NewModern, broker: Broker, topic: str
) -> None:
    """Kafka refuses, for they would be lost. librdkafka's cooperative-sticky leaves some there that nobody reads, and
    takes the refusal for the end: such groups could not be upgraded."""
    one, two = classic(), modern("two")
    one.join()
    one.sync({one.id: assignment(topic, 0, 1, data=b"mine")})
    is_kafka = broker.name == "kafka"
    assert two.join().error_code == (Code.group_id_not_found if is_kafka else 0)
    assert kind(one, one.group) == ("classic" if is_kafka else "consumer")
