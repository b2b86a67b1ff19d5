"""After an unclean stop: what is cut, what is kept and reported, and what is served."""

from __future__ import annotations

import logging
import random

import pytest

from log.batches import batch
from log.worlds import DIRECTORY, World, check_indexes, offsets_and_values
from penstock.errors import ErrorCode, KafkaError
from penstock.log.config import LogConfig
from penstock.log.log import Log

FIRST = f"{DIRECTORY}/{0:020d}.log"


def filled(world: World, config: LogConfig | None = None, count: int = 10) -> Log:
    log = world.open(config)
    for number in range(count):
        log.append_as_leader(batch([b"value %d" % number]), 1)
    log.flush()
    return log


def position_of(log: Log, offset: int) -> tuple[int, int]:
    """Where a batch is in the first segment: position and size."""
    for position, header in log.segments.first.batches():
        if header.base_offset == offset:
            return position, header.size_bytes
    raise AssertionError("no such batch")


def served(log: Log, end: int) -> tuple[list[int], list[int]]:
    """Offsets that can be read one by one, and those that are CORRUPT_MESSAGE."""
    good, bad = [], []
    for offset in range(log.log_start_offset, end):
        try:
            found = log.read(offset, 1, log.log_end_offset)
        except KafkaError as error:
            bad.append(offset if error.code == ErrorCode.CORRUPT_MESSAGE else -1)
        else:
            assert found is not None
            good.append(offset)
    return good, bad


@pytest.mark.parametrize("torn", [b"x", bytes(11), bytes(61), bytes(500), bytes(batch([b"torn"]))[:-1], b"\xff" * 90])
def test_a_torn_tail_is_cut(torn: bytes) -> None:
    world = World()
    log = filled(world)
    size = log.size_bytes
    world.files.open(FIRST).pwrite(torn, size)
    again = world.open(is_clean=False)
    assert (again.log_end_offset, again.size_bytes, again.corruptions) == (10, size, [])
    assert world.files.size(FIRST) == size
    assert again.append_as_leader(batch([b"next"]), 1).base_offset == 10


def test_a_clean_stop_with_a_torn_tail_is_scanned_all_the_same() -> None:
    world = World()
    log = filled(world)
    log.close()
    world.files.open(FIRST).pwrite(b"torn", world.files.size(FIRST))
    assert world.open(is_clean=True).log_end_offset == 10


def test_a_flipped_bit_anywhere_in_a_batch_is_a_hole_and_the_rest_is_served() -> None:
    world = World()
    log = filled(world)
    position, size = position_of(log, 4)
    for bit in range(position * 8, (position + size) * 8):
        world.files.flip_bit(FIRST, bit)
        again = world.open(is_clean=False)
        assert again.log_end_offset == 10, f"bit {bit - position * 8}"
        assert served(again, 10) == ([0, 1, 2, 3, 5, 6, 7, 8, 9], [4]), f"bit {bit - position * 8}"
        (corruption,) = again.corruptions
        assert (corruption.hole.offset, corruption.hole.end_offset) == (4, 5)
        assert world.files.size(FIRST) == log.size_bytes, "nothing is deleted"
        world.files.flip_bit(FIRST, bit)
    assert world.open(is_clean=False).corruptions == []


def test_corruption_is_logged_with_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    position, _ = position_of(filled(world), 4)
    world.files.flip_bit(FIRST, (position + 70) * 8)
    with caplog.at_level(logging.ERROR):
        world.open(is_clean=False)
    assert "a wrong checksum" in caplog.text
    assert "offsets 4 to 4 cannot be read" in caplog.text


def test_a_slice_ends_before_a_hole_and_appends_go_on_behind_it() -> None:
    world = World()
    position, _ = position_of(filled(world), 4)
    world.files.flip_bit(FIRST, (position + 70) * 8)
    log = world.open(is_clean=False)
    found = log.read(0, 1 << 20, log.log_end_offset)
    assert found is not None
    assert (found.position, found.size) == (0, position)
    assert log.append_as_leader(batch([b"next"]), 1).base_offset == 10
    assert [offset for offset, _ in offsets_and_values(log, 5)] == [5, 6, 7, 8, 9, 10]


def test_a_hole_survives_the_next_unclean_stop() -> None:
    world = World()
    position, _ = position_of(filled(world), 4)
    world.files.flip_bit(FIRST, (position + 70) * 8)
    world.open(is_clean=False)
    world.files.kill()
    assert len(world.open(is_clean=False).corruptions) == 1


def test_damage_in_a_closed_segment_keeps_the_later_segments() -> None:
    world = World()
    log = filled(world, LogConfig(segment_bytes=250))
    assert len(log.segments) > 3
    last = log.segments[1].end_offset - 1
    size = world.files.size(log.segments[1].path(".log"))
    world.files.open(log.segments[1].path(".log")).truncate(size - 5)
    again = world.open(LogConfig(segment_bytes=250), is_clean=False)
    good, bad = served(again, 10)
    assert bad == [last]
    assert good == [offset for offset in range(10) if offset != last]
    assert again.corruptions[0].hole.end_offset == again.segments[2].base_offset


def test_segments_below_the_recovery_point_are_not_scanned() -> None:
    world = World()
    config = LogConfig(segment_bytes=250)
    log = filled(world, config)
    point = log.segments[2].base_offset
    world.files.flip_bit(log.segments[0].path(".log"), 70 * 8)
    assert world.open(config, is_clean=False, recovery_point=point).corruptions == []
    assert len(world.open(config, is_clean=False, recovery_point=0).corruptions) == 1


def test_indexes_are_made_anew_after_an_unclean_stop() -> None:
    world = World()
    config = LogConfig(segment_bytes=500, index_interval_bytes=0)
    log = filled(world, config, count=30)
    log.close()
    before = {name: world.files.synced_bytes(f"{DIRECTORY}/{name}") for name in world.files.list(DIRECTORY)}
    chance = random.Random(3)
    for name in before:
        if name.endswith("index"):
            world.files.open(f"{DIRECTORY}/{name}").pwrite(chance.randbytes(40), 0)
    again = world.open(config, is_clean=False)
    check_indexes(again)
    again.close()
    after = {name: world.files.synced_bytes(f"{DIRECTORY}/{name}") for name in before}
    assert {name: after[name] for name in after if name.endswith("index")} == {
        name: before[name] for name in before if name.endswith("index")
    }


def test_leftovers_are_removed_and_other_files_are_not() -> None:
    world = World()
    filled(world).close()
    for name in ("00000000000000000000.log.deleted", "x.tmp", "00000000000000000005.index", "notes.txt"):
        world.files.open(f"{DIRECTORY}/{name}", create=True)
    world.open()
    names = world.files.list(DIRECTORY)
    assert "notes.txt" in names
    assert not {"00000000000000000000.log.deleted", "x.tmp", "00000000000000000005.index"} & set(names)


def test_an_interrupted_compaction_is_finished() -> None:
    world = World()
    log = filled(world, LogConfig(segment_bytes=250))
    bases = list(log.segments.base_offsets)
    log.close()
    # The cleaned copy of the first two segments is complete, the old ones are still there.
    first, second = (log.segments[number].path(".log") for number in (0, 1))
    data = b"".join(world.files.open(path).pread(10_000, 0) for path in (first, second))
    world.files.open(first + ".swap", create=True).pwrite(data, 0)
    again = world.open(is_clean=False)
    assert list(again.segments.base_offsets) == [bases[0], *bases[2:]]
    assert [offset for offset, _ in offsets_and_values(again, 0)] == list(range(10))


def test_epochs_come_from_the_batches_when_their_file_is_lost() -> None:
    world = World()
    log = world.open()
    for epoch in (1, 1, 4, 4, 9):
        log.append_as_leader(batch(), epoch)
    entries = log.epochs.entries
    log.close()
    for name in world.files.list(DIRECTORY):
        if name.startswith("leader-epoch"):
            world.files.unlink(f"{DIRECTORY}/{name}")
    assert world.open().epochs.entries == entries == ((1, 0), (4, 2), (9, 4))


def test_a_start_beyond_the_recovered_end_begins_an_empty_log_there() -> None:
    world = World()
    filled(world)
    log = world.open(is_clean=False, log_start_offset=50)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (50, 50, 50)
    assert log.append_as_leader(batch(), 1).base_offset == 50


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_never_stops_the_start_nor_hides_what_is_before_it(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    log = filled(world, LogConfig(segment_bytes=chance.choice([250, 5000]), index_interval_bytes=0), count=20)
    path = log.segments[chance.randrange(len(log.segments))].path(".log")
    size = world.files.size(path)
    start = chance.randrange(size)
    world.files.open(path).pwrite(chance.randbytes(chance.randint(1, 200)), start)
    again = world.open(is_clean=False)
    good, bad = served(again, again.log_end_offset)
    assert good + bad
    base = int(path[-24:-4])
    intact = [each for each in range(20) if each < base]
    assert set(intact) <= set(good)
    for offset in good:
        assert offsets_and_values_of(again, offset) == b"value %d" % offset


def offsets_and_values_of(log: Log, offset: int) -> bytes:
    found = log.read(offset, 1, log.log_end_offset)
    assert found is not None
    data = found.file.pread(found.size, found.position)
    return data[data.index(b"value") : -1]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_wrong_index_of_a_closed_segment_is_noticed_and_made_anew(suffix: str) -> None:
    """Bit rot below the recovery point: indexes are hints, an entry counts when the batch it names is there."""
    config = LogConfig(segment_bytes=1000, index_interval_bytes=0)
    world = World()
    log = world.open(config)
    for number in range(40):
        log.append_as_leader(batch([b"value %d" % number], timestamp=1000 + number), 1)
    log.close()
    path = log.segments.first.path(suffix)
    for bit in range(0, world.files.size(path) * 8, 3):
        world.files.flip_bit(path, bit)
        again = world.open(config)
        assert [offset for offset, _ in offsets_and_values(again, 0, max_bytes=300)] == list(range(40))
        for number in range(40):
            found = again.offset_for_timestamp(1000 + number)
            assert found is not None
            assert found.offset == number, f"bit {bit}"
        assert again.segments.first.newest_timestamp() == 1000 + again.segments.first.end_offset - 1
        again.segments.first.rebuild_indexes()
        again.close()
