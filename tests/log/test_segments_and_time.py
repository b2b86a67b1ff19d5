"""Rolling, retention, deletion, and finding records by time."""

from __future__ import annotations

import pytest

from log.batches import NOW_MS, batch
from log.worlds import DIRECTORY, World, offsets_and_values
from penstock.errors import ErrorCode, KafkaError
from penstock.log.config import LogConfig
from penstock.log.log import Log

DAY_MS = 86_400_000


def test_a_segment_rolls_by_size_and_is_never_larger() -> None:
    world = World()
    log = world.open(LogConfig(segment_bytes=300))
    for _ in range(10):
        log.append_as_leader(batch([b"x" * 50]), 0)
    assert len(log.segments) == 5
    assert all(segment.size <= 300 for segment in log.segments)


def test_a_segment_rolls_by_the_time_of_its_records() -> None:
    log = World().open(LogConfig(segment_ms=1000, message_timestamp_after_max_ms=DAY_MS))
    for timestamp in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        log.append_as_leader(batch(timestamp=timestamp), 0)
    assert list(log.segments.base_offsets) == [0, 2]


def test_a_segment_rolls_when_its_index_is_full() -> None:
    log = World().open(LogConfig(segment_index_bytes=64, index_interval_bytes=0))
    for _ in range(20):
        log.append_as_leader(batch(), 0)
    assert len(log.segments) > 2
    assert all(segment.offset_index.entry_count <= 8 for segment in log.segments)


def test_a_quiet_segment_rolls_by_the_clock_when_asked() -> None:
    world = World()
    log = world.open(LogConfig(segment_ms=1000))
    log.append_as_leader(batch(), 0)
    log.maybe_roll_by_time(NOW_MS + 1000)
    assert len(log.segments) == 1
    log.maybe_roll_by_time(NOW_MS + 1001)
    assert len(log.segments) == 2


def test_history_that_is_loaded_with_its_old_timestamps_stays_for_a_while() -> None:
    world = World()
    log = world.open(LogConfig(retention_ms=1000))
    log.append_as_leader(batch([b"old"], timestamp=NOW_MS - 10 * DAY_MS), 0)
    log.advance_high_watermark(log.log_end_offset)
    assert log.enforce_retention(NOW_MS + 999) == 0
    assert log.enforce_retention(NOW_MS + 1001) == 1


def test_old_segments_go_by_time_the_active_one_too() -> None:
    world = World()
    log = world.open(LogConfig(segment_bytes=150, retention_ms=1000, file_delete_delay_ms=50))
    for number in range(4):
        world.clock.time_ms = NOW_MS + number * 500
        log.append_as_leader(batch([b"x" * 50], timestamp=world.clock.time_ms), 0)
        log.advance_high_watermark(log.log_end_offset)
    assert log.enforce_retention(NOW_MS + 1001) == 1
    assert (log.log_start_offset, log.log_end_offset) == (1, 4)
    assert log.enforce_retention(NOW_MS + 5000) == 3
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (4, 4, 0)
    assert log.append_as_leader(batch(), 0).base_offset == 4
    deleted = [name for name in world.files.list(DIRECTORY) if name.endswith(".deleted")]
    assert len(deleted) == 4
    assert log.sweep_deleted(world.clock.time_ms + 50) == 4
    assert not [name for name in world.files.list(DIRECTORY) if name.endswith(".deleted")]


def test_nothing_above_the_high_watermark_goes() -> None:
    log = World().open(LogConfig(segment_bytes=150, retention_ms=1, retention_bytes=0))
    for _ in range(4):
        log.append_as_leader(batch([b"x" * 50]), 0)
    log.advance_high_watermark(2)
    assert log.enforce_retention(NOW_MS + DAY_MS) == 2
    assert log.log_start_offset == 2


def test_old_segments_go_by_size_until_the_rest_is_small_enough() -> None:
    log = World().open(LogConfig(segment_bytes=150, retention_bytes=400))
    for _ in range(6):
        log.append_as_leader(batch([b"x" * 50]), 0)
    log.advance_high_watermark(6)
    log.enforce_retention(NOW_MS)
    assert 400 <= log.size_bytes < 400 + log.segments.first.size


def test_a_compacted_topic_keeps_its_records() -> None:
    log = World().open(LogConfig(segment_bytes=150, retention_ms=1, cleanup_policy=frozenset(("compact",))))
    for _ in range(3):
        log.append_as_leader(batch([b"x" * 50]), 0)
    log.advance_high_watermark(3)
    assert log.enforce_retention(NOW_MS + DAY_MS) == 0


def test_a_slice_stays_readable_after_its_segment_was_deleted_for_good() -> None:
    world = World()
    log = world.open(LogConfig(segment_bytes=150, file_delete_delay_ms=0))
    for number in range(3):
        log.append_as_leader(batch([b"%d" % number * 50]), 0)
    log.advance_high_watermark(3)
    found = log.read(0, 1000, 3)
    assert found is not None
    log.delete_records(2)
    log.sweep_deleted(NOW_MS)
    assert b"0" * 50 in found.file.pread(found.size, found.position)


def test_deleted_records_are_out_of_range_and_whole_segments_go_at_once() -> None:
    world = World()
    log = world.open(LogConfig(segment_bytes=150))
    for _ in range(4):
        log.append_as_leader(batch([b"x" * 50]), 0)
    log.advance_high_watermark(3)
    assert log.delete_records(2) == 2
    assert list(log.segments.base_offsets) == [2, 3]
    assert log.delete_records(1) == 2, "the start never goes back"
    with pytest.raises(KafkaError) as caught:
        log.delete_records(4)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(KafkaError) as caught:
        log.read(1, 100, 4)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_truncating_resets_start_end_high_watermark_epochs_and_producers_together() -> None:
    """B23."""
    log = World().open()
    log.append_as_leader(batch([b"a"], producer=(1, 0, 0)), 3)
    log.append_as_leader(batch([b"b"], producer=(1, 0, 1)), 5)
    log.advance_high_watermark(2)
    log.truncate_to(1)
    assert (log.log_end_offset, log.high_watermark, log.epochs.entries) == (1, 1, ((3, 0),))
    assert log.append_as_leader(batch([b"b"], producer=(1, 0, 1)), 5).is_duplicate is False
    log.truncate_fully_and_start_at(40)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.epochs.entries) == (40, 40, 40, ())
    assert log.append_as_leader(batch([b"c"], producer=(1, 0, 9)), 6).base_offset == 40, "the producer is not known"


def test_an_older_leader_epoch_is_fenced() -> None:
    log = World().open()
    log.append_as_leader(batch(), 5)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(), 4)
    assert caught.value.code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.fixture
def by_time() -> Log:
    log = World().open(LogConfig(segment_bytes=400, index_interval_bytes=0, message_timestamp_after_max_ms=DAY_MS))
    for first in range(0, 60, 3):
        log.append_as_leader(
            batch(
                [b"%d" % each for each in range(first, first + 3)],
                timestamps=[each * 10 for each in range(first, first + 3)],
            ),
            7,
        )
    return log


def test_the_first_record_at_or_after_a_time_is_found(by_time: Log) -> None:
    for timestamp in range(-5, 600):
        found = by_time.offset_for_timestamp(timestamp)
        expected = max(0, -(-timestamp // 10))
        assert found == ((expected * 10, expected, 7) if expected < 60 else None), timestamp


def test_the_largest_timestamp_is_found(by_time: Log) -> None:
    assert by_time.max_timestamp_offset() == (590, 59, 7)
    by_time.append_as_leader(batch([b"x", b"y", b"z"], timestamps=[700, 900, 800]), 8)
    by_time.append_as_leader(batch([b"x"], timestamps=[10]), 8)
    assert by_time.max_timestamp_offset() == (900, 61, 8)
    assert by_time.offset_for_timestamp(750) == (900, 61, 8)


def test_an_empty_log_has_no_timestamps() -> None:
    log = World().open()
    assert log.max_timestamp_offset() is None
    assert log.offset_for_timestamp(0) is None


def test_records_before_the_start_are_not_found_by_time(by_time: Log) -> None:
    by_time.advance_high_watermark(60)
    by_time.delete_records(10)
    assert by_time.offset_for_timestamp(0) == (100, 10, 7)


def test_a_tail_reader_does_not_search() -> None:
    world = World()
    log = world.open()
    log.append_as_leader(batch([b"a"]), 0)
    assert log.read(0, 1000, 1) is not None
    for number in range(1, 50):
        log.append_as_leader(batch([b"a"]), 0)
        before = world.files.counts["pread"]
        found = log.read(number, 1000, number + 1)
        assert found is not None
        assert found.base_offset == number
        assert world.files.counts["pread"] == before


def test_a_read_is_cut_at_the_size_at_the_end_offset_and_at_least_one_batch() -> None:
    log = World().open(LogConfig(index_interval_bytes=200))
    for number in range(20):
        log.append_as_leader(batch([b"%02d" % number * 10]), 0)
    size = log.size_bytes // 20
    for max_bytes in (size, size + 1, 3 * size - 1, 7 * size + 5):
        found = log.read(3, max_bytes, 20)
        assert found is not None
        assert found.size == max_bytes // size * size
    assert log.read(3, 1, 20).size == size
    assert log.read(3, 1, 20, minimum_one=False) is None
    assert log.read(3, 10_000, 9).size == 6 * size
    assert [offset for offset, _ in offsets_and_values(log, 0, max_bytes=300)] == list(range(20))
