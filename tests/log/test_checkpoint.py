"""Checkpoints: Kafka's text, a checksum and an older generation beside it, and every way to lose one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.atomic_file import write_atomically
from penstock.log.checkpoint import EpochCheckpoint, OffsetCheckpoint
from penstock.testing.sim_files import SimFiles
from penstock.types import TopicPartition

PATH = "/data/recovery-point-offset-checkpoint"
FIRST = {TopicPartition("orders", 0): 1803, TopicPartition("__transaction_state", 45): 5}
SECOND = {TopicPartition("orders", 0): 1900, TopicPartition("orders", 1): 7}
FIRST_TEXT = b"0\n2\norders 0 1803\n__transaction_state 45 5\n"


def new_files() -> SimFiles:
    files = SimFiles()
    files.make_dir("/data")
    files.sync_dir("/")
    return files


def put(files: SimFiles, path: str, data: bytes) -> None:
    file = files.open(path, create=True)
    file.truncate(0)
    file.pwrite(data, 0)


def read(files: SimFiles, path: str = PATH) -> dict[TopicPartition, int] | None:
    return OffsetCheckpoint(files, path).read()


def written(*generations: dict[TopicPartition, int]) -> SimFiles:
    files = new_files()
    for offsets in generations:
        OffsetCheckpoint(files, PATH).write(offsets)
    return files


def test_the_text_is_kafkas():
    files = written(FIRST)
    assert files.open(PATH).pread(1000, 0) == FIRST_TEXT
    assert read(files) == FIRST


def test_an_empty_checkpoint_is_two_zeros():
    files = written({})
    assert files.open(PATH).pread(1000, 0) == b"0\n0\n"
    assert read(files) == {}


def test_no_file_means_a_scan():
    assert read(new_files()) is None


def test_a_file_that_kafka_wrote_is_read_without_a_checksum():
    files = new_files()
    put(files, PATH, FIRST_TEXT)
    assert read(files) == FIRST
    put(files, PATH, b"")
    assert read(files) == {}


def test_what_was_written_survives_any_crash():
    for seed in range(200):
        files = written(FIRST, SECOND)
        files.crash(random.Random(seed))
        assert read(files) == SECOND


def test_a_crash_while_writing_leaves_the_old_or_the_new_one():
    calls = calls_of_one_write()
    for call in range(1, calls + 1):
        for seed in range(30):
            files = written(FIRST, SECOND)
            third = {TopicPartition("orders", 0): 2000}
            files.fail_at(files.call_count + call, OSError(5, "broken"))
            with pytest.raises(OSError):
                OffsetCheckpoint(files, PATH).write(third)
            files.crash(random.Random(seed))
            assert read(files) in (FIRST, SECOND, third), (call, seed)
            OffsetCheckpoint(files, PATH).write(third)
            assert read(files) == third


def test_a_process_that_dies_while_writing_leaves_the_current_or_the_new_one():
    for call in range(1, calls_of_one_write() + 1):
        files = written(FIRST, SECOND)
        third = {TopicPartition("orders", 0): 2000}
        files.fail_at(files.call_count + call, OSError(5, "broken"))
        with pytest.raises(OSError):
            OffsetCheckpoint(files, PATH).write(third)
        files.kill()
        assert read(files) in (SECOND, third), call


def calls_of_one_write() -> int:
    files = written(FIRST, SECOND)
    before = files.call_count
    OffsetCheckpoint(files, PATH).write(FIRST)
    return files.call_count - before


def test_any_flipped_bit_gives_the_older_generation():
    size = written(FIRST, SECOND).size(PATH)
    for bit in range(size * 8):
        files = written(FIRST, SECOND)
        files.flip_bit(PATH, bit)
        assert read(files) == FIRST


def test_two_damaged_generations_mean_a_scan():
    files = written(FIRST, SECOND)
    files.flip_bit(PATH, 33)
    files.flip_bit(PATH + ".old", 33)
    assert read(files) is None


def test_a_missing_newest_file_gives_the_older_one():
    files = written(FIRST, SECOND)
    files.unlink(PATH)
    assert read(files) == FIRST


@pytest.mark.parametrize("crc", [b"", b"zz\n", b"\xff\xfe", b"00000000\n"])
def test_a_damaged_checksum_file_means_a_scan(crc):
    files = written(FIRST, SECOND)
    put(files, PATH + ".crc", crc)
    assert read(files) is None


@pytest.mark.parametrize(
    "text",
    [
        b"1\n0\n",
        b"0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0 1\nb 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 1 2\n",
        b"0\n1\na 0 -1\n",
        b"0\n1\na 0 1_0\n",
        b"0\n1\na b c\n",
        b"x\n",
        b"\xff\xff\n1\n",
        b"0\n1\n\n",
    ],
)
def test_malformed_text_is_no_checkpoint(text):
    files = new_files()
    put(files, PATH, text)
    assert read(files) is None


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_crash_the_reader(data):
    files = new_files()
    put(files, PATH, data)
    read(files)
    EpochCheckpoint(files, PATH).read()


def test_leader_epochs_are_kafkas_text_and_grow():
    files = new_files()
    checkpoint = EpochCheckpoint(files, "/data/leader-epoch-checkpoint")
    checkpoint.write([(0, 0), (3, 77)])
    assert files.open("/data/leader-epoch-checkpoint").pread(100, 0) == b"0\n2\n0 0\n3 77\n"
    assert checkpoint.read() == [(0, 0), (3, 77)]
    files = new_files()
    put(files, "/data/leader-epoch-checkpoint", b"0\n2\n3 0\n1 77\n")
    assert EpochCheckpoint(files, "/data/leader-epoch-checkpoint").read() is None


def test_an_older_list_of_leader_epochs_is_not_trusted():
    files = new_files()
    checkpoint = EpochCheckpoint(files, "/data/leader-epoch-checkpoint")
    checkpoint.write([(0, 0)])
    checkpoint.write([(0, 0), (1, 10)])
    files.flip_bit("/data/leader-epoch-checkpoint", 35)
    assert checkpoint.read() is None


def test_an_atomic_write_is_the_old_or_the_new_file_after_a_crash_at_any_call():
    for call in range(1, 8):
        for seed in range(40):
            files = new_files()
            write_atomically(files, "/data/x", b"old" * 10)
            files.fail_at(files.call_count + call, OSError(28, "full"))
            try:
                write_atomically(files, "/data/x", b"new" * 10)
                returned = True
            except OSError:
                returned = False
            files.heal()
            files.crash(random.Random(seed))
            data = files.open("/data/x").pread(100, 0)
            assert data == b"new" * 10 or (data == b"old" * 10 and not returned)
