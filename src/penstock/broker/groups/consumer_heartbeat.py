"""ConsumerGroupHeartbeat, as a consumer group takes it: one request to join, live, change, give up, get and leave.

    1. who speaks: a new member, a known one at its epoch, a static one that is back
    2. what it says of itself; a new subscription, or a change of the topics that the group reads, is a new group epoch
    3. a new group epoch is a new target for everyone, at once or with the first heartbeat after the assignment interval
    4. the member's own step towards its target (`reconciliation`)

Nothing is changed here. What was decided comes out as records in one batch, and the answer, which counts
when they are committed. The shell takes the next request of the group only after that.

An answer may be lost: a member that comes with its previous epoch, and no partitions but those it was given, is told
again. Any other epoch is FENCED_MEMBER_EPOCH; the member gives everything up and joins again with epoch 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from penstock.broker.groups.assignors import ASSIGNORS, TopicIdPartition
from penstock.broker.groups.consumer_group import ConsumerGroup
from penstock.broker.groups.consumer_member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_NOW,
    UNCHANGED,
    ConsumerMember,
)
from penstock.broker.groups.consumer_records import (
    REGEX,
    ConsumerRecord,
    by_topic,
    epoch_record,
    member_tombstones,
    regex_record,
    target_epoch_record,
    target_record,
)
from penstock.broker.groups.outcome import Client, Now
from penstock.broker.groups.reconciliation import reconcile
from penstock.broker.groups.target_assignment import Topics, make_target, metadata_hash, resolve_regexes
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

OWN_MEMBER_ID_SINCE = 1
"""KIP-1082: the client makes its own member id."""


@dataclass(frozen=True, slots=True)
class ConsumerLimits:
    """The settings of one group, its own or the broker's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = tuple(ASSIGNORS)
    """The default first."""
    assignment_interval_ms: int = 0


@dataclass(slots=True)
class Decision:
    """What to write, and what to answer when that is committed."""

    response: ConsumerGroupHeartbeatResponse
    records: list[ConsumerRecord] = field(default_factory=list)
    is_heard: bool = True
    """Whether the member is there to be heard of again."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, limits: ConsumerLimits) -> None:
    """INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for what can be seen without the group."""
    is_joining = request.member_epoch == JOINING
    if not request.group_id.strip():
        _refuse("GroupId can't be empty.")
    if not request.member_id.strip() and (version >= OWN_MEMBER_ID_SINCE or not is_joining):
        _refuse("MemberId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        _refuse("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        _refuse("RackId can't be empty.")
    if is_joining:
        _check_joining(request)
    elif request.member_epoch == LEAVING_FOR_NOW and request.instance_id is None:
        _refuse("InstanceId can't be null.")
    elif request.member_epoch < LEAVING_FOR_NOW:
        _refuse("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in limits.assignors:
        names = ", ".join(limits.assignors)
        why = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {names}."
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, why)


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == UNCHANGED:
        _refuse("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        _refuse("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and not request.subscribed_topic_regex:
        _refuse("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _refuse(why: str) -> None:
    raise KafkaError(ErrorCode.INVALID_REQUEST, why)


def heartbeat(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    client: Client,
    topics: Topics,
    limits: ConsumerLimits,
    now: Now,
) -> Decision:
    """KafkaError when the member may not speak."""
    if request.member_epoch in (LEAVING, LEAVING_FOR_NOW):
        return _leave(group, request, topics)
    owned = _owned(request)
    before, replaced_id = _speaker(group, request, owned, limits)
    after, records = advance(group, before.told(request, client), replaced_id, owned, topics, limits, now)
    known = group.members.get(after.member_id)
    is_full = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    is_full = is_full and owned is not None and request.rebalance_timeout_ms != UNCHANGED
    has_missed = known is None or known.epoch != request.member_epoch
    # One that has what it was told to give up may not have heard of it.
    has_missed = has_missed or (owned is not None and any(part not in after.assigned for part in owned))
    has_changed = known is None or known.assigned.keys() != after.assigned.keys()
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=limits.heartbeat_interval_ms,
        assignment=_assignment(after) if is_full or has_missed or has_changed else None,
    )
    return Decision(response, records)


def advance(
    group: ConsumerGroup,
    member: ConsumerMember,
    replaced_id: str | None,
    owned: Collection[TopicIdPartition] | None,
    topics: Topics,
    limits: ConsumerLimits,
    now: Now,
) -> tuple[ConsumerMember, list[ConsumerRecord]]:
    """The member after its next step, and what to write. `member` is as it was, with what it says of itself now."""
    draft = _Draft(group, member, replaced_id, topics, limits, now)
    draft.follow_topics()
    draft.make_target()
    after = draft.reconcile(owned)
    return after, draft.records


def _owned(request: ConsumerGroupHeartbeatRequest) -> Collection[TopicIdPartition] | None:
    if request.topic_partitions is None:
        return None
    return {(topic.topic_id, index) for topic in request.topic_partitions for index in topic.partitions}


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment([TopicPartitions(topic, indexes) for topic, indexes in by_topic(member.assigned).items()])


# 1. Who speaks.


def _speaker(
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    owned: Collection[TopicIdPartition] | None,
    limits: ConsumerLimits,
) -> tuple[ConsumerMember, str | None]:
    """The member as it was before this request, and the id whose place it takes."""
    if request.member_epoch == JOINING:
        return _joining(group, request, limits)
    if request.instance_id is not None:
        _check_instance(group, request)
    member = group.member_or_raise(request.member_id)
    _check_epoch(member, request.member_epoch, owned)
    return member, None


def _joining(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, limits: ConsumerLimits
) -> tuple[ConsumerMember, str | None]:
    """A member that joins has nothing: whatever it had it has given up, and a static one left before."""
    known_id = group.static_members.get(request.instance_id) if request.instance_id is not None else None
    if known_id is not None:
        known = group.members[known_id]
        is_left = known.epoch == LEAVING_FOR_NOW or known.classic is not None
        if known_id != request.member_id and not is_left:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group "
                f"because the instance id is owned by member {known_id}.",
            )
        return known.starting_over(request.member_id), known_id
    if request.member_id in group.members:
        return group.members[request.member_id].starting_over(request.member_id), request.member_id
    if len(group.members) >= limits.max_size:
        why = f"The consumer group has reached its maximum capacity of {limits.max_size} members."
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, why)
    return ConsumerMember(request.member_id), None


def _check_instance(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> None:
    known_id = group.static_members.get(request.instance_id or "")
    if known_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
    if known_id != request.member_id:
        why = f"Static member {request.member_id} with instance id {request.instance_id} was fenced by {known_id}."
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, why)


def _check_epoch(member: ConsumerMember, epoch: int, owned: Collection[TopicIdPartition] | None) -> None:
    if epoch == member.epoch:
        return
    may_have_missed_answer = owned is not None and all(part in member.assigned for part in owned)
    if epoch == member.previous_epoch and may_have_missed_answer:
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member's epoch is {epoch}, and {member.epoch} is expected. "
        "The member must abandon all its partitions and rejoin.",
    )


# 2. to 4. What follows from it.


class _Draft:
    """The group as it will be, while that is decided; the group itself is not touched."""

    def __init__(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        replaced_id: str | None,
        topics: Topics,
        limits: ConsumerLimits,
        now: Now,
    ) -> None:
        self._group = group
        self._member = member
        self._replaced_id = replaced_id
        self._topics = topics
        self._limits = limits
        self._now = now
        self._known = group.members.get(replaced_id or member.member_id)
        self._regexes = group.regexes
        self._epoch = group.epoch
        self.records: list[ConsumerRecord] = []
        if replaced_id is not None and replaced_id != member.member_id:
            self.records += member_tombstones(group.group_id, replaced_id)
        known = group.members.get(member.member_id)
        if known is None or known.metadata_of() != member.metadata_of():
            self.records.append(member.metadata_record(group.group_id))

    def _members(self) -> dict[str, ConsumerMember]:
        members = {each: member for each, member in self._group.members.items() if each != self._replaced_id}
        members[self._member.member_id] = self._member
        return members

    def follow_topics(self) -> None:
        """A new group epoch when the member is new, reads something else, or the group's topics changed."""
        group = self._group
        is_same = self._known is not None and self._member.has_same_subscription(self._known)
        if is_same and group.seen_topics is self._topics:
            return
        members = self._members()
        self._regexes = resolve_regexes(members, group.regexes, self._topics)
        hashed = metadata_hash(members, self._regexes, self._topics)
        for pattern, topics in self._regexes.items():
            if group.regexes.get(pattern) != topics:
                self.records.append(regex_record(group.group_id, pattern, topics, self._now.wall_ms))
        for pattern in group.regexes.keys() - self._regexes.keys():
            self.records.append(ConsumerRecord(REGEX, group.group_id, pattern, None))
        if is_same and hashed == group.metadata_hash:
            group.seen_topics = self._topics
            return
        self._epoch += 1
        self.records.append(epoch_record(group.group_id, self._epoch, hashed))

    def make_target(self) -> None:
        group = self._group
        self._targets = group.targets
        self._target_epoch = group.assignment_epoch
        if self._replaced_id is not None and self._replaced_id != self._member.member_id:
            moved = dict(group.targets)
            moved[self._member.member_id] = moved.pop(self._replaced_id, frozenset())
            self._targets = moved
        if self._epoch > group.assignment_epoch and group.may_assign(self._limits.assignment_interval_ms, self._now):
            self._targets = make_target(
                self._members(), self._regexes, self._topics, self._targets, self._limits.assignors[0]
            )
            self._target_epoch = self._epoch
        if self._targets is group.targets:
            return
        for member_id, target in self._targets.items():
            if group.targets.get(member_id) != target:
                self.records.append(target_record(group.group_id, member_id, target))
        if self._target_epoch != group.assignment_epoch:
            self.records.append(target_epoch_record(group.group_id, self._target_epoch, self._now.wall_ms))

    def reconcile(self, owned: Collection[TopicIdPartition] | None) -> ConsumerMember:
        target = self._targets.get(self._member.member_id, frozenset())
        after = reconcile(self._member, self._target_epoch, target, owned, self._is_free)
        known = self._group.members.get(after.member_id)
        if known is None or known.current_of() != after.current_of():
            self.records.append(after.current_record(self._group.group_id))
        return after

    def _is_free(self, part: TopicIdPartition) -> bool:
        return self._group.owners.get(part) in (None, self._member.member_id, self._replaced_id)


# Leaving.


def _leave(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, topics: Topics) -> Decision:
    member = group.member_or_raise(request.member_id) if request.instance_id is None else None
    if member is None:
        _check_instance(group, request)
        member = group.members[request.member_id]
    response = ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)
    if request.member_epoch == LEAVING_FOR_NOW:
        return Decision(response, [member.gone_for_now().current_record(group.group_id)], is_heard=False)
    return Decision(response, depart(group, [member.member_id], topics), is_heard=False)


def depart(group: ConsumerGroup, member_ids: Sequence[str], topics: Topics) -> list[ConsumerRecord]:
    """What removes members, because they left or their time is over: a new group epoch for those who stay."""
    if not member_ids:
        return []
    records = [record for member_id in member_ids for record in member_tombstones(group.group_id, member_id)]
    rest = {member_id: member for member_id, member in group.members.items() if member_id not in member_ids}
    used = {member.topic_regex for member in rest.values()}
    records += [ConsumerRecord(REGEX, group.group_id, pattern, None) for pattern in group.regexes.keys() - used]
    return [*records, epoch_record(group.group_id, group.epoch + 1, metadata_hash(rest, group.regexes, topics))]
