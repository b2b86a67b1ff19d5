"""SyncGroup, as a classic group takes it: the leader brings the assignment, everyone gets their part of it.

The assignment counts when its record is committed; until then all members wait, the leader too. Members that the leader
left out get an empty one. Whoever asks again while the group is stable is told what it has.
"""

from __future__ import annotations

from penstock.broker.groups import rebalance
from penstock.broker.groups.group import NEVER, ClassicGroup, State
from penstock.broker.groups.member import Member
from penstock.broker.groups.outcome import Now, Outcome, Ticket
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(group: ClassicGroup, request: SyncGroupRequest, ticket: Ticket, now: Now, out: Outcome) -> None:
    try:
        member = _check(group, request)
    except KafkaError as error:
        out.answers.append((ticket, SyncGroupResponse(error_code=error.code)))
        return
    group.pending_sync.pop(member.member_id, None)
    if not group.pending_sync:
        group.sync_deadline_s = NEVER
    if group.state is State.STABLE:
        member.keep(now)
        out.answers.append((ticket, rebalance.assigned_response(group, member)))
        return
    if member.awaiting_sync is not None:
        out.answers.append((member.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
    member.awaiting_sync = ticket
    if group.leader_id == member.member_id:
        given = {each.member_id: each.assignment for each in request.assignments}
        out.records.append(group.record(given))


def _check(group: ClassicGroup, request: SyncGroupRequest) -> Member:
    """The member that asks, in a group that has a generation."""
    if group.state is State.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if group.state is State.EMPTY:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(request.member_id, request.group_instance_id)
    group.check_generation(request.generation_id)
    if request.protocol_type not in (None, group.protocol_type) or (
        request.protocol_name is not None and group.protocol_name not in (None, request.protocol_name)
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is State.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member
