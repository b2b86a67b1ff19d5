"""LeaveGroup, as a classic group takes it: each of the named members goes, and one rebalance follows for all of them.

A member is named by its id. An administrator names a static member by its instance id alone (KIP-345).
"""

from __future__ import annotations

from penstock.broker.client_text import shown
from penstock.broker.groups import rebalance
from penstock.broker.groups.group import ClassicGroup, State
from penstock.broker.groups.outcome import Now, Outcome
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse


def leave(group: ClassicGroup, leaving: list[MemberIdentity], now: Now, out: Outcome) -> LeaveGroupResponse:
    if group.state is State.DEAD:
        return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answers = []
    gone = []
    for identity in leaving:
        code = _leave_one(group, identity, out)
        answers.append(MemberResponse(identity.member_id, identity.group_instance_id, code))
        if code == ErrorCode.NONE:
            gone.append(_why(identity))
    if gone and not group.is_empty:
        rebalance.prepare_or_complete(group, f"{', '.join(gone)} left", now, out)
    return LeaveGroupResponse(members=answers)


def nobody_left(leaving: list[MemberIdentity]) -> LeaveGroupResponse:
    """There is no such group."""
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    members = [MemberResponse(each.member_id, each.group_instance_id, unknown) for each in leaving]
    return LeaveGroupResponse(members=members)


def _leave_one(group: ClassicGroup, identity: MemberIdentity, out: Outcome) -> ErrorCode:
    if identity.member_id in group.pending_members:
        group.remove(identity.member_id)
        return ErrorCode.NONE
    try:
        member_id = identity.member_id or group.static_members.get(identity.group_instance_id or "", "")
        member = group.check_member(member_id, identity.group_instance_id)
    except KafkaError as error:
        return error.code
    rebalance.dismiss(group, member, ErrorCode.UNKNOWN_MEMBER_ID, out)
    return ErrorCode.NONE


def _why(identity: MemberIdentity) -> str:
    """KIP-800: the client may say why."""
    who = shown(identity.member_id or identity.group_instance_id or "")
    return f"{who} ({shown(identity.reason)})" if identity.reason else who
