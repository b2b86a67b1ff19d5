"""A group with members changes from the classic protocol to the consumer protocol and back (KIP-848). Pure.

    up      the first consumer-protocol member joins a classic group: each classic member becomes a member of a
            consumer group at epoch = generation, and has what the leader gave it last
    down    the last consumer-protocol member is gone: the classic members become a classic group at generation = epoch,
            which rebalances at once

`group.consumer.migration.policy` says which way is open. Either is one batch of records: the tombstones of the group as
it was, and the group as it is.

A group may be upgraded in the middle of a rebalance, as in Kafka: the rebalance is over, whoever waits in it is told to
join again, and there gets its place in the next one. What its members have then is what they were given last, and what
they say that they kept when they joined (KIP-429): a rebalance that began while another was being completed has
forgotten the former, and nobody else may get the latter before it is given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from penstock.broker.groups.assignors import TopicIdPartition
from penstock.broker.groups.consumer_group import ConsumerGroup
from penstock.broker.groups.consumer_member import ConsumerMember
from penstock.broker.groups.consumer_records import epoch_record, target_epoch_record, target_record
from penstock.broker.groups.group import CONSUMER, ClassicGroup, State
from penstock.broker.groups.mixed_group import read_assignment, read_subscription, write_assignment
from penstock.broker.groups.outcome import Now
from penstock.broker.groups.records import GroupRecord, Record
from penstock.broker.groups.target_assignment import Topics, metadata_hash
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import TopicImage
from penstock.wire.consumer_subscription import ConsumerProtocolSubscription
from penstock.wire.coordinator.consumer_group import ClassicMemberMetadata, ClassicProtocol
from penstock.wire.coordinator.group_metadata import GroupMetadataValue, MemberMetadata

NO_TIME_MS = 0
"""Its target was not made here: the next one need not wait for `group.consumer.assignment.interval.ms`."""


def upgrade(group: ClassicGroup, topics: Topics, max_size: int) -> list[Record]:
    """GROUP_ID_NOT_FOUND when it cannot be."""
    if group.protocol_type != CONSUMER:
        _refuse(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > max_size:
        _refuse(group, "the group size exceeds the consumer group maximum size")
    members = _consumer_members(group, topics)
    if len({part for member in members.values() for part in member.assigned}) != sum(
        len(member.assigned) for member in members.values()
    ):
        _refuse(group, "its members share partitions")
    records: list[Record] = [GroupRecord(group.group_id, None)]
    records += [member.metadata_record(group.group_id) for member in members.values()]
    records.append(epoch_record(group.group_id, group.generation, metadata_hash(members, {}, topics)))
    records += [target_record(group.group_id, member.member_id, member.assigned) for member in members.values()]
    records.append(target_epoch_record(group.group_id, group.generation, NO_TIME_MS))
    return records + [member.current_record(group.group_id) for member in members.values()]


def _refuse(group: ClassicGroup, why: str) -> NoReturn:
    words = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, words)


def _consumer_members(group: ClassicGroup, topics: Topics) -> dict[str, ConsumerMember]:
    is_stable = group.state is State.STABLE
    protocol = group.protocol_name if is_stable else group.select_protocol()
    subscriptions, members = {}, {}
    for member in group.members.values():
        try:
            subscription = subscriptions[member.member_id] = read_subscription(member.metadata(protocol))
            parts = read_assignment(member.assignment)
        except KafkaError:
            _refuse(group, "the embedded consumer protocol is malformed")
        assigned: dict[TopicIdPartition, int] = {
            (topics[topic].topic_id, index): group.generation for topic, index in parts if topic in topics
        }
        members[member.member_id] = ConsumerMember(
            member.member_id,
            member.instance_id,
            subscription.rack_id,
            member.client_id,
            member.client_host,
            tuple(sorted(set(subscription.topics))),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMemberMetadata(
                member.session_timeout_ms, [ClassicProtocol(name, metadata) for name, metadata in member.protocols]
            ),
            epoch=group.generation,
            previous_epoch=group.generation,
            assigned=assigned,
        )
    return members if is_stable else _with_kept(members, subscriptions, topics)


def _with_kept(
    members: dict[str, ConsumerMember], subscriptions: Mapping[str, ConsumerProtocolSubscription], topics: Topics
) -> dict[str, ConsumerMember]:
    """With what members kept while they join. Of two that claim a partition the one of the later generation has it."""
    taken = {part for member in members.values() for part in member.assigned}
    kept = dict(members)
    for member_id in sorted(members, key=lambda each: -subscriptions[each].generation_id):
        owned = {
            (topics[each.topic].topic_id, index)
            for each in subscriptions[member_id].owned_partitions
            if each.topic in topics
            for index in each.partitions
        }
        member = kept[member_id]
        kept[member_id] = replace(member, assigned={**member.assigned, **dict.fromkeys(owned - taken, member.epoch)})
        taken |= owned
    return kept


def downgrade(group: ConsumerGroup, topics_by_id: Mapping[bytes, TopicImage], now: Now) -> GroupRecord | None:
    """The classic group that is left when only classic members are; None while others are there."""
    classics = [(member, member.classic) for member in group.members.values() if member.classic is not None]
    if not classics or len(classics) != len(group.members):
        return None
    common = set.intersection(*({each.name for each in classic.supported_protocols} for _, classic in classics))
    protocol = next((each.name for each in classics[0][1].supported_protocols if each.name in common), None)
    if protocol is None:
        return None
    members = []
    for member, classic in classics:
        subscription = next(each.metadata for each in classic.supported_protocols if each.name == protocol)
        members.append(
            MemberMetadata(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                classic.session_timeout_ms,
                subscription,
                write_assignment(subscription, member, topics_by_id),
            )
        )
    value = GroupMetadataValue(CONSUMER, group.epoch, protocol, members[0].member_id, now.wall_ms, members)
    return GroupRecord(group.group_id, value)
