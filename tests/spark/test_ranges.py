"""Offset ranges: splits lose nothing and overlap nowhere; limits are kept, and nobody starves."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.ranges import OffsetRange, limited, ranges_between, split
from penstock.types import TopicPartition

A, B, C = (TopicPartition("t", n) for n in range(3))

sizes = st.lists(st.integers(1, 5000), min_size=1, max_size=8)


def ranges_of(found: list[int]) -> list[OffsetRange]:
    return [OffsetRange("t", n, 100 * n, 100 * n + size) for n, size in enumerate(found)]


@given(sizes, st.integers(1, 40), st.one_of(st.none(), st.integers(1, 6000)))
def test_pieces_are_exactly_the_ranges_in_order(found, min_partitions, max_records):
    ranges = ranges_of(found)
    if max_records is not None and sum(found) // max_records > 500:
        max_records = 1000
    pieces = split(ranges, min_partitions=min_partitions, max_records=max_records)
    for whole in ranges:
        own = [piece for piece in pieces if piece.where == whole.where]
        assert own[0].start == whole.start
        assert own[-1].end == whole.end
        assert all(left.end == right.start for left, right in pairwise(own))
    assert all(0 < piece.size <= (max_records or piece.size) for piece in pieces)


@given(sizes, st.integers(1, 40))
def test_there_are_as_many_pieces_as_asked_for_where_there_are_as_many_records(found, min_partitions):
    pieces = split(ranges_of(found), min_partitions=min_partitions)
    assert len(pieces) == max(len(found), min(min_partitions, sum(found)))


def test_the_largest_is_split_first():
    pieces = split(ranges_of([1000, 10]), min_partitions=4)
    assert [(piece.partition, piece.size) for piece in pieces] == [(0, 333), (0, 333), (0, 334), (1, 10)]


def test_without_a_wish_each_partition_is_one_range():
    assert split(ranges_of([1000, 10])) == ranges_of([1000, 10])


def test_only_what_lies_between_two_known_offsets_is_read():
    found = ranges_between({A: 5, B: 7}, {A: 9, B: 7, C: 3})
    assert found == [OffsetRange("t", 0, 5, 9)]
    assert ranges_between({A: 9}, {A: 5}) == []


@given(st.lists(st.integers(0, 10_000), min_size=3, max_size=3), st.integers(1, 5000))
def test_a_limit_is_kept_but_for_one_offset_a_partition_and_nobody_starves(waiting, max_rows):
    start = dict.fromkeys((A, B, C), 100)
    end = {where: 100 + count for where, count in zip((A, B, C), waiting, strict=True)}
    taken = {where: until - 100 for where, until in limited(start, end, max_rows).items()}
    assert sum(taken.values()) <= max(max_rows, 0) + 3
    assert all(0 < taken[where] <= end[where] - 100 for where in end if end[where] > 100)
    if sum(waiting) <= max_rows:
        assert taken == {where: until - 100 for where, until in end.items()}


def test_a_limit_is_shared_out_by_what_waits():
    assert limited({A: 0, B: 0}, {A: 900, B: 100}, 100) == {A: 90, B: 10}
