"""Classic members of a consumer group: what JoinGroup, SyncGroup, Heartbeat and LeaveGroup mean there. Pure.

While a group changes from one protocol to the other (KIP-848, online migration) members of both kinds are in one
consumer group. A classic member takes the same steps as any other, in its own words:

    JoinGroup    says what it reads and has, and takes one step; its generation is its member epoch. It never leads.
    SyncGroup    gets what it may read now
    Heartbeat    REBALANCE_IN_PROGRESS when a step is due: the group has moved on, something is to be given up, or
                 what it waits for is free. From then on its rebalance timeout runs.

An eager member has given everything up before it joins, a cooperative one says what it still has (KIP-429).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from penstock.broker.groups.assignors import TopicIdPartition
from penstock.broker.groups.consumer_group import ConsumerGroup
from penstock.broker.groups.consumer_heartbeat import ConsumerLimits, advance
from penstock.broker.groups.consumer_member import ConsumerMember, MemberState
from penstock.broker.groups.consumer_records import ConsumerRecord, by_topic
from penstock.broker.groups.group import CONSUMER
from penstock.broker.groups.join import MEMBER_ID_REQUIRED_SINCE
from penstock.broker.groups.member import REBALANCE_TIMEOUT_SINCE
from penstock.broker.groups.outcome import Client, Now
from penstock.broker.groups.target_assignment import Topics
from penstock.errors import ErrorCode, KafkaError, MalformedError
from penstock.metadata.image import TopicImage
from penstock.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.wire.api.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from penstock.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.wire.compile import decode, encode
from penstock.wire.consumer_assignment import ConsumerProtocolAssignment, TopicPartition
from penstock.wire.consumer_subscription import ConsumerProtocolSubscription
from penstock.wire.coordinator import INT16
from penstock.wire.coordinator.consumer_group import ClassicMemberMetadata, ClassicProtocol

NEWEST_SUBSCRIPTION = 3


@dataclass(slots=True)
class JoinDecision:
    """What to write, and what to answer when that is committed. `member_id` is None when nobody joined."""

    response: JoinGroupResponse
    records: list[ConsumerRecord] = field(default_factory=list)
    member_id: str | None = None


def join(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    client: Client,
    new_member_id: str,
    topics: Topics,
    limits: ConsumerLimits,
    now: Now,
) -> JoinDecision:
    """KafkaError when the member may not join. `new_member_id` is for one that has none yet."""
    _check_protocols(group, request)
    is_unknown = not request.member_id
    if is_unknown and request.group_instance_id is None and client.version >= MEMBER_ID_REQUIRED_SINCE:
        return JoinDecision(refusal(ErrorCode.MEMBER_ID_REQUIRED, new_member_id))
    before, replaced_id = _joiner(group, request, new_member_id, limits)
    subscription = read_subscription(request.protocols[0].metadata)
    said = replace(
        before,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        topic_names=tuple(sorted(set(subscription.topics))),
        topic_regex=None,
        rebalance_timeout_ms=_rebalance_timeout_ms(request, client),
        server_assignor=None,
        classic=ClassicMemberMetadata(
            request.session_timeout_ms, [ClassicProtocol(each.name, each.metadata) for each in request.protocols]
        ),
    )
    owned = {
        (topics[each.topic].topic_id, index)
        for each in subscription.owned_partitions
        if each.topic in topics
        for index in each.partitions
    }
    after, records = advance(group, said, replaced_id, owned, topics, limits, now)
    response = JoinGroupResponse(
        generation_id=after.epoch,
        protocol_type=CONSUMER,
        protocol_name=request.protocols[0].name,
        member_id=after.member_id,
    )
    return JoinDecision(response, records, after.member_id)


def refusal(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=None, member_id=member_id)


def _rebalance_timeout_ms(request: JoinGroupRequest, client: Client) -> int:
    has_own = client.version >= REBALANCE_TIMEOUT_SINCE
    return request.rebalance_timeout_ms if has_own else request.session_timeout_ms


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """One of its protocols must be known to all other classic members, so that the group can become classic again."""
    others = [
        {protocol.name for protocol in member.classic.supported_protocols}
        for member in group.members.values()
        if member.classic is not None and member.member_id != request.member_id
    ]
    fits = any(all(each.name in known for known in others) for each in request.protocols)
    if request.protocol_type != CONSUMER or not fits:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _joiner(
    group: ConsumerGroup, request: JoinGroupRequest, new_member_id: str, limits: ConsumerLimits
) -> tuple[ConsumerMember, str | None]:
    """The member as it was before, and the id whose place it takes."""
    member_id = request.member_id or new_member_id
    known_id = group.static_members.get(request.group_instance_id) if request.group_instance_id is not None else None
    if known_id is not None and not request.member_id:
        return group.members[known_id].starting_over(member_id), known_id
    if known_id is not None and known_id != member_id:
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    if member_id in group.members:
        return group.members[member_id], None
    if request.member_id and request.group_instance_id is not None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if len(group.members) >= limits.max_size:
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    return ConsumerMember(member_id), None


def sync(
    group: ConsumerGroup,
    request: SyncGroupRequest,
    topics_by_id: Mapping[bytes, TopicImage],
    limits: ConsumerLimits,
    now: Now,
) -> SyncGroupResponse:
    member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    # A member that must give something up does that first, and joins again by itself.
    if _epoch_in_reach(group, limits, now) > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    protocol = _classic(member).supported_protocols[0]
    if request.protocol_name is not None and request.protocol_name != protocol.name:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assignment = write_assignment(protocol.metadata, member, topics_by_id)
    return SyncGroupResponse(protocol_type=CONSUMER, protocol_name=protocol.name, assignment=assignment)


def heartbeat(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, limits: ConsumerLimits, now: Now
) -> ErrorCode:
    member = _member(group, member_id, instance_id, generation)
    group.keep(member_id, now, _classic(member).session_timeout_ms)
    if not _is_step_due(group, member, _epoch_in_reach(group, limits, now)):
        return ErrorCode.NONE
    group.expect_join(member, now)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _epoch_in_reach(group: ConsumerGroup, limits: ConsumerLimits, now: Now) -> int:
    """Which epoch a member that joins now comes to: that of the group, unless the next target must wait."""
    return group.epoch if group.may_assign(limits.assignment_interval_ms, now) else group.assignment_epoch


def _is_step_due(group: ConsumerGroup, member: ConsumerMember, epoch: int) -> bool:
    if member.epoch < epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    missing = group.targets.get(member.member_id, frozenset()) - member.assigned.keys()
    return member.state is MemberState.UNRELEASED_PARTITIONS and not any(part in group.owners for part in missing)


class Leaving(NamedTuple):
    response: LeaveGroupResponse
    member_ids: Sequence[str]


def leave(group: ConsumerGroup, identities: Sequence[MemberIdentity]) -> Leaving:
    """Who goes, and the answer."""
    gone: dict[str, None] = {}
    answers = []
    for identity in identities:
        code = ErrorCode.NONE
        owner = group.static_members.get(identity.group_instance_id or "")
        member_id = identity.member_id or owner or ""
        if member_id not in group.members:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        elif identity.group_instance_id is not None and owner != member_id:
            code = ErrorCode.FENCED_INSTANCE_ID
        else:
            gone[member_id] = None
        answers.append(MemberResponse(identity.member_id, identity.group_instance_id, code))
    return Leaving(LeaveGroupResponse(members=answers), list(gone))


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    if instance_id is not None:
        owner = group.static_members.get(instance_id)
        if owner is not None and owner != member_id:
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    member = group.member_or_raise(member_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member


def _classic(member: ConsumerMember) -> ClassicMemberMetadata:
    assert member.classic is not None, "only classic members come here"
    return member.classic


# What classic members write and read.


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """INCONSISTENT_GROUP_PROTOCOL when it is not one. A newer version begins with what we know."""
    try:
        read: ConsumerProtocolSubscription = decode(
            ConsumerProtocolSubscription, _version(metadata), memoryview(metadata)[INT16.size :]
        )
    except MalformedError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the subscription cannot be read") from error
    return read


def _version(data: bytes) -> int:
    if len(data) < INT16.size:
        raise MalformedError("there is no version")
    return int(min(max(INT16.unpack_from(data)[0], 0), NEWEST_SUBSCRIPTION))


def read_assignment(assignment: bytes) -> list[tuple[str, int]]:
    """INCONSISTENT_GROUP_PROTOCOL when it is not one; nothing for none. An assignor's own data are left out."""
    if not assignment:
        return []
    try:
        read = decode(ConsumerProtocolAssignment, 0, memoryview(assignment)[INT16.size :])
    except MalformedError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the assignment cannot be read") from error
    return [(topic.topic, index) for topic in read.assigned_partitions for index in topic.partitions]


def write_assignment(subscription: bytes, member: ConsumerMember, topics_by_id: Mapping[bytes, TopicImage]) -> bytes:
    """What the member may read, in the version of its subscription."""
    parts: list[TopicIdPartition] = list(member.assigned)
    topics = [
        TopicPartition(topics_by_id[topic_id].name, indexes)
        for topic_id, indexes in by_topic(parts).items()
        if topic_id in topics_by_id
    ]
    version = _version(subscription)
    return INT16.pack(version) + bytes(encode(ConsumerProtocolAssignment(topics), version))
