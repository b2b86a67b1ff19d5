"""Leader epochs: Kafka's rules for the list, and for what a follower is told."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.epochs import LeaderEpochs
from penstock.testing.sim_files import SimFiles

PATH = "/d/leader-epoch-checkpoint"


def new_epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    files = SimFiles()
    files.make_dir("/d")
    files.sync_dir("/")
    epochs = LeaderEpochs(files, "/d")
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
    return epochs


def files_of(epochs: LeaderEpochs) -> SimFiles:
    return epochs._checkpoint._checkpoint._files


def test_an_empty_list_knows_nothing():
    epochs = new_epochs()
    assert epochs.latest_epoch == -1
    assert epochs.end_offset_for(0, 100) == (-1, -1)
    assert epochs.end_offset_for(-1, 100) == (-1, -1)
    assert epochs.epoch_for_offset(5) is None
    epochs.truncate_from_end(5)
    epochs.truncate_from_start(5)
    epochs.clear()
    assert not files_of(epochs).exists(PATH)


def test_the_same_epoch_again_is_no_change_and_no_write():
    epochs = new_epochs((2, 10))
    writes = files_of(epochs).counts["sync"]
    epochs.assign(2, 10)
    epochs.assign(2, 50)
    assert epochs.entries == ((2, 10),)
    assert files_of(epochs).counts["sync"] == writes


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ((5, 60), ((1, 0), (2, 20), (4, 40), (5, 60))),
        ((5, 40), ((1, 0), (2, 20), (5, 40))),
        ((5, 30), ((1, 0), (2, 20), (5, 30))),
        ((5, 0), ((5, 0),)),
        ((4, 30), ((1, 0), (2, 20), (4, 30))),
        ((3, 60), ((1, 0), (2, 20), (3, 60))),
        ((2, 60), ((1, 0), (2, 60))),
        ((0, 60), ((0, 60),)),
    ],
)
def test_a_new_entry_removes_those_that_contradict_it(new, expected):
    epochs = new_epochs((1, 0), (2, 20), (4, 40))
    epochs.assign(*new)
    assert epochs.entries == expected


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(1, (1, 20)), (2, (2, 40)), (3, (2, 40)), (4, (4, 100)), (5, (-1, -1)), (0, (0, 7)), (-1, (-1, -1))],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(asked, answer):
    assert new_epochs((1, 7), (2, 20), (4, 40)).end_offset_for(asked, 100) == answer


def test_the_epoch_of_an_offset():
    epochs = new_epochs((1, 7), (2, 20), (4, 40))
    offsets = (6, 7, 19, 20, 39, 40, 1000)
    assert [epochs.epoch_for_offset(offset) for offset in offsets] == [None, 1, 1, 2, 2, 4, 4]


def test_truncation_from_the_end():
    epochs = new_epochs((1, 7), (2, 20), (4, 40))
    epochs.truncate_from_end(41)
    assert len(epochs.entries) == 3
    epochs.truncate_from_end(40)
    assert epochs.entries == ((1, 7), (2, 20))
    assert epochs.latest_epoch == 2
    epochs.truncate_from_end(0)
    assert epochs.entries == ()


def test_truncation_from_the_start_keeps_the_epoch_that_holds_the_start():
    epochs = new_epochs((1, 7), (2, 20), (4, 40))
    epochs.truncate_from_start(5)
    assert epochs.entries == ((1, 7), (2, 20), (4, 40))
    epochs.truncate_from_start(7)
    assert epochs.entries == ((1, 7), (2, 20), (4, 40))
    epochs.truncate_from_start(25)
    assert epochs.entries == ((2, 25), (4, 40))
    epochs.truncate_from_start(90)
    assert epochs.entries == ((4, 90),)


def test_the_list_survives_a_crash_as_soon_as_it_was_assigned():
    for seed in range(50):
        epochs = new_epochs((1, 7), (2, 20))
        files_of(epochs).crash(random.Random(seed))
        again = LeaderEpochs(files_of(epochs), "/d")
        assert again.load()
        assert again.entries == ((1, 7), (2, 20))
        assert again.latest_epoch == 2


def test_a_damaged_file_is_replaced_from_a_scan():
    epochs = new_epochs((1, 7), (2, 20))
    files_of(epochs).flip_bit(PATH, 34)
    again = LeaderEpochs(files_of(epochs), "/d")
    assert not again.load()
    assert again.entries == ()
    again.replace([(1, 7), (2, 20)])
    assert again.load()
    assert again.entries == ((1, 7), (2, 20))


def test_a_failed_write_changes_nothing():
    epochs = new_epochs((1, 7))
    files_of(epochs).fail_when(lambda operation, path: operation == "sync", OSError(5, "broken"))
    with pytest.raises(OSError):
        epochs.assign(2, 20)
    assert epochs.entries == ((1, 7),)
    assert epochs.latest_epoch == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40)), max_size=12), st.integers(0, 9))
def test_whatever_is_assigned_the_list_grows_strictly_and_ends_meet_starts(assigned, asked):
    epochs = new_epochs(*assigned)
    entries = epochs.entries
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
    epoch, end_offset = epochs.end_offset_for(asked, 1000)
    if epoch >= 0:
        assert epoch <= asked
        assert end_offset == min([start for each, start in entries if each > asked], default=1000)
