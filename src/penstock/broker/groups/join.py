"""JoinGroup, as a classic group takes it.

A new dynamic member joins twice (KIP-394): the first request only gets it an id, so that a client whose answer is lost
does not leave a member behind that everyone waits for. A new static member (KIP-345) has a name of its own; when the
name is known it takes the old member's place, and the one that had it is fenced.

    joins as       while the group is          then
    new            any                         rebalance
    static, back   Stable, same protocol       its new id is written; no rebalance, and a leader is told to skip the
                                               assignment (KIP-814)
    static, back   otherwise                   rebalance
    member         PreparingRebalance          waits with the others
    member         CompletingRebalance         is told the generation again, or a rebalance if it changed
    leader         Stable                      rebalance: that is how it asks for one
    member         Stable                      is told the generation again, or a rebalance if it changed
"""

from __future__ import annotations

from penstock.broker.client_text import shown
from penstock.broker.groups import rebalance
from penstock.broker.groups.group import NEW_MEMBER_TIMEOUT_MS, ClassicGroup, State
from penstock.broker.groups.member import Member, names_of, protocols_of
from penstock.broker.groups.outcome import Client, Now, Outcome, Ticket
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.wire.api.sync_group import SyncGroupResponse

MEMBER_ID_REQUIRED_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9


def join(
    group: ClassicGroup,
    request: JoinGroupRequest,
    client: Client,
    new_member_id: str,
    ticket: Ticket,
    now: Now,
    out: Outcome,
) -> None:
    """`new_member_id` is for a member that has none yet."""
    try:
        _check_room(group, request.member_id)
        if group.state is State.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not group.supports(request.protocol_type, names_of(protocols_of(request))):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if not request.member_id:
            _join_new(group, request, client, new_member_id, ticket, now, out)
        elif request.member_id in group.pending_members:
            _add(group, request, client, request.member_id, ticket, now, out)
        else:
            member = group.check_member(request.member_id, request.group_instance_id)
            _rejoin(group, member, request, client, ticket, now, out)
    except KafkaError as error:
        is_full = error.code is ErrorCode.GROUP_MAX_SIZE_REACHED
        out.answers.append((ticket, refusal(error.code, "" if is_full else request.member_id)))
        if is_full:  # nobody waits for it any more
            rebalance.maybe_complete_join(group, now, out)


def refusal(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=None, member_id=member_id)


def _check_room(group: ClassicGroup, member_id: str) -> None:
    """In a rebalance those who have joined count, so that the last to come are the ones who do not fit."""
    member = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        joined = sum(each.awaiting_join is not None for each in group.members.values())
        has_room = joined < group.limits.max_size or (member is not None and member.awaiting_join is not None)
    else:
        has_room = group.is_empty or member is not None or len(group.members) < group.limits.max_size
    if not has_room:
        group.remove(member_id)
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED)


def _join_new(
    group: ClassicGroup,
    request: JoinGroupRequest,
    client: Client,
    member_id: str,
    ticket: Ticket,
    now: Now,
    out: Outcome,
) -> None:
    owner = group.static_members.get(request.group_instance_id) if request.group_instance_id is not None else None
    if owner is not None:
        _replace(group, group.members[owner], request, client, member_id, ticket, now, out)
    elif request.group_instance_id is None and client.version >= MEMBER_ID_REQUIRED_SINCE:
        group.pending_members[member_id] = now.after(request.session_timeout_ms)
        out.answers.append((ticket, refusal(ErrorCode.MEMBER_ID_REQUIRED, member_id)))
    else:
        _add(group, request, client, member_id, ticket, now, out)


def _add(
    group: ClassicGroup,
    request: JoinGroupRequest,
    client: Client,
    member_id: str,
    ticket: Ticket,
    now: Now,
    out: Outcome,
) -> None:
    member = Member.joining(member_id, request, client)
    member.awaiting_join = ticket
    # It cannot send heartbeats before it has its answer, and should it be gone nobody would notice.
    member.deadline_s = now.after(NEW_MEMBER_TIMEOUT_MS)
    group.is_member_added = True
    group.add(member, request.protocol_type)
    rebalance.prepare_or_complete(group, _why(f"{shown(member_id)} joins", request), now, out)


def _rejoin(
    group: ClassicGroup,
    member: Member,
    request: JoinGroupRequest,
    client: Client,
    ticket: Ticket,
    now: Now,
    out: Outcome,
) -> None:
    has_changed = member.protocols != protocols_of(request)
    asks_for_rebalance = group.state is State.STABLE and group.leader_id == member.member_id
    if group.state is State.PREPARING_REBALANCE or has_changed or asks_for_rebalance:
        _wait(member, request, client, ticket, out)
        rebalance.prepare_or_complete(group, _why(f"{shown(member.member_id)} joins again", request), now, out)
        return
    out.answers.append((ticket, rebalance.joined_response(group, member)))


def _wait(member: Member, request: JoinGroupRequest, client: Client, ticket: Ticket, out: Outcome) -> None:
    """One answer for each member: an older request of its own, sent before a connection broke, is over."""
    if member.awaiting_join is not None:
        out.answers.append((member.awaiting_join, refusal(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)))
    member.update(request, client)
    member.awaiting_join = ticket


def _replace(
    group: ClassicGroup,
    old: Member,
    request: JoinGroupRequest,
    client: Client,
    member_id: str,
    ticket: Ticket,
    now: Now,
    out: Outcome,
) -> None:
    """A static member is back under a new id."""
    _fence(old, out)
    old_leader_id = group.leader_id
    member = group.rename(old, member_id)
    member.update(request, client)
    member.awaiting_join = ticket
    member.keep(now)
    why = _why(f"static member {shown(str(member.instance_id))} joins as {shown(member_id)}", request)
    if group.state is State.PREPARING_REBALANCE:
        rebalance.maybe_complete_join(group, now, out)
    elif group.state is State.STABLE and group.select_protocol() == group.protocol_name:
        member.join_answer = _answer_replaced(group, member, client, old_leader_id)
        assignments = {each.member_id: each.assignment for each in group.members.values()}
        out.records.append(group.record(assignments))
    else:
        rebalance.prepare(group, why, now, out)


def _fence(old: Member, out: Outcome) -> None:
    """Whoever waits under the old id is not the member any more."""
    if old.awaiting_join is not None:
        out.answers.append((old.awaiting_join, refusal(ErrorCode.FENCED_INSTANCE_ID, old.member_id)))
    if old.awaiting_sync is not None:
        out.answers.append((old.awaiting_sync, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)))


def _answer_replaced(
    group: ClassicGroup, member: Member, client: Client, old_leader_id: str | None
) -> JoinGroupResponse:
    """No assignment is to be made anew. A client that cannot be told so is told that another leads: its old self."""
    response = rebalance.joined_response(group, member)
    if client.version >= SKIP_ASSIGNMENT_SINCE:
        response.skip_assignment = group.leader_id == member.member_id
    else:
        response.leader = old_leader_id or ""
        response.members = []
    return response


def _why(what: str, request: JoinGroupRequest) -> str:
    """KIP-800: the client may say why."""
    return f"{what} ({shown(request.reason)})" if request.reason else what
