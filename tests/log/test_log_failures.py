"""Disks that are full, bad or slow to tell: what a log does, what it still serves, and that it never lies."""

from __future__ import annotations

import errno
import random

import pytest

from log.batches import batch
from log.worlds import DIRECTORY, World, offsets_and_values
from penstock.errors import KafkaError, StorageError
from penstock.log.config import LogConfig
from penstock.log.log import Log
from penstock.wire.record import iterate_records

FIRST = f"{DIRECTORY}/{0:020d}.log"
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, file_delete_delay_ms=0, retention_bytes=2000)


def failing(world: World, operation: str, suffix: str, number: int) -> None:
    world.files.fail_when(lambda name, path: name == operation and path.endswith(suffix), OSError(number, "injected"))


def test_a_short_write_is_cut_off_and_can_be_retried() -> None:
    world = World()
    log = world.open()
    log.append_as_leader(batch([b"a"]), 0)
    size = log.size_bytes
    world.files.shorten_at(world.files.call_count + 1, 30)
    with pytest.raises(StorageError) as caught:
        log.append_as_leader(batch([b"b"], producer=(1, 0, 0)), 0)
    assert caught.value.retriable
    assert not log.is_fenced
    assert world.files.size(FIRST) == size, "no torn bytes stay behind"
    assert offsets_and_values(log, 0) == [(0, b"a")]
    result = log.append_as_leader(batch([b"b"], producer=(1, 0, 0)), 0)
    assert (result.base_offset, result.is_duplicate) == (1, False), "a failed append left no trace of its producer"


def test_a_batch_that_was_not_written_can_be_offered_again_as_it_is() -> None:
    """The broker's short way for repeated requests fell back to the long one with a batch that had an offset."""
    world = World()
    log = world.open()
    log.append_as_leader(batch([b"a"]), 0)
    refused = bytearray(batch([b"b"]))
    world.files.shorten_at(world.files.call_count + 1, 30)
    with pytest.raises(StorageError):
        log.append_as_leader(refused, 0)
    assert log.append_as_leader(refused, 0).base_offset == 1
    assert offsets_and_values(log, 0) == [(0, b"a"), (1, b"b")]


def test_a_full_disk_refuses_appends_serves_reads_and_recovers() -> None:
    world = World()
    log = world.open(SMALL)
    world.files.capacity = 3000
    appended = 0
    while world.files.used_bytes < 2900:
        log.append_as_leader(batch([b"%d" % appended]), 0)
        appended += 1
    with pytest.raises(StorageError):
        log.append_as_leader(batch([b"x" * 200]), 0)
    assert not log.is_fenced
    assert [value for _, value in offsets_and_values(log, 0)] == [b"%d" % each for each in range(appended)]
    world.files.heal()
    assert log.append_as_leader(batch([b"more"]), 0).base_offset == appended


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
def test_a_failed_write_fences_the_log_for_good(number: int) -> None:
    """B11: nothing is appended after an I/O error on the same log."""
    world = World()
    log = world.open()
    log.append_as_leader(batch([b"a"]), 0)
    failing(world, "pwrite", ".log", number)
    for _ in range(2):
        with pytest.raises(StorageError):
            log.append_as_leader(batch([b"b"]), 0)
        world.files.heal()
    assert log.is_fenced
    assert offsets_and_values(log, 0) == [(0, b"a")], "reads go on"


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_fences_the_log_whatever_the_reason(number: int) -> None:
    world = World()
    log = world.open()
    log.append_as_leader(batch([b"a"]), 0)
    failing(world, "sync", ".log", number)
    with pytest.raises(StorageError):
        log.flush()
    world.files.heal()
    assert log.is_fenced
    assert log.recovery_point == 0
    with pytest.raises(StorageError):
        log.flush()
    with pytest.raises(StorageError):
        log.append_as_leader(batch([b"b"]), 0)


def test_a_sync_that_failed_in_a_thread_fences_the_log() -> None:
    log = World().open()
    log.append_as_leader(batch(), 0)
    told: list[Log] = []
    log.on_fenced = lambda log, error: told.append(log)
    log.files_to_sync()
    log.fence(OSError(errno.EIO, "bad"))
    assert told == [log]
    with pytest.raises(StorageError):
        log.append_as_leader(batch(), 0)


def test_an_index_that_cannot_be_written_does_not_fail_the_append() -> None:
    world = World()
    log = world.open(LogConfig(index_interval_bytes=0))
    failing(world, "pwrite", "index", errno.ENOSPC)
    for number in range(1100):
        assert log.append_as_leader(batch(), 0).base_offset == number
    world.files.heal()
    log.roll()
    assert len(offsets_and_values(log, 0)) == 1100


def test_a_roll_that_fails_leaves_the_log_as_it_was() -> None:
    world = World()
    log = world.open(SMALL)
    log.append_as_leader(batch([b"a" * 300]), 0)
    failing(world, "open", f"{1:020d}.log", errno.EMFILE)
    with pytest.raises(StorageError):
        log.append_as_leader(batch([b"b" * 300]), 0)
    assert not log.is_fenced
    world.files.heal()
    assert log.append_as_leader(batch([b"b" * 300]), 0).base_offset == 1
    assert len(log.segments) == 2


def test_a_new_segment_survives_a_crash_once_the_log_says_it_is_flushed() -> None:
    """B12: the directory is synced, or the new name is lost with all that is in the file."""
    for seed in range(30):
        world = World()
        log = world.open(SMALL)
        for number in range(10):
            log.append_as_leader(batch([b"%d" % number]), 0)
        log.flush()
        end = log.log_end_offset
        world.crash(seed)
        assert world.open(SMALL, is_clean=False).log_end_offset == end


def test_what_was_truncated_while_a_sync_ran_is_not_called_durable() -> None:
    log = World().open()
    for _ in range(4):
        log.append_as_leader(batch(), 0)
    syncables, end_offset = log.files_to_sync()
    log.truncate_to(2)
    for _ in range(5):
        log.append_as_leader(batch(), 0)
    for syncable in syncables:
        syncable.sync()
    log.on_synced(end_offset)
    assert log.recovery_point == 2


def test_the_recovery_point_is_lowered_durably_before_a_truncation() -> None:
    world = World()
    log = world.open()
    for _ in range(4):
        log.append_as_leader(batch(), 0)
    log.flush()
    seen: list[tuple[int, int]] = []
    log.before_truncate = lambda log: seen.append((log.checkpoint_offset, log.log_end_offset))
    log.truncate_to(1)
    assert seen == [(0, 4)], "and never points into the active segment"


class Script:
    """A life of a log, step by step, that goes on after failures and remembers what was promised."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = world.open(SMALL, is_clean=False)
        self.appended: dict[int, bytes] = {}
        self.uncertain: set[int] = set()
        self.synced = 0
        self.start = 0

    def run(self, steps: int, seed: int) -> None:
        chance = random.Random(seed)
        for number in range(steps):
            try:
                self.step(chance, number)
            except KafkaError:
                continue

    def step(self, chance: random.Random, number: int) -> None:
        choice = chance.random()
        if choice < 0.7:
            value = b"%d" % number * chance.randint(1, 40)
            result = self.log.append_as_leader(batch([value]), number // 20)
            self.appended[result.base_offset] = value
            self.log.advance_high_watermark(self.log.log_end_offset)
        elif choice < 0.8:
            self.log.flush()
            self.synced = self.log.recovery_point
        elif choice < 0.87:
            self.log.roll()
        elif choice < 0.94:
            self.log.enforce_retention(self.world.clock.time_ms)
            self.log.sweep_deleted(self.world.clock.time_ms)
        else:
            end = self.log.log_end_offset
            target = max(self.log.log_start_offset, end - 3)
            self.synced = min(self.synced, target)
            self.appended = {offset: value for offset, value in self.appended.items() if offset < target}
            self.log.truncate_to(target)

    def check_live(self) -> None:
        """Every append that returned can be read, whatever failed around it."""
        log = self.log
        found = dict(offsets_and_values(log, log.log_start_offset))
        for offset, value in self.appended.items():
            if log.log_start_offset <= offset < log.log_end_offset:
                assert found[offset] == value

    def check_recovered(self, log: Log) -> None:
        assert log.log_end_offset >= self.synced
        holes = [corruption.hole for corruption in log.corruptions]
        assert all(hole.offset >= self.synced for hole in holes)
        for offset in range(log.log_start_offset, log.log_end_offset):
            if any(hole.offset <= offset < hole.end_offset for hole in holes):
                continue
            found = log.read(offset, 1, log.log_end_offset)
            assert found is not None
            assert found.base_offset == offset
            if offset in self.appended:
                (record,) = iterate_records(found.file.pread(found.size, found.position))
                assert (record.offset, record.value) == (offset, self.appended[offset])


def count_calls(seed: int) -> tuple[int, int]:
    world = World()
    script = Script(world)
    first = world.files.call_count
    script.run(40, seed)
    return first, world.files.call_count


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS])
def test_a_failure_of_any_one_file_call_loses_nothing_and_fences_when_it_must(number: int) -> None:
    """The sweep: the same life, once for each file call, with that call failing."""
    first, last = count_calls(seed=1)
    assert last - first > 200
    for call in range(first + 1, last + 1, 1):
        world = World()
        script = Script(world)
        world.files.fail_at(call, OSError(number, "injected"))
        script.run(40, seed=1)
        script.check_live()
        world.files.heal()
        world.crash(call)
        script.check_recovered(world.open(SMALL, is_clean=False))


def test_crashes_at_random_points_keep_the_synced_prefix() -> None:
    """2,000 lives that end in a power cut; a few synced prefixes, rolls, truncations and deletions in each."""
    for seed in range(2000):
        chance = random.Random(seed)
        world = World()
        script = Script(world)
        script.run(chance.randint(1, 20), seed)
        world.crash(seed)
        script.check_recovered(world.open(SMALL, is_clean=False))
