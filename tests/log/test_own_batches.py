"""What the broker itself writes to its internal topics: batches built in the log, with the offsets they get."""

from __future__ import annotations

import errno

import pytest

from log.batches import NOW_MS, batch
from log.worlds import DIRECTORY, World, offsets_and_values, read_all
from penstock.errors import ErrorCode, KafkaError, StorageError
from penstock.log.config import LogConfig
from penstock.wire.key_values import build_key_values
from penstock.wire.record import iterate_records
from penstock.wire.records import check_batch, iterate_headers

FIRST = f"{DIRECTORY}/{0:020d}.log"
PAIRS = ((b"a", b"1"), (b"b", None))
COMPACTED = LogConfig(cleanup_policy=("compact",))


def test_the_bytes_are_those_of_a_batch_that_was_checked_and_stamped() -> None:
    one, other = World().open(COMPACTED), World().open(COMPACTED)
    for log in (one, other):
        log.append_as_leader(build_key_values(PAIRS, NOW_MS), 3, is_own=True)
    assert one.append_own(PAIRS, 4) == len(build_key_values(PAIRS, NOW_MS))
    other.append_as_leader(build_key_values(PAIRS, NOW_MS), 4, is_own=True)
    assert read_all(one, 0) == read_all(other, 0)
    assert one.epochs.entries == other.epochs.entries
    assert one.log_end_offset == other.log_end_offset == 4


def test_batches_of_the_broker_and_of_markers_survive_a_start_after_a_crash() -> None:
    world = World()
    log = world.open(COMPACTED)
    for number in range(20):
        log.append_own(((b"key", b"%d" % number),), 0)
    log.flush()
    world.crash(1)
    log = world.open(COMPACTED, is_clean=False)
    assert offsets_and_values(log, 0) == [(number, b"%d" % number) for number in range(20)]
    assert all(check_batch(data, at, len(data)) for data in read_all(log, 0) for at, _ in iterate_headers(data))


def test_the_log_rolls_when_a_batch_of_its_own_does_not_fit() -> None:
    log = World().open(LogConfig(segment_bytes=300, file_delete_delay_ms=0))
    for number in range(6):
        log.append_own(((b"key", b"%d" % number * 60),), 0)
    assert len(log.segments) > 1
    assert [offset for offset, _ in offsets_and_values(log, 0)] == list(range(6))
    assert [each.base_offset for each in log.segments] == sorted({each.base_offset for each in log.segments})


def test_the_log_rolls_when_the_time_of_its_segment_is_over() -> None:
    world = World()
    log = world.open(LogConfig(segment_ms=1000))
    log.append_own(PAIRS, 0)
    log.append_own(PAIRS, 0)
    world.clock.time_ms += 1001
    log.append_own(PAIRS, 0)
    assert [each.base_offset for each in log.segments] == [0, 4]


def test_a_batch_that_is_too_large_is_refused_as_any_other() -> None:
    log = World().open(LogConfig(max_message_bytes=100))
    with pytest.raises(KafkaError) as caught:
        log.append_own(((b"key", bytes(200)),), 0)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert log.log_end_offset == 0


def test_a_topic_whose_settings_ask_for_more_gets_it() -> None:
    log = World().open(LogConfig(compression_type="gzip"))
    log.append_own(((b"key", bytes(1000)),), 0)
    (data,) = read_all(log, 0)
    assert check_batch(data, 0, len(data)).compression.name == "GZIP"
    assert [bytes(record.value or b"") for record in iterate_records(data)] == [bytes(1000)]


def test_a_short_write_is_cut_off_and_the_same_records_can_be_written_again() -> None:
    world = World()
    log = world.open()
    log.append_own(PAIRS, 0)
    size = log.size_bytes
    world.files.shorten_at(world.files.call_count + 1, 30)
    with pytest.raises(StorageError) as caught:
        log.append_own(PAIRS, 0)
    assert caught.value.retriable
    assert world.files.size(FIRST) == size, "no torn bytes stay behind"
    log.append_own(PAIRS, 0)
    assert log.log_end_offset == 4


def test_a_failed_write_fences_the_log_for_batches_of_its_own_too() -> None:
    world = World()
    log = world.open()
    world.files.fail_when(lambda name, path: name == "pwrite" and path.endswith(".log"), OSError(errno.EIO, "injected"))
    with pytest.raises(StorageError):
        log.append_own(PAIRS, 0)
    world.files.heal()
    with pytest.raises(StorageError):
        log.append_own(PAIRS, 0)
    with pytest.raises(StorageError):
        log.append_as_leader(batch([b"a"]), 0)


def test_a_leader_of_the_past_writes_nothing() -> None:
    log = World().open()
    log.append_own(PAIRS, 5)
    with pytest.raises(KafkaError) as caught:
        log.append_own(PAIRS, 4)
    assert caught.value.code is ErrorCode.FENCED_LEADER_EPOCH
    assert log.log_end_offset == 2
