"""Committed offsets by raw frames, in every version: commits from members and from outside, fetches, deletions."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

import raw
from brokers import Broker
from changes import check_created, check_seen
from members import Member, subscription, wait_until
from raw import Code

NewMember = Callable[..., Member]
NO_OFFSET = (-1, -1, "", 0)


def commit(connection: raw.Connection, group: str, topic: str, version: int = 9, **fields: Any) -> list[int]:
    """Commit one partition from outside the group; the error codes."""
    part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "note"}
    if version >= 6:
        part["committed_leader_epoch"] = 3
    part |= fields
    asked = {"partitions": [part]}
    if version >= 10:
        asked["topic_id"] = raw.topic_id(connection, topic)
    else:
        asked["name"] = topic
    answer = connection.call("OffsetCommit", version, group_id=group, topics=[asked])
    return [each.error_code for named in answer.topics for each in named.partitions]


def fetch(connection: raw.Connection, group: str, topics: dict[str, list[int]] | None, version: int = 9) -> Any:
    """(offset, epoch, metadata, error) by topic and partition; epoch -1 where the version has none."""
    if version >= 8:
        asked = None
        if topics is not None:
            asked = [_asked(connection, name, parts, version) for name, parts in topics.items()]
        answer = connection.call("OffsetFetch", version, groups=[{"group_id": group, "topics": asked}]).groups[0]
    else:
        asked = None if topics is None else [_asked(connection, name, parts, version) for name, parts in topics.items()]
        answer = connection.call("OffsetFetch", version, group_id=group, topics=asked)
    if version >= 2:
        assert answer.error_code == 0, answer
    found = {}
    for named in answer.topics:
        for part in named.partitions:
            epoch = part.committed_leader_epoch if version >= 5 else -1
            name = named.topic_id if version >= 10 else named.name
            found[name, part.partition_index] = (part.committed_offset, epoch, part.metadata, part.error_code)
    return found


def _asked(connection: raw.Connection, name: Any, partitions: list[int], version: int) -> dict[str, Any]:
    if version < 10:
        return {"name": name, "partition_indexes": partitions}
    topic_id = name if isinstance(name, uuid.UUID) else raw.topic_id(connection, name)
    return {"topic_id": topic_id, "partition_indexes": partitions}


@pytest.mark.parametrize("version", range(2, 11))
def test_what_is_committed_is_fetched(connection: raw.Connection, group: str, topic: str, version: int) -> None:
    assert commit(connection, group, topic, version) == [0]
    epoch = 3 if version >= 6 else -1
    assert fetch(connection, group, {topic: [0]}) == {(topic, 0): (5, epoch, "note", 0)}


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_fetched_in_every_version(
    connection: raw.Connection, group: str, new_topic: Callable[..., str], version: int
) -> None:
    topic = new_topic(partitions=2)
    commit(connection, group, topic)
    name: Any = raw.topic_id(connection, topic) if version >= 10 else topic
    epoch = 3 if version >= 5 else -1
    found = fetch(connection, group, {topic: [0, 1, 7]}, version)
    assert found == {(name, 0): (5, epoch, "note", 0), (name, 1): NO_OFFSET, (name, 7): NO_OFFSET}
    if version >= 2:
        assert fetch(connection, group, None, version) == {(name, 0): (5, epoch, "note", 0)}


def test_many_groups_are_fetched_at_once(connection: raw.Connection, group: str, topic: str) -> None:
    commit(connection, group, topic)
    asked = [
        {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]},
        {"group_id": "nobody", "topics": [{"name": topic, "partition_indexes": [0]}]},
        {"group_id": "nobody", "topics": None},
        {"group_id": group, "topics": [{"name": "no-such-topic", "partition_indexes": [0]}]},
    ]
    groups = connection.call("OffsetFetch", 9, groups=asked, require_stable=True).groups
    offsets = [[part.committed_offset for named in each.topics for part in named.partitions] for each in groups]
    assert offsets == [[5], [-1], [], [-1]]
    assert {each.error_code for each in groups} == {0}


def test_topic_ids_that_nobody_knows(connection: raw.Connection, group: str, topic: str) -> None:
    commit(connection, group, topic)
    unknown = uuid.uuid4()
    found = fetch(connection, group, {unknown: [0]}, 10)  # type: ignore[dict-item]
    assert found == {(unknown, 0): (-1, -1, "", Code.unknown_topic_id)}
    part = {"partition_index": 0, "committed_offset": 1, "committed_metadata": None}
    topics = [
        {"topic_id": unknown, "partitions": [part]},
        {"topic_id": raw.topic_id(connection, topic), "partitions": [part, part | {"partition_index": 9}]},
    ]
    answer = connection.call("OffsetCommit", 10, group_id=group, topics=topics)
    codes = {
        (named.topic_id, each.partition_index): each.error_code for named in answer.topics for each in named.partitions
    }
    assert codes[unknown, 0] == Code.unknown_topic_id
    assert sorted(codes.values()) == [0, Code.unknown_topic_or_partition, Code.unknown_topic_id]


def test_partitions_that_do_not_exist_are_refused_by_themselves(
    connection: raw.Connection, group: str, topic: str
) -> None:
    parts = [{"partition_index": index, "committed_offset": 4, "committed_metadata": ""} for index in (0, 9, -1)]
    topics = [{"name": topic, "partitions": parts}, {"name": "no-such-topic", "partitions": parts[:1]}]
    answer = connection.call("OffsetCommit", 9, group_id=group, topics=topics)
    codes = {
        (named.name, each.partition_index): each.error_code for named in answer.topics for each in named.partitions
    }
    missing = Code.unknown_topic_or_partition
    assert codes == {(topic, 0): 0, (topic, 9): missing, (topic, -1): missing, ("no-such-topic", 0): missing}
    assert fetch(connection, group, None) == {(topic, 0): (4, -1, "", 0)}


def test_notes_have_a_limit(connection: raw.Connection, group: str, topic: str) -> None:
    assert commit(connection, group, topic, committed_metadata="x" * 4097) == [Code.offset_metadata_too_large]
    assert commit(connection, group, topic, committed_metadata="x" * 4096) == [0]
    assert commit(connection, group, topic, committed_metadata=None) == [0]
    assert fetch(connection, group, None) == {(topic, 0): (5, 3, "", 0)}


def test_any_number_may_be_committed(connection: raw.Connection, group: str, topic: str) -> None:
    for offset in (-5, 2**63 - 1, 0):
        assert commit(connection, group, topic, committed_offset=offset) == [0]
        assert fetch(connection, group, None)[topic, 0][0] == offset


def test_the_group_without_a_name_may_keep_offsets(connection: raw.Connection, group: str, topic: str) -> None:
    assert commit(connection, "", topic, committed_offset=77) == [0]
    assert fetch(connection, "", {topic: [0]})[topic, 0][0] == 77


def test_members_commit_in_their_generation_only(member: NewMember, topic: str) -> None:
    one = member()
    one.join()
    assert one.commit({(topic, 0): 1}) == [Code.rebalance_in_progress]
    one.sync({one.id: b"all"})
    assert one.commit({(topic, 0): 1}) == [0]
    assert one.commit({(topic, 0): 2}, generation_id_or_member_epoch=9) == [Code.illegal_generation]
    assert one.commit({(topic, 0): 2}, generation_id_or_member_epoch=-1) == [Code.illegal_generation]
    assert one.commit({(topic, 0): 2}, member_id="stranger") == [Code.unknown_member_id]
    assert one.commit({(topic, 0): 2}, group_instance_id="nobody") == [Code.unknown_member_id]
    outside = {"member_id": "", "generation_id_or_member_epoch": -1}
    assert one.commit({(topic, 0): 2}, **outside) == [Code.unknown_member_id], "the group has members"
    assert fetch(one, one.group, None) == {(topic, 0): (1, -1, "", 0)}
    one.leave()
    assert one.commit({(topic, 0): 2}, **outside) == [0]


def test_a_member_commits_while_others_join(member: NewMember, topic: str) -> None:
    one, two = member(), member()
    one.join()
    one.sync({one.id: b"all"})
    two.begin_join()
    two.end_join()
    two.begin_join()
    wait_until(lambda: one.heartbeat() == Code.rebalance_in_progress)
    assert one.commit({(topic, 0): 8}) == [0]


def test_a_group_that_does_not_exist_takes_no_generation(member: NewMember, topic: str) -> None:
    one = member()
    one.generation, one.id = 3, "stranger"
    assert one.commit({(topic, 0): 1}, version=9) == [Code.group_id_not_found]
    assert one.commit({(topic, 0): 1}, version=8) == [Code.illegal_generation]


def delete(connection: raw.Connection, group: str, topics: dict[str, list[int]]) -> Any:
    asked = [
        {"name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in topics.items()
    ]
    answer = connection.call("OffsetDelete", 0, group_id=group, topics=asked)
    codes = {
        (named.name, each.partition_index): each.error_code for named in answer.topics for each in named.partitions
    }
    return answer.error_code, codes


def test_offsets_are_deleted_unless_someone_reads_the_topic(
    member: NewMember, connection: raw.Connection, new_topic: Callable[..., str]
) -> None:
    read, unread = new_topic(), new_topic()
    one = member(protocols=[{"name": "range", "metadata": subscription(read)}])
    one.join()
    one.sync({one.id: b"all"})
    assert one.commit({(read, 0): 1, (unread, 0): 2}) == [0, 0]
    code, codes = delete(connection, one.group, {read: [0], unread: [0, 7], "no-such-topic": [0]})
    missing = Code.unknown_topic_or_partition
    assert code == 0
    assert codes == {
        (read, 0): Code.group_subscribed_to_topic,
        (unread, 0): 0,
        (unread, 7): missing,
        ("no-such-topic", 0): missing,
    }
    assert fetch(connection, one.group, None) == {(read, 0): (1, -1, "", 0)}
    one.leave()
    assert delete(connection, one.group, {read: [0]}) == (0, {(read, 0): 0})
    assert fetch(connection, one.group, None) == {}


def test_offsets_of_other_groups_than_consumers_are_deleted_when_they_are_empty(
    member: NewMember, connection: raw.Connection, topic: str
) -> None:
    one = member(protocol_type="connect")
    one.join()
    one.sync({one.id: b"all"}, protocol_type="connect")
    assert one.commit({(topic, 0): 1}) == [0]
    assert delete(connection, one.group, {topic: [0]}) == (Code.non_empty_group, {})


def test_deletions_that_make_no_sense(connection: raw.Connection, group: str, topic: str) -> None:
    assert delete(connection, "nobody", {topic: [0]}) == (Code.group_id_not_found, {})
    assert delete(connection, "nobody", {}) == (Code.group_id_not_found, {})
    assert delete(connection, "", {topic: [0]}) == (Code.invalid_group_id, {})
    commit(connection, group, topic)
    assert delete(connection, group, {}) == (0, {})


def test_a_deleted_topic_takes_its_offsets_with_it(
    broker: Broker, connection: raw.Connection, group: str, new_topic: Callable[..., str]
) -> None:
    gone, kept = new_topic(), new_topic()
    commit(connection, group, gone)
    commit(connection, group, kept)
    connection.call("DeleteTopics", 6, topics=[{"name": gone, "topic_id": raw.NO_TOPIC_ID}], timeout_ms=30_000)
    check_seen(broker, lambda: set(fetch(connection, group, None)), {(kept, 0)})
    raw.create_topic(connection, gone)
    check_created(broker, connection, gone)
    assert fetch(connection, group, {gone: [0]}) == {(gone, 0): NO_OFFSET}
