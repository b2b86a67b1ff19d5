"""What may be committed: done, not handed; and nothing of a partition that went away."""

from __future__ import annotations

from penstock.client.facade.progress import Progress
from penstock.types import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_position_is_the_offset_after_the_last_message():
    progress = Progress()
    progress.hand(A, 4)
    progress.hand(A, 5)
    progress.hand(B, 0)
    progress.finish()
    assert progress.take_unsaved() == {A: 6, B: 1}


def test_what_is_handed_is_not_done_before_the_caller_comes_back():
    progress = Progress()
    progress.hand(A, 4)
    assert progress.done == {}
    assert progress.handed == {A: 5}
    progress.finish()
    assert progress.done == {A: 5}


def test_what_is_done_is_to_be_committed_once():
    progress = Progress()
    progress.hand(A, 4)
    progress.finish()
    progress.hand(B, 0)
    progress.finish()
    assert progress.take_unsaved() == {A: 5, B: 1}
    assert progress.take_unsaved() == {}
    assert progress.done == {A: 5, B: 1}


def test_abandoned_work_is_never_done():
    progress = Progress()
    progress.hand(A, 4)
    progress.finish()
    progress.hand(A, 5)
    progress.abandon()
    progress.finish()
    assert progress.take_unsaved() == {A: 5}
    assert progress.handed == {A: 5}


def test_a_partition_that_went_away_is_forgotten():
    progress = Progress()
    progress.hand(A, 4)
    progress.hand(B, 7)
    progress.finish()
    progress.hand(A, 5)
    progress.drop([A])
    assert progress.handed == {B: 8}
    assert progress.take_unsaved() == {B: 8}
