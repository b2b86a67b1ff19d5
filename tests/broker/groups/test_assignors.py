"""The assignors: everything is given once, evenly, and what can stay stays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.groups.assignors import ASSIGNORS, Assignment, range_, uniform

TOPICS = tuple(bytes([number]) * 16 for number in range(1, 5))
members = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)
subscriptions = st.dictionaries(st.sampled_from("abcdefgh"), st.frozensets(st.sampled_from(TOPICS)), min_size=1)


def sizes(assignment: Assignment) -> list[int]:
    return [len(parts) for parts in assignment.values()]


@given(subscriptions, counts, st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_that_someone_reads_has_one_owner_who_reads_it(
    read: dict[str, frozenset[bytes]], counts: dict[bytes, int], name: str
) -> None:
    assignment = ASSIGNORS[name](read, counts, {})
    given_out = [part for parts in assignment.values() for part in parts]
    topics = frozenset[bytes]().union(*read.values()) & counts.keys()
    assert sorted(given_out) == [(topic, index) for topic in sorted(topics) for index in range(counts[topic])]
    assert all(topic in read[member] for member, parts in assignment.items() for topic, _ in parts)
    assert assignment.keys() == read.keys()


@given(members, counts)
def test_uniform_is_even_within_one(names: list[str], counts: dict[bytes, int]) -> None:
    assignment = uniform(dict.fromkeys(names, frozenset(TOPICS)), counts, {})
    assert max(sizes(assignment)) - min(sizes(assignment)) <= 1


@given(members, members, counts)
def test_uniform_moves_no_more_than_it_must(before: list[str], after: list[str], counts: dict[bytes, int]) -> None:
    """A member that stays loses nothing but what is above its share."""
    topics = frozenset(TOPICS)
    old = uniform(dict.fromkeys(before, topics), counts, {})
    new = uniform(dict.fromkeys(after, topics), counts, old)
    most = max(sizes(new))
    for member in set(before) & set(after):
        lost = len(old[member] - new[member])
        assert lost <= max(0, len(old[member]) - (most - 1))
        assert lost == 0 or len(new[member] - old[member]) == 0
    assert max(sizes(new)) - min(sizes(new)) <= 1


@given(subscriptions, counts)
def test_uniform_stays_as_it_is_when_nothing_changes(
    read: dict[str, frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    once = uniform(read, counts, {})
    assert uniform(read, counts, once) == once


@given(subscriptions, counts)
def test_uniform_is_as_even_as_subscriptions_allow(read: dict[str, frozenset[bytes]], counts: dict[bytes, int]) -> None:
    """No single partition could go from one member to another and make the two more alike."""
    assignment = uniform(read, counts, {})
    for owner, parts in assignment.items():
        for topic, _ in parts:
            least = min(len(assignment[member]) for member in read if topic in read[member])
            assert len(assignment[owner]) <= least + 1, owner


def test_uniform_forgets_what_is_no_longer_there() -> None:
    topic = TOPICS[0]
    had = {"a": frozenset([(topic, 0), (topic, 9), (TOPICS[1], 0)])}
    assert uniform({"a": frozenset([topic])}, {topic: 2}, had) == {"a": {(topic, 0), (topic, 1)}}


def test_range_gives_the_same_numbers_of_topics_with_as_many_partitions() -> None:
    one, two = TOPICS[:2]
    read = dict.fromkeys("ab", frozenset([one, two]))
    assignment = range_(read, {one: 3, two: 3}, {})
    assert assignment["a"] == {(one, 0), (one, 1), (two, 0), (two, 1)}
    assert assignment["b"] == {(one, 2), (two, 2)}


def test_more_members_than_partitions_leaves_some_without() -> None:
    assignment = uniform(dict.fromkeys("abc", frozenset(TOPICS[:1])), {TOPICS[0]: 2}, {})
    assert sorted(sizes(assignment)) == [0, 1, 1]
