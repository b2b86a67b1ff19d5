"""The offset index against a plain list, Kafka's own bytes, and damage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.env.files import SystemFiles
from penstock.log.index_file import CorruptIndexError
from penstock.log.offset_index import CACHED_PAGES, TAIL_ENTRIES, OffsetIndex
from penstock.testing.sim_files import SimFiles

PATH = "/d/00000000000000001000.index"
BASE = 1000

# The first six entries of an index that Apache Kafka 4.3.0 wrote for a segment with base offset 0.
KAFKA_INDEX = bytes.fromhex(
    "0000000a00001bf20000001400003898000000270000550200000028000070f40000003400008d5e0000003e0000a98a"
)
KAFKA_ENTRIES = [(10, 7154), (20, 14488), (39, 21762), (40, 28916), (52, 36190), (62, 43402)]


def new_index() -> OffsetIndex:
    files = SimFiles()
    files.make_dir("/d")
    return OffsetIndex(files, PATH, BASE)


def filled(count: int, *, step: int = 10, size: int = 100) -> OffsetIndex:
    index = new_index()
    for number in range(1, count + 1):
        index.append(BASE + number * step, number * size)
    return index


def reopened(index: OffsetIndex) -> OffsetIndex:
    index.close()
    return OffsetIndex(index._file._files, index.path, index.base_offset)


def bytes_of(index: OffsetIndex) -> bytes:
    files = index._file._files
    return files.open(index.path).pread(files.size(index.path), 0)


def test_an_empty_index_says_to_start_at_the_beginning():
    index = new_index()
    assert index.lookup(BASE + 5) == (BASE, 0)
    assert index.boundary_at_or_before(999) == (BASE, 0)
    assert index.last == (BASE, 0)
    assert index.entry_count == 0
    index.check_sane(BASE, 0, every_entry=True)


def test_the_bytes_are_kafkas():
    files = SimFiles()
    index = OffsetIndex(files, "x.index", 0)
    for entry in KAFKA_ENTRIES:
        index.append(*entry)
    index.close()
    assert bytes_of(index) == KAFKA_INDEX
    again = OffsetIndex(files, "x.index", 0)
    assert [again.lookup(offset) for offset, _ in KAFKA_ENTRIES] == KAFKA_ENTRIES
    again.check_sane(63, 44000, every_entry=True)


@settings(deadline=None, max_examples=60)
@given(
    gaps=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=40),
    copies=st.integers(1, 60),
    flushes=st.integers(1, 400),
    probes=st.lists(st.integers(-5, 200_000), max_size=30),
)
def test_lookups_agree_with_a_plain_list(gaps, copies, flushes, probes):
    index, entries = new_index(), [(BASE, 0)]
    for number, (offset_gap, position_gap) in enumerate(gaps * copies):
        entries.append((entries[-1][0] + offset_gap, entries[-1][1] + position_gap))
        index.append(*entries[-1])
        if number % flushes == 0:
            index.flush()
    for each in (index, reopened(index)):
        assert each.entry_count == len(entries) - 1
        assert each.last == entries[-1]
        for probe in probes:
            expected = [entry for entry in entries if entry[0] <= BASE + probe] or entries[:1]
            assert each.lookup(BASE + probe) == expected[-1]
            expected = [entry for entry in entries if entry[1] <= probe] or entries[:1]
            assert each.boundary_at_or_before(probe) == expected[-1]


def test_many_pages_are_searched_with_a_bounded_cache():
    index = reopened(filled(20 * TAIL_ENTRIES + 7))
    for number in range(1, index.entry_count + 1, 501):
        assert index.lookup(BASE + number * 10 + 3) == (BASE + number * 10, number * 100)
        assert index.boundary_at_or_before(number * 100 + 99) == (BASE + number * 10, number * 100)
    assert len(index._pages) <= CACHED_PAGES


def test_entries_flushed_after_a_page_was_cached_are_found():
    index = filled(10)
    index.flush()
    assert index.lookup(BASE + 100) == (BASE + 100, 1000)
    index.append(BASE + 110, 1100)
    index.flush()
    assert index.lookup(BASE + 115) == (BASE + 110, 1100)


@pytest.mark.parametrize("count", [5, TAIL_ENTRIES - 1, TAIL_ENTRIES, 3 * TAIL_ENTRIES + 5])
@pytest.mark.parametrize("kept", [0, 1, 3, 5])
def test_truncation_forgets_the_entries_at_and_after_the_offset(count, kept):
    index = filled(count)
    index.truncate_to(BASE + (kept + 1) * 10)
    assert index.entry_count == min(kept, count)
    assert index.last == (BASE + kept * 10, kept * 100)
    index.append(BASE + 77777, 777777)
    assert reopened(index).lookup(BASE + 99999) == (BASE + 77777, 777777)


def test_entries_written_after_a_truncation_replace_those_that_searches_remembered():
    index = filled(3 * TAIL_ENTRIES)
    for number in range(1, 3 * TAIL_ENTRIES, 100):
        index.lookup(BASE + number * 10)
    index.truncate_to(BASE + 100)
    entries = [(BASE + 100 + number, 5000 + number) for number in range(3 * TAIL_ENTRIES)]
    for entry in entries:
        index.append(*entry)
    index.flush()
    assert [index.lookup(offset) for offset, _ in entries] == entries


def test_reset_leaves_an_empty_index_that_can_be_filled_again():
    index = filled(TAIL_ENTRIES + 3)
    index.reset()
    assert index.entry_count == 0
    assert index.lookup(BASE + 500) == (BASE, 0)
    index.append(BASE + 1, 1)
    index.close()
    assert len(bytes_of(index)) == 8


def test_it_is_full_when_no_entry_more_fits():
    index = filled(3)
    assert not index.is_full(32)
    assert index.is_full(31)
    assert index.is_full(24)


def test_entries_that_go_back_are_our_own_mistake():
    index = filled(3)
    with pytest.raises(AssertionError):
        index.append(BASE + 30, 400)
    with pytest.raises(AssertionError):
        index.append(BASE + 40, 300)


def test_a_size_that_is_no_multiple_of_eight_is_corrupt():
    index = filled(3)
    index.flush()
    index._file._files.open(PATH).truncate(23)
    with pytest.raises(CorruptIndexError):
        reopened(index).check_sane(BASE + 100, 1000)


def test_entries_beyond_the_log_are_corrupt():
    index = reopened(filled(3))
    index.check_sane(BASE + 31, 301, every_entry=True)
    with pytest.raises(CorruptIndexError):
        index.check_sane(BASE + 30, 1000)
    with pytest.raises(CorruptIndexError):
        index.check_sane(BASE + 100, 300)


def test_zeros_at_the_end_as_kafka_leaves_after_a_crash_are_corrupt():
    index = filled(3)
    index.flush()
    index._file._files.open(PATH).truncate(800)
    with pytest.raises(CorruptIndexError):
        reopened(index).check_sane(BASE + 100, 1000)


def test_an_entry_that_goes_back_in_the_middle_is_found_when_every_one_is_checked():
    index = filled(2 * TAIL_ENTRIES)
    index.flush()
    files = index._file._files
    files.open(PATH).pwrite(bytes(8), TAIL_ENTRIES * 8)
    broken = reopened(index)
    broken.check_sane(BASE + 100_000, 1_000_000)
    with pytest.raises(CorruptIndexError):
        broken.check_sane(BASE + 100_000, 1_000_000, every_entry=True)


def test_any_damaged_byte_still_gives_an_answer_or_is_called_corrupt():
    for bit in range(8 * 8 * 5):
        index = filled(5)
        index.flush()
        index._file._files.flip_bit(PATH, bit)
        broken = reopened(index)
        try:
            broken.check_sane(BASE + 100, 1000, every_entry=True)
        except CorruptIndexError:
            broken.reset()
        broken.lookup(BASE + 30)


def test_a_short_write_is_completed_and_a_failed_one_can_be_repeated():
    index = filled(5)
    files = index._file._files
    files.shorten_at(files.call_count + 2, 11)
    index.flush()
    assert len(bytes_of(index)) == 40
    index.append(BASE + 60, 600)
    files.fail_at(files.call_count + 1, OSError(5, "broken"))
    with pytest.raises(OSError):
        index.flush()
    assert index.lookup(BASE + 60) == (BASE + 60, 600)
    index.flush()
    assert reopened(index).last == (BASE + 60, 600)


def test_synced_entries_survive_a_crash():
    index = filled(5)
    index.sync()
    index._file._files.sync_dir("/d")
    index._file._files.sync_dir("/")
    assert index._file._files.synced_bytes(PATH) == bytes_of(index)


def test_an_index_can_be_renamed_read_on_and_deleted(tmp_path):
    files = SystemFiles()
    index = OffsetIndex(files, f"{tmp_path}/a.index", 0)
    index.append(10, 100)
    index.flush()
    index.rename(f"{tmp_path}/a.index.deleted")
    assert files.list(str(tmp_path)) == ["a.index.deleted"]
    assert index.lookup(11) == (10, 100)
    index.delete()
    assert files.list(str(tmp_path)) == []
    index.delete()


def test_reading_never_makes_a_file():
    index = reopened(filled(5))
    index._file._files.unlink(PATH)
    with pytest.raises(FileNotFoundError):
        index.lookup(BASE + 20)
    assert index._file._files.list("/d") == []


def test_a_file_that_was_cut_behind_our_back_is_corrupt():
    index = reopened(filled(5))
    index._file._files.open(PATH).truncate(20)
    with pytest.raises(CorruptIndexError):
        index.lookup(BASE + 50)
