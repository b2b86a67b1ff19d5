"""The time index against a plain list, Kafka's own bytes, and damage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.index_file import CorruptIndexError
from penstock.log.time_index import NO_TIMESTAMP, TAIL_ENTRIES, TimeIndex
from penstock.testing.sim_files import SimFiles

PATH = "/d/00000000000000001442.timeindex"
BASE = 1442

# The first four entries of a time index that Apache Kafka 4.3.0 wrote for a segment with base offset 1442.
KAFKA_INDEX = bytes.fromhex(
    "0000018bcff4bfbd000000080000018bcff4c021000000120000018bcff4c0850000001c0000018bcff4c0e900000026"
)
KAFKA_ENTRIES = [(1700001005501, 1450), (1700001005601, 1460), (1700001005701, 1470), (1700001005801, 1480)]


def new_index() -> TimeIndex:
    files = SimFiles()
    files.make_dir("/d")
    return TimeIndex(files, PATH, BASE)


def filled(count: int) -> TimeIndex:
    index = new_index()
    for number in range(1, count + 1):
        assert index.maybe_append(number * 1000, BASE + number * 10)
    return index


def reopened(index: TimeIndex) -> TimeIndex:
    index.close()
    return TimeIndex(index._file._files, PATH, index.base_offset)


def test_the_bytes_are_kafkas():
    index = new_index()
    for entry in KAFKA_ENTRIES:
        index.maybe_append(*entry)
    index.close()
    files = index._file._files
    assert files.open(PATH).pread(100, 0) == KAFKA_INDEX
    again = TimeIndex(files, PATH, BASE)
    assert [again.lookup(timestamp) for timestamp, _ in KAFKA_ENTRIES] == KAFKA_ENTRIES
    again.check_sane(1481, every_entry=True)


def test_a_timestamp_that_is_not_larger_is_no_news():
    index = filled(2)
    assert not index.maybe_append(2000, BASE + 30)
    assert not index.maybe_append(1999, BASE + 40)
    assert index.last == (2000, BASE + 20)
    assert index.maybe_append(2001, BASE + 50)
    assert index.entry_count == 3


def test_an_empty_index_knows_no_timestamp():
    index = new_index()
    assert index.lookup(5) == (NO_TIMESTAMP, BASE)
    assert index.last == (NO_TIMESTAMP, BASE)
    assert not index.maybe_append(NO_TIMESTAMP, BASE + 3)
    index.check_sane(BASE, every_entry=True)


@settings(deadline=None, max_examples=60)
@given(
    gaps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), max_size=40),
    copies=st.integers(1, 30),
    probes=st.lists(st.integers(-5, 20_000), max_size=30),
    cut=st.integers(0, 20_000),
)
def test_lookups_and_truncation_agree_with_a_plain_list(gaps, copies, probes, cut):
    index, entries = new_index(), [(NO_TIMESTAMP, BASE)]
    for time_gap, offset_gap in gaps * copies:
        entries.append((entries[-1][0] + time_gap, entries[-1][1] + offset_gap))
        index.maybe_append(*entries[-1])
    for each in (index, reopened(index)):
        check_against_list(each, entries, probes)
    index = reopened(index)
    index.truncate_to(BASE + cut)
    kept = entries[:1] + [entry for entry in entries[1:] if entry[1] < BASE + cut]
    for each in (index, reopened(index)):
        check_against_list(each, kept, probes)


def check_against_list(index, entries, probes):
    assert index.entry_count == len(entries) - 1
    assert index.last == entries[-1]
    for probe in probes:
        expected = [entry for entry in entries if entry[0] <= probe] or entries[:1]
        assert index.lookup(probe) == expected[-1]


def test_entries_in_memory_can_be_cut_off_before_they_are_written():
    index = filled(TAIL_ENTRIES + 10)
    index.truncate_to(BASE + (TAIL_ENTRIES + 5) * 10)
    assert index.last == ((TAIL_ENTRIES + 4) * 1000, BASE + (TAIL_ENTRIES + 4) * 10)
    index.truncate_to(BASE + 30)
    assert reopened(index).last == (2000, BASE + 20)
    index.reset()
    assert index.entry_count == 0


def test_one_entry_is_kept_free_for_the_roll():
    index = filled(3)
    assert not index.is_full(60)
    assert index.is_full(59)


def test_damage_is_found():
    index = filled(5)
    index.flush()
    files = index._file._files
    with pytest.raises(CorruptIndexError):
        reopened(index).check_sane(BASE + 50)
    files.open(PATH).truncate(240)
    with pytest.raises(CorruptIndexError):
        reopened(index).check_sane(BASE + 1000)
    files.open(PATH).truncate(61)
    with pytest.raises(CorruptIndexError):
        reopened(index).check_sane(BASE + 1000)


def test_an_entry_that_goes_back_in_the_middle_is_found_when_every_one_is_checked():
    index = filled(5)
    index.flush()
    index._file._files.open(PATH).pwrite(bytes(12), 12)
    broken = reopened(index)
    broken.check_sane(BASE + 1000)
    with pytest.raises(CorruptIndexError):
        broken.check_sane(BASE + 1000, every_entry=True)


def test_it_can_be_synced_renamed_and_deleted():
    index = filled(2)
    files = index._file._files
    index.sync()
    index.rename(PATH + ".deleted")
    assert files.list("/d") == ["00000000000000001442.timeindex.deleted"]
    assert index.lookup(1500) == (1000, BASE + 10)
    index.delete()
    assert files.list("/d") == []
    assert index.entry_count == 0
