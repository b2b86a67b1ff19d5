"""How a classic group gets from one generation to the next, and what happens when someone's time is over.

    prepare         whoever waits for an assignment is sent back to join; the wait for the others begins
    complete_join   all are there, or the time is over: those who are missing are out, a generation begins
    on_committed    the leader's assignment is in the log: everyone gets theirs
    on_time         sessions, the wait for joins, and the wait for syncs end

A group's first rebalance waits `group.initial.rebalance.delay.ms` for more members, and again as long for each that
came meanwhile, up to the members' rebalance timeout. A static member that is missing stays in (KIP-345): only its
session ends it. The others wait for the rebalance, not the other way round, so a rebalance always ends: everyone in it
has a deadline.
"""

from __future__ import annotations

from penstock.broker.client_text import shown
from penstock.broker.groups.group import NEVER, ClassicGroup, State
from penstock.broker.groups.member import NO_ASSIGNMENT, Member
from penstock.broker.groups.outcome import Now, Outcome
from penstock.broker.groups.records import GroupRecord
from penstock.errors import ErrorCode
from penstock.wire.api.join_group import JoinGroupResponse
from penstock.wire.api.sync_group import SyncGroupResponse


def prepare(group: ClassicGroup, reason: str, now: Now, out: Outcome) -> None:
    """Begin a rebalance."""
    out.reasons.append(f"group {shown(group.group_id)}, generation {group.generation}: {reason}")
    if group.state is State.COMPLETING_REBALANCE:
        _send_back(group, ErrorCode.REBALANCE_IN_PROGRESS, now, out)
    group.pending_sync.clear()
    group.sync_deadline_s = NEVER
    group.is_initial = group.state is State.EMPTY
    group.transition(State.PREPARING_REBALANCE, now)
    delay_ms = group.limits.initial_rebalance_delay_ms
    if group.is_initial and delay_ms > 0:
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        group.is_member_added = False
        group.join_deadline_s = now.after(delay_ms)
    elif group.is_initial or group.have_all_joined:
        complete_join(group, now, out)
    else:
        group.join_deadline_s = now.after(group.rebalance_timeout_ms)


def prepare_or_complete(group: ClassicGroup, reason: str, now: Now, out: Outcome) -> None:
    """Someone came, changed or went: begin a rebalance, or see whether the one under way is complete."""
    if group.state is State.PREPARING_REBALANCE:
        maybe_complete_join(group, now, out)
    else:
        prepare(group, reason, now, out)


def maybe_complete_join(group: ClassicGroup, now: Now, out: Outcome) -> None:
    if group.state is State.PREPARING_REBALANCE and not group.is_initial and group.have_all_joined:
        complete_join(group, now, out)


def complete_join(group: ClassicGroup, now: Now, out: Outcome) -> None:
    """The join phase is over."""
    group.join_deadline_s = NEVER
    group.is_initial = False
    absent = [member for member in group.members.values() if member.awaiting_join is None and not member.is_static]
    for member in absent:
        group.remove(member.member_id)
    if group.members and not group.elect_joined_leader():
        # Only static members are left and none has joined: wait until one does, or their sessions end.
        group.join_deadline_s = now.after(group.rebalance_timeout_ms)
        return
    group.begin_generation(now)
    if group.state is State.EMPTY:
        out.records.append(group.record({}))
        return
    for member in group.members.values():
        if member.awaiting_join is not None:
            out.answers.append((member.awaiting_join, joined_response(group, member)))
            member.awaiting_join = None
        member.keep(now)
        member.is_new = False
    group.sync_deadline_s = now.after(group.rebalance_timeout_ms)


def joined_response(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """The generation as this member is told of it: the leader sees everyone."""
    is_leader = group.leader_id == member.member_id
    members = [each.as_joined(group.protocol_name) for each in group.members.values()] if is_leader else []
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members,
    )


def on_committed(group: ClassicGroup, record: GroupRecord, now: Now, out: Outcome) -> None:
    """A record of this group is in the log. The group may have moved on meanwhile; then it says nothing any more."""
    value = record.value
    if value is None or value.generation != group.generation:
        return
    if group.state is State.COMPLETING_REBALANCE and value.members:
        for stored in value.members:
            if stored.member_id in group.members:
                group.members[stored.member_id].assignment = stored.assignment
        group.transition(State.STABLE, now)
        for member in group.members.values():
            _answer_sync(member, assigned_response(group, member), now, out)
    elif group.state is State.STABLE:
        for member in group.members.values():
            if member.awaiting_join is not None and member.join_answer is not None:
                out.answers.append((member.awaiting_join, member.join_answer))
                member.awaiting_join = member.join_answer = None


def on_write_failed(group: ClassicGroup, record: GroupRecord, code: ErrorCode, now: Now, out: Outcome) -> None:
    """A record is not in the log. Its generation has no assignment, so the group tries again."""
    if record.value is None or record.value.generation != group.generation:
        return
    if group.state is State.COMPLETING_REBALANCE:
        _send_back(group, code, now, out)
        prepare(group, "the assignment could not be written", now, out)
    elif group.state is State.STABLE:
        for member in group.members.values():
            if member.awaiting_join is not None:
                out.answers.append((member.awaiting_join, JoinGroupResponse(error_code=code, protocol_name=None)))
                member.awaiting_join = member.join_answer = None


def assigned_response(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def _send_back(group: ClassicGroup, code: ErrorCode, now: Now, out: Outcome) -> None:
    """The generation will have no assignment: whoever waits for one learns why."""
    for member in group.members.values():
        member.assignment = NO_ASSIGNMENT
        _answer_sync(member, SyncGroupResponse(error_code=code), now, out)


def _answer_sync(member: Member, response: SyncGroupResponse, now: Now, out: Outcome) -> None:
    if member.awaiting_sync is not None:
        out.answers.append((member.awaiting_sync, response))
        member.awaiting_sync = None
        member.keep(now)


def dismiss(group: ClassicGroup, member: Member, code: ErrorCode, out: Outcome) -> None:
    """The member is out, and whatever it waits for is answered."""
    if member.awaiting_join is not None:
        answer = JoinGroupResponse(error_code=code, protocol_name=None)
        out.answers.append((member.awaiting_join, answer))
    if member.awaiting_sync is not None:
        out.answers.append((member.awaiting_sync, SyncGroupResponse(error_code=code)))
    member.awaiting_join = member.awaiting_sync = member.join_answer = None
    group.remove(member.member_id)


def send_all_back(group: ClassicGroup, out: Outcome) -> None:
    """The rebalance under way is over: whoever waits in it is told to join again."""
    code = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.members.values():
        if member.awaiting_join is not None:
            answer = JoinGroupResponse(error_code=code, protocol_name=None, member_id=member.member_id)
            out.answers.append((member.awaiting_join, answer))
        if member.awaiting_sync is not None:
            out.answers.append((member.awaiting_sync, SyncGroupResponse(error_code=code)))
        member.awaiting_join = member.awaiting_sync = member.join_answer = None


def on_time(group: ClassicGroup, now: Now, out: Outcome) -> None:
    """Whatever is due by now."""
    if group.state is State.DEAD:
        return
    for member_id, deadline_s in tuple(group.pending_members.items()):
        if deadline_s <= now.monotonic_s:
            group.remove(member_id)
            maybe_complete_join(group, now, out)
    for member in tuple(group.members.values()):
        if member.may_expire and member.deadline_s <= now.monotonic_s and member.member_id in group.members:
            dismiss(group, member, ErrorCode.UNKNOWN_MEMBER_ID, out)
            prepare_or_complete(group, f"the session of {shown(member.member_id)} ended", now, out)
    if group.join_deadline_s <= now.monotonic_s:
        _on_join_deadline(group, now, out)
    if group.sync_deadline_s <= now.monotonic_s:
        _on_sync_deadline(group, now, out)


def _on_join_deadline(group: ClassicGroup, now: Now, out: Outcome) -> None:
    if group.is_initial and group.is_member_added and group.initial_remaining_ms > 0:
        group.is_member_added = False
        delay_ms = min(group.limits.initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms -= delay_ms
        group.join_deadline_s = now.after(delay_ms)
    else:
        complete_join(group, now, out)


def _on_sync_deadline(group: ClassicGroup, now: Now, out: Outcome) -> None:
    """Members that never asked for their assignment are out, the leader too when it never gave one."""
    group.sync_deadline_s = NEVER
    late = [group.members[member_id] for member_id in group.pending_sync]
    for member in late:
        dismiss(group, member, ErrorCode.UNKNOWN_MEMBER_ID, out)
    if late:
        names = ", ".join(shown(member.member_id) for member in late)
        prepare(group, f"{names} did not ask for an assignment", now, out)
