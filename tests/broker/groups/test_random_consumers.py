"""Consumer groups under random members: never two owners of a partition, and in the end everyone has their share.

Each consumer here does what a real one does: it reads what it owns, gives up what it is told to in its own time, adds
what it is given only after that, and gives everything up when it is fenced or leaves. Answers get lost, members fall
silent, topics grow, come and go, and the broker crashes. Between any two steps no partition is read by two consumers
that the broker has as members, and what is in the log is what the broker knows.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.groups.consumer_script import GROUP, ConsumerScript
from penstock.broker.groups.assignors import TopicIdPartition
from penstock.broker.groups.consumer_group import ConsumerGroup
from penstock.broker.groups.consumer_records import by_topic
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.consumer_group_heartbeat import TopicPartitions

NAMES = ("a", "b", "c", "d")
ROUNDS_TO_SETTLE = 12
REBALANCE_TIMEOUT_MS = 20_000

names = st.sampled_from(NAMES)


class Consumer:
    """One consumer's own view."""

    def __init__(self, name: str, is_static: bool) -> None:
        self.member_id = name
        self.instance = f"i-{name}" if is_static else None
        self.epoch: int | None = None
        """None while it is not in the group, or knows that it is not."""
        self.owned: set[TopicIdPartition] = set()
        self.wanted: set[TopicIdPartition] = set()
        self.incarnation = 0

    def drop_all(self) -> None:
        self.epoch = None
        self.owned = set()
        self.wanted = set()

    def on_assigned(self, parts: set[TopicIdPartition]) -> None:
        self.wanted = parts
        if self.owned <= parts:
            self.owned = set(parts)

    def finish_revocation(self) -> None:
        self.owned = set(self.wanted)


class ConsumerGroups(RuleBasedStateMachine):
    interval_seconds = 0

    def __init__(self) -> None:
        super().__init__()
        self.script = ConsumerScript(session_timeout_ms=45_000, max_size=3)
        self.script.run(f"interval {self.interval_seconds}")
        self.consumers = {name: Consumer(name, is_static=name in "ab") for name in NAMES}

    @initialize(count=st.integers(1, 6), other=st.integers(0, 3))
    def topics(self, count: int, other: int) -> None:
        self.script.run(f"topic t {count}")
        self.script.run(f"topic u {other}")

    # What consumers do.

    @rule(name=names, topics=st.sampled_from(("t", "u", "t,u", "missing")), regex=st.sampled_from((None, "t|x.*")))
    def join(self, name: str, topics: str, regex: str | None) -> None:
        consumer = self.consumers[name]
        consumer.drop_all()
        said = {"subscribed_topic_names": topics.split(","), "subscribed_topic_regex": regex}
        self._send(consumer, 0, [], rebalance_timeout_ms=REBALANCE_TIMEOUT_MS, **said)

    @rule(name=names, says_what_it_has=st.booleans(), is_lost=st.sampled_from((False, False, False, True)))
    def beat(self, name: str, says_what_it_has: bool, is_lost: bool) -> None:
        consumer = self.consumers[name]
        if consumer.epoch is not None:
            self._send(consumer, consumer.epoch, consumer.owned if says_what_it_has else None, is_lost)

    @rule(name=names)
    def finish_revocation(self, name: str) -> None:
        self.consumers[name].finish_revocation()

    @rule(name=names, topics=st.sampled_from(("t", "u", "t,u")))
    def subscribe(self, name: str, topics: str) -> None:
        consumer = self.consumers[name]
        if consumer.epoch is not None:
            said = {"subscribed_topic_names": topics.split(","), "subscribed_topic_regex": ""}
            self._send(consumer, consumer.epoch, consumer.owned, **said)

    @rule(name=names)
    def leave(self, name: str) -> None:
        self._leave(self.consumers[name], -1)

    @rule(name=st.sampled_from(("a", "b")))
    def leave_for_now(self, name: str) -> None:
        """A static member's process ends; the next one has a member id of its own."""
        consumer = self.consumers[name]
        self._leave(consumer, -2)
        consumer.incarnation += 1
        consumer.member_id = f"{name}{consumer.incarnation}"

    # What happens to them.

    @rule(seconds=st.sampled_from((1, 10, 21, 46)))
    def wait(self, seconds: int) -> None:
        self.script.run(f"wait {seconds}")

    @rule()
    def crash(self) -> None:
        self.script.run("reload")

    @rule(topic=st.sampled_from(("t", "u", "x1")), count=st.integers(0, 6))
    def change_topic(self, topic: str, count: int) -> None:
        known = self.script.topics.get(topic)
        if count == 0 or known is None or count > len(known.partitions):
            self.script.run(f"topic {topic} {count}")

    # What must hold.

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        reading: dict[TopicIdPartition, str] = {}
        for name, consumer in self.consumers.items():
            if consumer.epoch is None or self.group is None or consumer.member_id not in self.group.members:
                continue
            for part in consumer.owned:
                assert part not in reading, f"{name} and {reading[part]} read {part}"
                reading[part] = name

    @invariant()
    def the_books_agree(self) -> None:
        if self.group is None:
            return
        held = [(part, member.member_id) for member in self.group.members.values() for part in member.holds()]
        assert len(held) == len(dict(held))
        assert dict(held) == self.group.owners
        assert self.group.targets.keys() <= self.group.members.keys()
        statics = {member.instance_id: each for each, member in self.group.members.items() if member.instance_id}
        assert statics == self.group.static_members
        assert len(self.group.members) <= self.script.limits.max_size

    @invariant()
    def the_log_has_it_all(self) -> None:
        loaded = self.script.loaded().consumer_groups.get(GROUP)
        assert (loaded is None) == (self.group is None)
        if loaded is not None and self.group is not None:
            assert _hard_state(loaded) == _hard_state(self.group)

    @precondition(lambda self: self.group is not None)
    @rule()
    def settle(self) -> None:
        """When nothing more happens, everyone gets what they shall have, and all partitions are read."""
        self.script.run("interval 0")
        for _ in range(ROUNDS_TO_SETTLE):
            for consumer in self.consumers.values():
                consumer.finish_revocation()
                if consumer.epoch is not None:
                    self._send(consumer, consumer.epoch, consumer.owned)
            present = [each.member_id for each in self.consumers.values() if each.epoch is not None]
            if self.group is not None and not set(self.group.members) - set(present):
                continue
            self.script.run("wait 5")
        self._check_settled()
        self.script.run(f"interval {self.interval_seconds}")

    def _check_settled(self) -> None:
        group = self.group
        living = {each.member_id: each for each in self.consumers.values() if each.epoch is not None}
        if group is None or set(group.members) != set(living):
            return
        for member_id, consumer in living.items():
            assert consumer.owned == group.targets[member_id]
            assert consumer.epoch == group.assignment_epoch == group.epoch
        wanted = {
            (topic.topic_id, index)
            for name, topic in self.script.topics.items()
            if group.is_subscribed_to(name)
            for index in range(len(topic.partitions))
        }
        assert {part for consumer in living.values() for part in consumer.owned} == wanted

    # How they speak.

    @property
    def group(self) -> ConsumerGroup | None:
        return self.script.group

    def _leave(self, consumer: Consumer, epoch: int) -> None:
        if consumer.epoch is not None:
            consumer.drop_all()
            self._send(consumer, epoch, None)
            consumer.drop_all()

    def _send(
        self,
        consumer: Consumer,
        epoch: int,
        owned: Any,
        is_lost: bool = False,
        **said: Any,
    ) -> None:
        parts = None
        if owned is not None:
            parts = [TopicPartitions(topic, indexes) for topic, indexes in by_topic(owned).items()]
        try:
            response = self.script.send(
                1,
                member_id=consumer.member_id,
                instance_id=consumer.instance,
                member_epoch=epoch,
                topic_partitions=parts,
                **said,
            )
        except KafkaError as error:
            if error.code not in EXPECTED:
                raise
            consumer.drop_all()
            return
        if is_lost:
            return
        consumer.epoch = response.member_epoch
        if response.assignment is not None:
            given = response.assignment.topic_partitions
            consumer.on_assigned({(topic.topic_id, index) for topic in given for index in topic.partitions})


EXPECTED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


def _hard_state(group: ConsumerGroup) -> tuple[Any, ...]:
    return (
        group.epoch,
        group.metadata_hash,
        group.assignment_epoch,
        group.members,
        group.static_members,
        group.targets,
        group.regexes,
        group.owners,
    )


class PatientConsumerGroups(ConsumerGroups):
    """Targets are made at most every ten seconds."""

    interval_seconds = 10


PatientConsumerGroups.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestPatientConsumerGroups = PatientConsumerGroups.TestCase

ConsumerGroups.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestConsumerGroups = ConsumerGroups.TestCase
