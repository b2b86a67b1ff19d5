"""The index files follow from the batches alone: byte for byte the same, whatever happened to the log between them."""

from __future__ import annotations

import errno
import random
import struct

import pytest

from log.batches import NOW_MS, batch
from log.worlds import DIRECTORY, World, check_index_files, check_indexes, content
from penstock.errors import StorageError
from penstock.log.config import LogConfig
from penstock.log.log import Log

TIME_INDEX = f"{DIRECTORY}/{0:020d}.timeindex"
FAR_MS = 1 << 40


def config_with(interval: int) -> LogConfig:
    return LogConfig(index_interval_bytes=interval, segment_ms=FAR_MS, message_timestamp_after_max_ms=FAR_MS)


def append_some(log: Log, chance: random.Random) -> None:
    """A few batches whose timestamps go up and down; sometimes none."""
    for _ in range(chance.randint(0, 6)):
        values = [b"x" * chance.randint(0, 40) for _ in range(chance.randint(1, 3))]
        log.append_as_leader(batch(values, timestamp=NOW_MS + log.log_end_offset * 10 + chance.randint(-60, 60)), 0)


def index_files(world: World) -> dict[str, bytes]:
    names = [name for name in world.files.list(DIRECTORY) if name.endswith("index")]
    return {name: content(world, f"{DIRECTORY}/{name}") for name in names}


def rebuilt_index_files(world: World, config: LogConfig) -> dict[str, bytes]:
    for name in index_files(world):
        world.files.unlink(f"{DIRECTORY}/{name}")
    world.open(config, is_clean=False).close()
    return index_files(world)


@pytest.mark.parametrize("interval", [0, 100, 500, 4096])
@pytest.mark.parametrize("seed", range(20))
def test_stops_and_kills_of_an_active_segment_leave_no_trace_in_its_indexes(interval: int, seed: int) -> None:
    world, config, chance = World(), config_with(interval), random.Random(seed)
    log = world.open(config)
    for _ in range(12):
        append_some(log, chance)
        is_clean = chance.random() < 0.5
        if is_clean:
            log.close()
            check_index_files(world, log)
        else:
            world.files.kill()
        log = world.open(config, is_clean=is_clean)
        check_indexes(log)
    append_some(log, chance)
    log.roll()
    check_index_files(world, log, 1)
    append_some(log, chance)
    log.close()
    check_index_files(world, log)
    assert index_files(world) == rebuilt_index_files(world, config)


def test_the_last_entry_of_a_stopped_log_is_its_largest_timestamp_as_kafka_leaves_it() -> None:
    world, config = World(), config_with(4096)
    for number in range(3):
        log = world.open(config)
        log.append_as_leader(batch(timestamp=NOW_MS + number), 0)
        log.close()
        assert content(world, TIME_INDEX) == struct.pack(">qi", NOW_MS + number, number)


def test_a_start_without_appends_leaves_the_index_files_alone() -> None:
    """They are below the recovery point that the stop wrote, so after a power cut nobody checks them."""
    for seed in range(50):
        world, config = World(), config_with(100)
        log = world.open(config)
        for number in range(10):
            log.append_as_leader(batch(timestamp=NOW_MS + number), 0)
        log.close()
        world.files.sync_dir(DIRECTORY)
        log = world.open(config)
        log.roll()
        log.append_as_leader(batch(timestamp=NOW_MS), 0)
        world.crash(seed)
        again = world.open(config, is_clean=False, recovery_point=10)
        check_indexes(again)
        again.close()
        check_index_files(world, again)


@pytest.mark.parametrize("interval", [0, 100, 4096])
@pytest.mark.parametrize("failing", [".timeindex", ".index", ".snapshot", ".log"])
def test_a_roll_that_failed_leaves_no_trace(interval: int, failing: str) -> None:
    world = World()
    log = world.open(config_with(interval))
    for number in range(5):
        log.append_as_leader(batch(timestamp=NOW_MS + number, producer=(1, 0, number)), 0)
    world.files.fail_when(
        lambda operation, path: failing in path and operation in ("open", "pwrite"), OSError(errno.ENOSPC, "full")
    )
    with pytest.raises(StorageError):
        log.roll()
    world.files.heal()
    for number in range(5, 10):
        log.append_as_leader(batch(timestamp=NOW_MS + number, producer=(1, 0, number)), 0)
    check_indexes(log)
    log.roll()
    log.close()
    check_index_files(world, log)


@pytest.mark.parametrize("interval", [0, 100, 200, 4096])
def test_truncation_leaves_no_trace(interval: int) -> None:
    for end in range(20):
        world = World()
        log = world.open(config_with(interval))
        chance = random.Random(end)
        for number in range(20):
            log.append_as_leader(batch(timestamp=NOW_MS + number * 10 + chance.randint(-40, 40)), 0)
        log.truncate_to(end)
        for number in range(10):
            log.append_as_leader(batch(timestamp=NOW_MS - 500 + number), 0)  # older than what was cut
        check_indexes(log)
        log.close()
        check_index_files(world, log)


@pytest.mark.parametrize("failing", [".timeindex", ".index"])
def test_entries_that_could_not_be_written_at_once_are_written_later(failing: str) -> None:
    world = World()
    log = world.open(config_with(0))
    for number in range(1500):
        if number == 100:
            world.files.fail_when(
                lambda operation, path: path.endswith(failing) and operation in ("open", "pwrite"),
                OSError(errno.ENOSPC, "full"),
            )
        if number == 900:
            world.files.heal()
        log.append_as_leader(batch(timestamp=NOW_MS + number), 0)
    check_indexes(log)
    log.close()
    check_index_files(world, log)


@pytest.mark.parametrize("interval", [0, 100, 200, 4096])
def test_a_hole_in_the_segment_leaves_no_trace_behind_it(interval: int) -> None:
    world, config = World(), config_with(interval)
    log = world.open(config)
    for number in range(10):
        log.append_as_leader(batch([b"x" * 40], timestamp=NOW_MS + number), 0)
    world.files.kill()
    world.files.flip_bit(f"{DIRECTORY}/{0:020d}.log", log.size_bytes // 2 * 8)
    log = world.open(config, is_clean=False)
    assert len(log.corruptions) == 1
    for is_clean in (True, False):
        for number in range(10):
            log.append_as_leader(batch(timestamp=NOW_MS + log.log_end_offset + number), 0)
        log.close()
        log = world.open(config, is_clean=is_clean)
    log.close()
    assert index_files(world) == rebuilt_index_files(world, config)


def test_entries_of_several_stops_that_kafka_left_at_the_end_go_with_the_next_one() -> None:
    """Kafka notes the largest timestamp at each close and keeps it; here two stops were close together."""
    world, config = World(), config_with(200)
    log = world.open(config)
    for number in range(3):
        log.append_as_leader(batch(timestamp=NOW_MS + number), 0)
    log.close()
    entries = b"".join(struct.pack(">qi", NOW_MS + number, number) for number in range(3))
    world.files.open(TIME_INDEX).pwrite(entries, 0)
    log = world.open(config)
    found = log.offset_for_timestamp(NOW_MS + 2)
    assert found is not None
    assert found.offset == 2
    for number in range(3, 9):
        log.append_as_leader(batch(timestamp=NOW_MS + number), 0)
    log.close()
    check_index_files(world, log)
