"""Looking at groups and deleting them, by raw frames, in every version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import raw
from members import Member, subscription
from raw import Code

NewMember = Callable[..., Member]
GROUP_OPERATIONS = {3, 6, 8, 10, 11}
"""Read, delete, describe, describe and alter settings."""


@pytest.fixture
def stable(member: NewMember) -> Member:
    """The only member of a stable group."""
    one = member()
    one.join()
    one.sync({one.id: b"all"})
    return one


def describe(connection: raw.Connection, group: str, version: int = 6, **fields: Any) -> Any:
    (described,) = connection.call("DescribeGroups", version, groups=[group], **fields).groups
    return described


@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_is_described(connection: raw.Connection, stable: Member, version: int) -> None:
    described = describe(connection, stable.group, version)
    told = (described.error_code, described.group_state, described.protocol_type, described.protocol_data)
    assert told == (0, "Stable", "consumer", "range")
    (one,) = described.members
    assert (one.member_id, one.client_id, one.client_host) == (stable.id, "penstock-tests", "/127.0.0.1")
    assert (one.member_metadata, one.member_assignment) == (subscription("t"), b"all")


def test_authorized_operations_are_told_when_asked_for(connection: raw.Connection, stable: Member) -> None:
    asked = describe(connection, stable.group, 5, include_authorized_operations=True)
    assert asked.authorized_operations == GROUP_OPERATIONS
    assert describe(connection, stable.group, 5).authorized_operations is None


def test_a_group_is_described_in_every_state(connection: raw.Connection, member: NewMember) -> None:
    one = member("instance-1")
    one.join()
    completing = describe(connection, one.group)
    assert (completing.group_state, completing.protocol_data) == ("CompletingRebalance", "")
    assert [(each.group_instance_id, each.member_metadata) for each in completing.members] == [("instance-1", b"")]
    one.sync({one.id: b"all"})
    two = member()
    two.begin_join()
    two.end_join()
    two.begin_join()
    preparing = describe(connection, one.group)
    while preparing.group_state == "Stable":
        preparing = describe(connection, one.group)
    assert (preparing.group_state, len(preparing.members)) == ("PreparingRebalance", 2)
    one.begin_join()
    one.end_join()
    two.end_join()
    one.leave()
    two.leave()
    empty = describe(connection, one.group)
    assert (empty.group_state, empty.protocol_type, empty.members) == ("Empty", "consumer", [])


def test_a_group_that_does_not_exist_is_dead(connection: raw.Connection, group: str) -> None:
    old = describe(connection, group, 5)
    assert (old.error_code, old.group_state, old.members) == (0, "Dead", [])
    new = describe(connection, group, 6)
    assert (new.error_code, new.group_state) == (Code.group_id_not_found, "Dead")
    assert new.error_message == f"Group {group} not found."


def listed(connection: raw.Connection, group: str, version: int = 5, **fields: Any) -> list[Any]:
    answer = connection.call("ListGroups", version, **fields)
    assert answer.error_code == 0
    return [each for each in answer.groups if each.group_id == group]


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(connection: raw.Connection, stable: Member, version: int) -> None:
    (one,) = listed(connection, stable.group, version)
    assert one.protocol_type == "consumer"
    if version >= 4:
        assert one.group_state == "Stable"
    if version >= 5:
        assert one.group_type == "classic"


@pytest.mark.parametrize(
    ("states", "types", "is_listed"),
    [
        (["Stable"], [], True),
        (["stable", "Empty"], ["Classic"], True),
        (["Empty"], [], False),
        (["Bogus"], [], False),
        ([], ["consumer"], False),
        ([], ["bogus"], False),
    ],
)
def test_groups_are_listed_by_state_and_type(
    connection: raw.Connection, stable: Member, states: list[str], types: list[str], is_listed: bool
) -> None:
    found = listed(connection, stable.group, states_filter=states, types_filter=types)
    assert bool(found) == is_listed


@pytest.mark.parametrize("version", range(3))
def test_a_group_is_deleted_when_it_has_no_members(
    connection: raw.Connection, stable: Member, topic: str, version: int
) -> None:
    def delete(*groups: str) -> dict[str, int]:
        answer = connection.call("DeleteGroups", version, groups_names=list(groups))
        return {each.group_id: each.error_code for each in answer.results}

    stable.commit({(topic, 0): 5})
    unknown = {"nobody": Code.group_id_not_found}
    assert delete(stable.group, "nobody", stable.group) == {stable.group: Code.non_empty_group} | unknown
    stable.leave()
    assert delete(stable.group) == {stable.group: 0}
    assert listed(connection, stable.group) == []
    (offsets,) = connection.call("OffsetFetch", 9, groups=[{"group_id": stable.group, "topics": None}]).groups
    assert offsets.topics == []
    assert delete(stable.group) == {stable.group: Code.group_id_not_found}
    assert delete() == {}


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_found_in_every_version(connection: raw.Connection, group: str, version: int) -> None:
    (broker,) = connection.call("Metadata", 12, topics=[]).brokers
    if version >= 4:
        (found,) = connection.call("FindCoordinator", version, key_type=0, coordinator_keys=[group]).coordinators
        assert found.key == group
    elif version >= 1:
        found = connection.call("FindCoordinator", version, key=group, key_type=0)
    else:
        found = connection.call("FindCoordinator", version, key=group)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, broker.node_id, broker.host, broker.port)


def test_a_type_of_coordinator_that_does_not_exist(connection: raw.Connection, group: str) -> None:
    (found,) = connection.call("FindCoordinator", 4, key_type=9, coordinator_keys=[group]).coordinators
    assert (found.error_code, found.node_id) == (Code.invalid_request, -1)


def test_offsets_are_kept_in_a_topic_like_kafkas(connection: raw.Connection, group: str) -> None:
    described = connection.call("Metadata", 12, topics=[{"name": "__consumer_offsets", "topic_id": raw.NO_TOPIC_ID}])
    (topic,) = described.topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 50)
    asked = [{"resource_type": 2, "resource_name": "__consumer_offsets", "configuration_keys": None}]
    (result,) = connection.call("DescribeConfigs", 4, resources=asked).results
    configs = {each.name: each.value for each in result.configs}
    wanted = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
    assert {name: configs[name] for name in wanted} == wanted
