"""A member of a consumer group (KIP-848): what it said of itself, and which partitions it has. A value; never changed.

`assigned` is what it may read. `pending_revocation` is what it must give up and has not confirmed yet: nobody else gets
those before. Epochs: 0 has just come, -2 is a static member that left for a while and keeps what it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from penstock.broker.groups.assignors import TopicIdPartition
from penstock.broker.groups.consumer_records import (
    CURRENT,
    MEMBER,
    ConsumerRecord,
    Epochs,
    loaded_partitions,
    stored_partitions,
)
from penstock.broker.groups.outcome import Client
from penstock.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.coordinator.consumer_group import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
)

JOINING = 0
LEAVING = -1
LEAVING_FOR_NOW = -2
NO_EPOCH = -1
UNCHANGED = -1


class MemberState(IntEnum):
    """Where a member stands between its present and its target (Kafka's numbers)."""

    STABLE = 0
    """It has its target."""
    UNREVOKED_PARTITIONS = 1
    """It must give partitions up first."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    """Sorted, each once."""
    topic_regex: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """What it joined with, if it speaks the classic protocol (see `mixed_group`)."""
    epoch: int = JOINING
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Epochs = field(default_factory=dict)
    pending_revocation: Epochs = field(default_factory=dict)

    def told(self, request: ConsumerGroupHeartbeatRequest, client: Client) -> ConsumerMember:
        """As it is after what it says now; what it does not say stays. This very object if nothing changed."""
        is_as_before = (client.client_id, client.host, None) == (self.client_id, self.client_host, self.classic)
        if is_as_before and _says_nothing(request):
            return self
        names, regex, timeout_ms = self.topic_names, self.topic_regex, self.rebalance_timeout_ms
        if request.subscribed_topic_names is not None:
            names = tuple(sorted(set(request.subscribed_topic_names)))
        if request.subscribed_topic_regex is not None:
            regex = request.subscribed_topic_regex or None
        if request.rebalance_timeout_ms != UNCHANGED:
            timeout_ms = request.rebalance_timeout_ms
        said = replace(
            self,
            instance_id=_newer(request.instance_id, self.instance_id),
            rack_id=_newer(request.rack_id, self.rack_id),
            client_id=client.client_id,
            client_host=client.host,
            topic_names=names,
            topic_regex=regex,
            rebalance_timeout_ms=timeout_ms,
            server_assignor=_newer(request.server_assignor, self.server_assignor),
            classic=None,
        )
        return self if said == self else said

    def starting_over(self, member_id: str) -> ConsumerMember:
        """It has given everything up and begins again, a static member maybe under a new id."""
        return replace(
            self,
            member_id=member_id,
            epoch=JOINING,
            previous_epoch=NO_EPOCH,
            state=MemberState.STABLE,
            assigned={},
            pending_revocation={},
        )

    def gone_for_now(self) -> ConsumerMember:
        """A static member that will be back keeps its partitions for that long."""
        return replace(
            self,
            epoch=LEAVING_FOR_NOW,
            previous_epoch=self.epoch,
            state=MemberState.STABLE,
            pending_revocation={},
        )

    def has_same_subscription(self, other: ConsumerMember) -> bool:
        return self.topic_names == other.topic_names and self.topic_regex == other.topic_regex

    def session_timeout_ms(self, default: int) -> int:
        """A classic member has its own; the group's is the others'."""
        return default if self.classic is None else self.classic.session_timeout_ms

    def holds(self) -> set[TopicIdPartition]:
        """What nobody else may get."""
        return {*self.assigned, *self.pending_revocation}

    # Records.

    def metadata_record(self, group_id: str) -> ConsumerRecord:
        value = ConsumerGroupMemberMetadataValue(
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            list(self.topic_names),
            self.topic_regex,
            self.rebalance_timeout_ms,
            self.server_assignor,
            self.classic,
        )
        return ConsumerRecord(MEMBER, group_id, self.member_id, value)

    def current_record(self, group_id: str) -> ConsumerRecord:
        value = ConsumerGroupCurrentMemberAssignmentValue(
            self.epoch,
            self.previous_epoch,
            self.state,
            stored_partitions(self.assigned),
            stored_partitions(self.pending_revocation),
        )
        return ConsumerRecord(CURRENT, group_id, self.member_id, value)

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=tuple(sorted(set(value.subscribed_topic_names))),
            topic_regex=value.subscribed_topic_regex or None,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_current(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_state(value.state),
            assigned=loaded_partitions(value.assigned_partitions, value.member_epoch),
            pending_revocation=loaded_partitions(value.partitions_pending_revocation, value.member_epoch),
        )

    def metadata_of(self) -> tuple[object, ...]:
        """What its metadata record holds, to be compared."""
        return (
            self.instance_id,
            self.rack_id,
            self.client_id,
            self.client_host,
            self.topic_names,
            self.topic_regex,
            self.rebalance_timeout_ms,
            self.server_assignor,
            self.classic,
        )

    def current_of(self) -> tuple[int, int, int, Mapping[TopicIdPartition, int], Mapping[TopicIdPartition, int]]:
        """What its current assignment's record holds, to be compared."""
        return self.epoch, self.previous_epoch, self.state, self.assigned, self.pending_revocation


def _says_nothing(request: ConsumerGroupHeartbeatRequest) -> bool:
    """As nearly every heartbeat does."""
    return (
        request.instance_id is None
        and request.rack_id is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rebalance_timeout_ms == UNCHANGED
    )


def _newer(said: str | None, known: str | None) -> str | None:
    return known if said is None else said


def _state(number: int) -> MemberState:
    """A state that we do not know is one whose partitions must be given up first; that is safe."""
    return MemberState(number) if number in (0, 1, 2) else MemberState.UNREVOKED_PARTITIONS
