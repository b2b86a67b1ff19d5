"""Consumer groups with classic members among them: never two owners, and both ways of changing the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from broker.groups.consumer_script import GROUP, ConsumerScript
from broker.groups.test_random_consumers import Consumer, ConsumerGroups
from penstock.broker.groups import mixed_group
from penstock.broker.groups.assignors import TopicIdPartition
from penstock.broker.groups.consumer_records import by_topic
from penstock.broker.groups.group import ClassicGroup, GroupLimits, State
from penstock.broker.groups.member import Member
from penstock.broker.groups.migration import downgrade, upgrade
from penstock.broker.groups.outcome import Client
from penstock.broker.groups.shard import Shard
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.api.leave_group import MemberIdentity
from penstock.wire.api.sync_group import SyncGroupRequest
from penstock.wire.compile import encode
from penstock.wire.consumer_subscription import ConsumerProtocolSubscription, TopicPartition

CLASSIC = ("e", "k")
"""An eager member, and a cooperative one."""
SESSION_TIMEOUT_MS = 30_000
MAX_SIZE = 5
REFUSALS = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
)


def subscription(script: ConsumerScript, owned: set[TopicIdPartition], generation: int = -1) -> bytes:
    names = {topic.topic_id: topic.name for topic in script.topics.values()}
    parts = [TopicPartition(names[topic], each) for topic, each in by_topic(owned).items() if topic in names]
    return b"\0\3" + bytes(encode(ConsumerProtocolSubscription(["t"], None, parts, generation), 3))


class MixedGroups(ConsumerGroups):
    """As the group of consumers, with two classic members."""

    def __init__(self) -> None:
        super().__init__()
        self.consumers |= {name: Consumer(name, is_static=False) for name in CLASSIC}

    @rule(name=st.sampled_from(CLASSIC))
    def classic_step(self, name: str) -> None:
        """One poll of a classic consumer: a heartbeat, and what follows from its answer."""
        consumer = self.consumers[name]
        group = self.group
        if group is None or not group.members:
            consumer.drop_all()  # such a group is no mixed one
            return
        try:
            if consumer.epoch is not None:
                code = mixed_group.heartbeat(group, name, None, consumer.epoch, self.script.limits, self.script.now)
                if code is ErrorCode.NONE:
                    return
            self._rejoin(consumer)
        except KafkaError as error:
            if error.code not in REFUSALS:
                raise
            if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                consumer.drop_all()

    def _rejoin(self, consumer: Consumer) -> None:
        script, group, name = self.script, self.script.group, consumer.member_id
        assert group is not None
        if name == "e":
            consumer.owned = set()
        protocols = [JoinGroupRequestProtocol("range", subscription(script, consumer.owned))]
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=20_000,
            member_id=name,
            protocol_type="consumer",
            protocols=protocols,
        )
        client = Client(9, "client", "/host")
        decision = mixed_group.join(group, request, client, "", script.topics, script.limits, script.now)
        script._write(decision.records)
        group.keep(name, script.now, SESSION_TIMEOUT_MS)
        group.expect_revocation(group.members[name], script.now)
        consumer.epoch = decision.response.generation_id
        by_id = {topic.topic_id: topic for topic in script.topics.values()}
        asked = SyncGroupRequest(GROUP, consumer.epoch, name)
        answer = mixed_group.sync(group, asked, by_id, script.limits, script.now)
        given = mixed_group.read_assignment(answer.assignment)
        consumer.owned = {(script.topics[topic].topic_id, index) for topic, index in given}
        consumer.wanted = set(consumer.owned)

    @rule(name=st.sampled_from(CLASSIC))
    def classic_leave(self, name: str) -> None:
        group = self.group
        if group is not None and self.consumers[name].epoch is not None and name in group.members:
            self.consumers[name].drop_all()
            self.script.depart(mixed_group.leave(group, [MemberIdentity(name)]).member_ids)
        self.consumers[name].drop_all()

    def _check_settled(self) -> None:
        """Classic members alone do not notice new partitions; such a group becomes a classic one."""
        if self.group is not None and not set(self.group.members) <= set(CLASSIC):
            super()._check_settled()

    def _send(self, consumer: Consumer, *args: Any, **said: Any) -> None:
        if consumer.member_id in CLASSIC:
            for _ in range(2):
                self.classic_step(consumer.member_id)
        else:
            super()._send(consumer, *args, **said)


MixedGroups.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestMixedGroups = MixedGroups.TestCase


def stable_group(script: ConsumerScript) -> ClassicGroup:
    """A classic group of two, in its third generation."""
    group = ClassicGroup(GROUP, GroupLimits())
    for name, index in (("a", 0), ("b", 1)):
        protocols = (("range", subscription(script, set())), ("sticky", subscription(script, set())))
        part = mixed_group.TopicPartition("t", [index])
        assignment = b"\0\3" + bytes(encode(mixed_group.ConsumerProtocolAssignment([part]), 3))
        instance = "i" if name == "a" else None
        group.add(Member(name, instance, "client", "/host", 60_000, 10_000, protocols, assignment), "consumer")
    group.generation, group.protocol_name, group.state = 3, "range", State.STABLE
    return group


def test_a_classic_group_becomes_a_consumer_group_and_is_the_same_again() -> None:
    script = ConsumerScript()
    script.run("topic t 2")
    classic = stable_group(script)
    script._write(classic_records := upgrade(classic, script.topics, MAX_SIZE))
    assert len(classic_records) == 9
    assert script.run("show") == [
        "Stable 3 3",
        "a 3 STABLE t-0 target t-0",
        "b 3 STABLE t-1 target t-1",
        "Stable",
    ]
    assert script.group is not None
    by_id = {topic.topic_id: topic for topic in script.topics.values()}
    record = downgrade(script.group, by_id, script.now)
    assert record is not None
    again = Shard(0, GroupLimits()).adopt(record)
    assert again.generation == 3
    assert again.static_members == {"i": "a"}
    assert [(each.member_id, each.assignment) for each in again.members.values()] == [
        (each.member_id, each.assignment) for each in classic.members.values()
    ]
    script.run("join c")
    assert downgrade(script.group, by_id, script.now) is None, "a member of the new protocol is there"


def of_connect(group: ClassicGroup) -> None:
    group.protocol_type = "connect"


def sharing(group: ClassicGroup) -> None:
    group.members["a"].assignment = group.members["b"].assignment


def unreadable(group: ClassicGroup) -> None:
    group.members["a"].assignment = b"\0\3\xff"


def too_large(group: ClassicGroup) -> None:
    for number in range(MAX_SIZE):
        group.members[f"m{number}"] = group.members["a"].renamed(f"m{number}")


@pytest.mark.parametrize(
    "change",
    [of_connect, too_large, sharing, unreadable],
    ids=lambda change: change.__name__,
)
def test_a_group_that_cannot_be_a_consumer_group_stays_classic(change: Callable[[ClassicGroup], None]) -> None:
    script = ConsumerScript()
    script.run("topic t 2")
    group = stable_group(script)
    change(group)
    with pytest.raises(KafkaError) as caught:
        upgrade(group, script.topics, MAX_SIZE)
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("state", [State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE])
def test_a_group_in_a_rebalance_is_upgraded_with_what_its_members_were_given_last(state: State) -> None:
    script = ConsumerScript()
    script.run("topic t 2")
    group = stable_group(script)
    group.state = state
    newcomer = Member("n", None, "client", "/host", 60_000, 10_000, group.members["a"].protocols)
    group.add(newcomer, "consumer")
    script._write(upgrade(group, script.topics, MAX_SIZE))
    shown = ["a 3 STABLE t-0 target t-0", "b 3 STABLE t-1 target t-1", "n 3 STABLE target"]
    assert script.run("show")[1:4] == shown


def test_what_cooperative_members_kept_is_theirs_when_the_rebalance_has_forgotten_it() -> None:
    script = ConsumerScript()
    script.run("topic t 3")
    group = stable_group(script)
    topic_id = script.topics["t"].topic_id
    for name, owned, generation in (("a", {(topic_id, 0)}, 3), ("b", {(topic_id, 0), (topic_id, 1)}, 2)):
        metadata = subscription(script, owned, generation)
        group.members[name].protocols = (("range", metadata),)
        group.members[name].assignment = b""
    group.state = State.PREPARING_REBALANCE
    script._write(upgrade(group, script.topics, MAX_SIZE))
    shown = script.run("show")[1:3]
    assert shown == ["a 3 STABLE t-0 target t-0", "b 3 STABLE t-1 target t-1"], "a had t-0 in a later generation"
