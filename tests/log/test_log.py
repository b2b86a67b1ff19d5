"""Append, read and reopen: what a log promises while nothing goes wrong."""

from __future__ import annotations

import pytest

from log.batches import batch
from log.worlds import World, offsets_and_values
from penstock.errors import ErrorCode, KafkaError
from penstock.log.config import LogConfig


@pytest.fixture
def world() -> World:
    return World()


def test_an_append_gets_the_next_offsets_and_is_read_back(world: World) -> None:
    log = world.open()
    first = log.append_as_leader(batch([b"a", b"b"]), 0)
    second = log.append_as_leader(batch([b"c"]), 0)
    assert (first.base_offset, first.last_offset, first.is_duplicate) == (0, 1, False)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert offsets_and_values(log, 0) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert offsets_and_values(log, 1) == [(0, b"a"), (1, b"b"), (2, b"c")], "whole batches: the first holds offset 1"
    assert offsets_and_values(log, 2) == [(2, b"c")]


def test_a_clean_reopen_shows_the_same_log(world: World) -> None:
    log = world.open(LogConfig(segment_bytes=300, index_interval_bytes=0))
    for number in range(20):
        log.append_as_leader(batch([b"%d" % number]), 3)
    log.close()
    again = world.open()
    assert [value for _, value in offsets_and_values(again, 0)] == [b"%d" % number for number in range(20)]
    assert again.log_end_offset == 20
    assert again.epoch_end_offset(3) == (3, 20)
    assert again.append_as_leader(batch([b"next"]), 3).base_offset == 20


def test_reads_outside_the_log_are_out_of_range_and_none_at_its_end(world: World) -> None:
    log = world.open()
    log.append_as_leader(batch([b"a"]), 0)
    assert log.read(1, 1000, 1) is None
    assert log.read(0, 1000, 0) is None
    for offset in (-1, 2):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, 1000, 1)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
