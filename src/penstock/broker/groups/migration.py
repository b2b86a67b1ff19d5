"""A group with members changes from the classic protocol to the consumer protocol and back (KIP-848). Pure.

    up      the first consumer-protocol member joins a stable classic group: each classic member becomes a member of a
            consumer group at epoch = generation, and has what the leader gave it
    down    the last consumer-protocol member is gone: the classic members become a classic group at generation = epoch,
            which rebalances at once

`group.consumer.migration.policy` says which way is open. Either is one batch of records: the tombstones of the group as
it was, and the group as it is. A group that is in the middle of a classic rebalance is not changed: who has what is not
known then.
"""

from __future__ import annotations

from collections.abc import Mapping

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
from penstock.wire.coordinator.consumer_group import ClassicMemberMetadata, ClassicProtocol
from penstock.wire.coordinator.group_metadata import GroupMetadataValue, MemberMetadata


def upgrade(group: ClassicGroup, topics: Topics, now: Now) -> list[Record]:
    """KafkaError when it cannot be: retriable while the group is in a rebalance, else GROUP_ID_NOT_FOUND."""
    if group.protocol_type != CONSUMER:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
    if group.state is not State.STABLE:
        why = f"Group {group.group_id} is in a rebalance of the classic protocol; try again."
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, why)
    members = _consumer_members(group, topics)
    if len({part for member in members.values() for part in member.assigned}) != sum(
        len(member.assigned) for member in members.values()
    ):
        why = f"The members of group {group.group_id} share partitions, which a consumer group does not do."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, why)
    records: list[Record] = [GroupRecord(group.group_id, None)]
    records += [member.metadata_record(group.group_id) for member in members.values()]
    records.append(epoch_record(group.group_id, group.generation, metadata_hash(members, {}, topics)))
    records += [target_record(group.group_id, member.member_id, member.assigned) for member in members.values()]
    records.append(target_epoch_record(group.group_id, group.generation, now.wall_ms))
    return records + [member.current_record(group.group_id) for member in members.values()]


def _consumer_members(group: ClassicGroup, topics: Topics) -> dict[str, ConsumerMember]:
    members = {}
    for member in group.members.values():
        protocols = [ClassicProtocol(name, metadata) for name, metadata in member.protocols]
        try:
            subscription = read_subscription(member.metadata(group.protocol_name))
            parts = read_assignment(member.assignment)
        except KafkaError as error:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, error.message) from error
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
            classic=ClassicMemberMetadata(member.session_timeout_ms, protocols),
            epoch=group.generation,
            previous_epoch=group.generation,
            assigned=assigned,
        )
    return members


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
