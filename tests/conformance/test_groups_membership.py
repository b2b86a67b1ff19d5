"""Members of classic groups by raw frames, in every version: joins, syncs, heartbeats, leaves, fences, errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import raw
from members import Member, state, subscription, wait_until
from raw import Code

NewMember = Callable[..., Member]


@pytest.mark.parametrize("version", range(10))
def test_a_first_member_leads_and_gets_what_it_assigned(member: NewMember, version: int) -> None:
    one = member()
    joined = one.join(version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id == one.id
    assert [(each.member_id, each.metadata) for each in joined.members] == [(one.id, subscription("t"))]
    assert one.id.startswith("penstock-tests-")
    if version >= 7:
        assert joined.protocol_type == "consumer"
    synced = one.sync({one.id: b"mine"}, version=min(version, 5))
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert one.heartbeat(min(version, 4)) == 0
    left = one.leave(min(version, 5))
    assert left.error_code == 0
    assert one.heartbeat() == Code.unknown_member_id


def test_the_first_request_of_a_new_member_only_gets_it_an_id(member: NewMember) -> None:
    one = member()
    one.begin_join()
    first = one.end_join()
    assert (first.error_code, first.generation_id, first.protocol_name) == (Code.member_id_required, -1, None)
    assert (first.leader, first.members) == ("", [])
    one.begin_join()
    assert one.end_join().member_id == first.member_id


def test_a_second_member_makes_the_first_join_again(member: NewMember) -> None:
    one, two = member(), member()
    one.join()
    one.sync({one.id: b"all"})
    two.begin_join()
    two.end_join()
    two.begin_join()
    wait_until(lambda: one.heartbeat() == Code.rebalance_in_progress)
    assert one.sync().error_code == Code.rebalance_in_progress
    one.begin_join()
    first, second = one.end_join(), two.end_join()
    assert first.generation_id == second.generation_id == 2
    assert first.leader == second.leader == one.id
    assert sorted(each.member_id for each in first.members) == sorted([one.id, two.id])
    assert second.members == []
    two.begin_sync()
    one.begin_sync({one.id: b"0", two.id: b"1"})
    assert (one.end_sync().assignment, two.end_sync().assignment) == (b"0", b"1")
    assert two.sync().assignment == b"1", "it may ask again"


def test_a_member_that_the_leader_forgot_gets_nothing(member: NewMember) -> None:
    one, two = rebalanced(member)
    two.begin_sync()
    one.begin_sync({one.id: b"all", "stranger": b"none"})
    assert (one.end_sync().assignment, two.end_sync().assignment) == (b"all", b"")


def test_a_silent_member_is_out_after_its_session(member: NewMember) -> None:
    one = member(session_timeout_ms=6000)
    one.join()
    one.sync({one.id: b"all"})
    wait_until(lambda: state(one) == "Empty", 30)
    assert one.heartbeat() == Code.unknown_member_id
    one.begin_join()
    assert one.end_join().error_code == Code.unknown_member_id


def test_a_member_that_does_not_join_again_is_out_after_the_rebalance_timeout(member: NewMember) -> None:
    one, two = member(rebalance_timeout_ms=2000), member(rebalance_timeout_ms=2000)
    one.join()
    one.sync({one.id: b"all"})
    joined = two.join()
    assert (joined.generation_id, joined.leader) == (2, two.id)
    assert one.heartbeat() == Code.unknown_member_id


def test_the_votes_decide_which_protocol_is_used(member: NewMember) -> None:
    def protocols(*names: str) -> list[dict[str, object]]:
        return [{"name": name, "metadata": subscription("t")} for name in names]

    one = member(protocols=protocols("range", "roundrobin"))
    two = member(protocols=protocols("roundrobin", "range"))
    three = member(protocols=protocols("roundrobin", "range"))
    odd = member(protocols=protocols("sticky"))
    one.join()
    assert odd.join().error_code == Code.inconsistent_group_protocol
    for each in (two, three):
        each.begin_join()
        each.end_join()
        each.begin_join()
    wait_until(lambda: one.heartbeat() == Code.rebalance_in_progress)
    one.begin_join()
    assert {each.end_join().protocol_name for each in (one, two, three)} == {"roundrobin"}


def test_the_leader_asks_for_a_rebalance_by_joining_and_others_are_told_what_they_have(member: NewMember) -> None:
    one, two = rebalanced(member)
    two.begin_sync()
    one.sync({one.id: b"0", two.id: b"1"})
    two.end_sync()
    two.begin_join()
    again = two.end_join()
    assert (again.generation_id, again.leader, again.members) == (2, one.id, [])
    one.begin_join()
    wait_until(lambda: two.heartbeat() == Code.rebalance_in_progress)
    two.begin_join()
    assert one.end_join().generation_id == two.end_join().generation_id == 3


def test_a_static_member_comes_back_without_a_rebalance(member: NewMember, topic: str) -> None:
    one = member("instance-1")
    joined = one.join()
    assert joined.error_code == 0, "a static member needs no second request"
    assert joined.member_id.startswith("instance-1-")
    one.sync({one.id: b"all"})
    again = member("instance-1")
    back = again.join()
    assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 1, True)
    assert back.member_id == back.leader != joined.member_id
    assert [each.member_id for each in back.members] == [back.member_id]
    assert again.sync().assignment == b"all"
    assert again.heartbeat() == 0
    assert one.heartbeat() == Code.fenced_instance_id
    assert one.sync().error_code == Code.fenced_instance_id
    assert one.commit({(topic, 0): 1}) == [Code.fenced_instance_id]
    assert [each.error_code for each in one.leave().members] == [Code.fenced_instance_id]
    old = member("instance-1")
    told = old.join(version=8)
    assert (told.leader, told.members) == (back.member_id, []), "the leader that it was"


def test_a_static_member_that_waits_is_fenced_by_its_successor(member: NewMember) -> None:
    one, two = rebalanced(member, "instance-1")
    two.begin_sync()
    successor = member("instance-1")
    successor.begin_join()
    assert two.end_sync().error_code == Code.fenced_instance_id
    wait_until(lambda: one.heartbeat() == Code.rebalance_in_progress)
    one.begin_join()
    assert one.end_join().generation_id == successor.end_join().generation_id == 3


def test_members_are_removed_by_their_names(member: NewMember, connection: raw.Connection) -> None:
    one = member("instance-1")
    one.join()
    one.sync({one.id: b"all"})
    leaving = [
        {"member_id": "", "group_instance_id": "instance-1", "reason": "replaced"},
        {"member_id": "", "group_instance_id": "nobody"},
        {"member_id": "stranger", "group_instance_id": None},
    ]
    left = connection.call("LeaveGroup", 5, group_id=one.group, members=leaving)
    assert left.error_code == 0
    codes = [(each.group_instance_id, each.error_code) for each in left.members]
    assert codes == [("instance-1", 0), ("nobody", Code.unknown_member_id), (None, Code.unknown_member_id)]
    assert state(one) == "Empty"


def test_generations_are_fenced(member: NewMember) -> None:
    one = member()
    one.join()
    assert one.sync({one.id: b"all"}, generation_id=7).error_code == Code.illegal_generation
    assert one.heartbeat(generation_id=0) == Code.illegal_generation
    assert one.heartbeat(member_id="stranger") == Code.unknown_member_id
    assert one.heartbeat(group_instance_id="nobody") == Code.unknown_member_id
    assert one.sync({}, protocol_name="sticky").error_code == Code.inconsistent_group_protocol
    assert one.sync({}, protocol_name=None).error_code == Code.inconsistent_group_protocol


def test_a_group_that_does_not_exist_knows_no_member(member: NewMember) -> None:
    one = member()
    one.id = "stranger"
    one.begin_join()
    assert one.end_join().error_code == Code.unknown_member_id
    assert one.heartbeat() == Code.unknown_member_id
    assert one.sync().error_code == Code.unknown_member_id
    left = one.leave()
    assert (left.error_code, [each.error_code for each in left.members]) == (0, [Code.unknown_member_id])
    assert one.leave(version=1).error_code == Code.unknown_member_id


def test_what_cannot_be_a_member_is_refused(member: NewMember) -> None:
    one = member()
    for fields, code in [
        ({"group_id": ""}, Code.invalid_group_id),
        ({"session_timeout_ms": 5999}, Code.invalid_session_timeout),
        ({"session_timeout_ms": 1_800_001}, Code.invalid_session_timeout),
        ({"protocols": []}, Code.inconsistent_group_protocol),
        ({"protocol_type": ""}, Code.inconsistent_group_protocol),
    ]:
        one.begin_join(**fields)
        assert one.end_join().error_code == code, fields
    assert one.heartbeat(group_id="") == Code.invalid_group_id
    assert one.sync(group_id="").error_code == Code.invalid_group_id
    assert one.leave(group_id="").error_code == Code.invalid_group_id


def test_a_member_that_never_used_its_id_is_forgotten(member: NewMember) -> None:
    one, ghost = member(), member(session_timeout_ms=6000)
    one.join()
    one.sync({one.id: b"all"})
    ghost.begin_join()
    ghost.end_join()
    one.begin_join()
    assert one.end_join().generation_id == 2, "the wait for the ghost ends with its session"


def rebalanced(member: NewMember, instance: str | None = None) -> tuple[Member, Member]:
    """Two members of generation 2, the first leads; neither has an assignment."""
    one, two = member(), member(instance)
    one.join()
    one.sync({one.id: b"all"})
    two.begin_join()
    if instance is None:
        two.end_join()
        two.begin_join()
    wait_until(lambda: one.heartbeat() == Code.rebalance_in_progress)
    one.begin_join()
    one.end_join()
    two.end_join()
    return one, two
