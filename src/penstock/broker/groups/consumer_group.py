"""A consumer group (KIP-848): its epoch, its members, what each shall have and has. Pure: no clock, no I/O.

    group epoch         grows whenever members, subscriptions or the topics they read change
    assignment epoch    the group epoch for which the target assignment was made; behind while the next target must
                        wait for `group.consumer.assignment.interval.ms` (KIP-1263)
    member epoch        the assignment epoch that the member has reached; requests with another are refused

    Empty          no members; offsets may be there
    Assigning      the group has moved on and the target has not: the next heartbeat makes a new one
    Reconciling    members give up and get partitions
    Stable         everyone has their target
    Dead           deleted

Hard state changes only by `replay`, of a record that is in the log; that is also how a group is loaded, so after a
crash it is as it was written. What a request comes to is decided in `consumer_heartbeat`. Soft are the deadlines by
which members must be heard of, and give up partitions; they begin anew after a load. `next_deadline_s` says when the
shell must look; too early is harmless, and a heartbeat only ever moves a deadline back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Any

from penstock.broker.groups.assignors import TopicIdPartition
from penstock.broker.groups.consumer_member import ConsumerMember, MemberState
from penstock.broker.groups.consumer_records import (
    CURRENT,
    EPOCH,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    ConsumerRecord,
    by_topic,
    member_tombstones,
)
from penstock.broker.groups.group import CONSUMER, NEVER
from penstock.broker.groups.outcome import Now
from penstock.broker.groups.target_assignment import chosen_assignor
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import TopicImage
from penstock.wire.api import consumer_group_describe as describe
from penstock.wire.api.list_groups import ListedGroup

OFFSET_VERSION = 9
"""Of OffsetCommit, the first whose clients know member epochs."""
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""Which protocol a member speaks, as clients are told."""


class ConsumerState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_ms = 0
        """When the target was made; 0 when that is not known."""
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.targets: dict[str, frozenset[TopicIdPartition]] = {}
        self.regexes: dict[str, frozenset[str]] = {}
        """Regular expression -> the topics that it matched."""
        self.owners: dict[TopicIdPartition, str] = {}
        """Partition -> the one member that holds it."""
        self.seen_topics: Mapping[str, TopicImage] | None = None
        """The topics as they were when the group's were last compared with them."""
        self._session_deadlines: dict[str, float] = {}
        self._revocation_deadlines: dict[str, float] = {}

    # Replay.

    def replay(self, record: ConsumerRecord) -> None:
        if record.type is CURRENT:
            self._replay_current(record.name, record.value)
        elif record.type is TARGET:
            self._replay_target(record.name, record.value)
        elif record.type is MEMBER:
            self._replay_member(record.name, record.value)
        elif record.type is EPOCH:
            self.epoch = record.value.epoch if record.value is not None else 0
            self.metadata_hash = record.value.metadata_hash if record.value is not None else 0
        elif record.type is TARGET_EPOCH:
            self.assignment_epoch = record.value.assignment_epoch if record.value is not None else 0
            self.assigned_ms = record.value.assignment_timestamp if record.value is not None else 0
        elif record.type is REGEX:
            if record.value is None:
                self.regexes.pop(record.name, None)
            else:
                self.regexes[record.name] = frozenset(record.value.topics)

    def _replay_member(self, member_id: str, value: Any) -> None:
        known = self.members.get(member_id, ConsumerMember(member_id))
        if known.instance_id is not None and self.static_members.get(known.instance_id) == member_id:
            del self.static_members[known.instance_id]
        if value is None:
            self._hold(member_id, ())
            self.members.pop(member_id, None)
            self._session_deadlines.pop(member_id, None)
            self._revocation_deadlines.pop(member_id, None)
            return
        member = self.members[member_id] = known.with_metadata(value)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def _replay_current(self, member_id: str, value: Any) -> None:
        """After compaction it may come before the member's own record, which then makes it whole."""
        known = self.members.get(member_id)
        if value is None:
            self._hold(member_id, ())
            if known is not None:
                self.members[member_id] = known.starting_over(member_id)
            return
        member = (known or ConsumerMember(member_id)).with_current(value)
        self._hold(member_id, member.holds())
        self.members[member_id] = member

    def _replay_target(self, member_id: str, value: Any) -> None:
        if value is None:
            self.targets.pop(member_id, None)
        else:
            topics = value.topic_partitions
            self.targets[member_id] = frozenset((each.topic_id, index) for each in topics for index in each.partitions)

    def _hold(self, member_id: str, parts: Iterable[TopicIdPartition]) -> None:
        """From now on the member holds these and no others."""
        known = self.members.get(member_id)
        for part in known.holds() if known is not None else ():
            if self.owners.get(part) == member_id:
                del self.owners[part]
        for part in parts:
            self.owners[part] = member_id

    def tombstones(self) -> list[ConsumerRecord]:
        """What removes the group and everything of it."""
        gone = [record for member_id in self.members for record in member_tombstones(self.group_id, member_id)]
        gone += [ConsumerRecord(REGEX, self.group_id, pattern, None) for pattern in self.regexes]
        return [*gone, ConsumerRecord(TARGET_EPOCH, self.group_id, "", None), self.tombstone()]

    def tombstone(self) -> ConsumerRecord:
        return ConsumerRecord(EPOCH, self.group_id, "", None)

    # Deadlines.

    def on_heard(self, member_id: str, now: Now, session_timeout_ms: int, has_moved: bool) -> None:
        """A member's request was answered, and maybe told it to give partitions up."""
        self.keep(member_id, now, session_timeout_ms)
        if has_moved:
            self.expect_revocation(self.members[member_id], now)

    def keep(self, member_id: str, now: Now, session_timeout_ms: int) -> None:
        self._session_deadlines[member_id] = now.monotonic_s + session_timeout_ms / 1000

    def expect_revocation(self, member: ConsumerMember, now: Now) -> None:
        """The time to give partitions up begins, or is over."""
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self._revocation_deadlines[member.member_id] = now.after(member.rebalance_timeout_ms)
        else:
            self._revocation_deadlines.pop(member.member_id, None)

    def expect_join(self, member: ConsumerMember, now: Now) -> None:
        """A classic member was told to join again: from the first time on it has its rebalance timeout to do so."""
        self._revocation_deadlines.setdefault(member.member_id, now.after(member.rebalance_timeout_ms))

    def postpone(self, member_ids: Iterable[str], now: Now, session_timeout_ms: int) -> None:
        """Overdue members could not be removed: the same again after another session's time."""
        for member_id in member_ids:
            self.keep(member_id, now, session_timeout_ms)
            if member_id in self._revocation_deadlines:
                self._revocation_deadlines[member_id] = now.after(session_timeout_ms)

    def on_loaded(self, now: Now, session_timeout_ms: int) -> None:
        """The members could not be heard while the group was not loaded: their time begins anew."""
        for member in self.members.values():
            self.keep(member.member_id, now, member.session_timeout_ms(session_timeout_ms))
            self.expect_revocation(member, now)

    def next_deadline_s(self) -> float:
        return min((*self._session_deadlines.values(), *self._revocation_deadlines.values()), default=NEVER)

    def overdue(self, now: Now) -> list[str]:
        """Members that were not heard of in time, or did not give up what they had to. Forgets what means nothing."""
        late: dict[str, None] = {}
        for deadlines in (self._session_deadlines, self._revocation_deadlines):
            for member_id, deadline_s in tuple(deadlines.items()):
                if member_id not in self.members:
                    del deadlines[member_id]
                elif deadline_s <= now.monotonic_s:
                    late[member_id] = None
        return list(late)

    def may_assign(self, interval_ms: int, now: Now) -> bool:
        """Whether the last target is old enough for a new one. A clock that was set back keeps nobody waiting."""
        return not 0 <= now.wall_ms - self.assigned_ms < interval_ms

    # What a request must get right.

    def member_or_raise(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            why = f"Member {member_id} is not a member of group {self.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, why)
        return member

    def check_commit(self, member_id: str, epoch: int, version: int, partitions: Collection[TopicIdPartition]) -> None:
        """Who commits: a member, or one from outside while there are none.

        KIP-1251: a member that has not heard of its new epoch yet may still commit what it has had since before.
        """
        if epoch < 0 and not self.members:
            return
        classic = self.members.get(member_id)
        if classic is not None and classic.classic is not None:
            if epoch != classic.epoch:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            return
        if version < OFFSET_VERSION and epoch >= 0:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "the client must know member epochs to commit for this group"
            )
        member = self.member_or_raise(member_id)
        if epoch == member.epoch:
            return
        is_too_new = epoch > member.epoch or epoch < 0
        if is_too_new or not all(member.assigned.get(part, epoch + 1) <= epoch for part in partitions):
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def check_transactional_commit(self, member_id: str, instance_id: str | None, epoch: int) -> None:
        """Who commits in a transaction: anyone who does not say who it is, or a member at its present epoch."""
        is_nobody = not member_id and instance_id is None
        if epoch < 0 and (is_nobody or not self.members):
            return
        if self.member_or_raise(member_id).epoch != epoch:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Whoever says that it is a member must be one, at its present epoch."""
        if not member_id and epoch < 0:
            return
        if self.member_or_raise(member_id or "").epoch != epoch:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH)

    def check_deletable(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    # What it is.

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        reached = (self.assignment_epoch, MemberState.STABLE)
        if any((member.epoch, member.state) != reached for member in self.members.values()):
            return ConsumerState.RECONCILING
        return ConsumerState.STABLE

    def is_subscribed_to(self, topic: str) -> bool:
        return any(
            topic in member.topic_names or topic in self.regexes.get(member.topic_regex or "", ())
            for member in self.members.values()
        )

    def listed(self) -> ListedGroup:
        return ListedGroup(self.group_id, CONSUMER, self.state.value, CONSUMER)

    def described(self, topics_by_id: Mapping[bytes, TopicImage], assignor: str) -> describe.DescribedGroup:
        """`assignor` is the broker's default. A member has what it has not given up yet, as in Kafka 4.3. Partitions of
        topics that are gone are not shown: they have no name."""
        members = []
        for member in self.members.values():
            shown = describe.Member(
                member.member_id,
                member.instance_id,
                member.rack_id,
                member.epoch,
                member.client_id,
                member.client_host,
                list(member.topic_names),
                member.topic_regex,
                _described(member.holds(), topics_by_id),
                _described(self.targets.get(member.member_id, ()), topics_by_id),
                CLASSIC_MEMBER if member.classic is not None else CONSUMER_MEMBER,
            )
            members.append(shown)
        return describe.DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            group_epoch=self.epoch,
            assignment_epoch=self.assignment_epoch,
            assignor_name=chosen_assignor(self.members.values(), assignor),
            members=members,
        )


def _described(partitions: Iterable[TopicIdPartition], topics_by_id: Mapping[bytes, TopicImage]) -> describe.Assignment:
    return describe.Assignment(
        [
            describe.TopicPartitions(topic_id, topics_by_id[topic_id].name, indexes)
            for topic_id, indexes in by_topic(partitions).items()
            if topic_id in topics_by_id
        ]
    )
