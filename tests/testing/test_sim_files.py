"""SimFiles: what it keeps and loses is what every crash test of the log stands on."""

from __future__ import annotations

import errno
import random

import pytest

from penstock.env.files import File, SystemFiles
from penstock.testing.sim_files import SimFiles

SEEDS = range(300)


def made(path: str = "/data/a") -> tuple[SimFiles, File]:
    """One file whose name is safe."""
    files = SimFiles()
    files.make_dir("/data")
    file = files.open(path, create=True)
    files.sync_dir("/")
    files.sync_dir("/data")
    return files, file


def content(files: SimFiles, path: str) -> bytes:
    file = files.open(path, writable=False)
    return file.pread(file.size(), 0)


def test_synced_bytes_always_survive_a_crash():
    for seed in SEEDS:
        files, file = made()
        file.pwrite(b"safe", 0)
        file.sync()
        file.pwrite(b"unsafe", 4)
        files.crash(random.Random(seed))
        assert content(files, "/data/a").startswith(b"safe")


def test_unsynced_writes_are_lost_kept_torn_or_turned_to_zeros():
    seen = set()
    for seed in SEEDS:
        files, file = made()
        file.pwrite(b"one", 0)
        file.pwrite(b"two", 3)
        files.crash(random.Random(seed))
        seen.add(content(files, "/data/a"))
    assert {b"", b"o", b"one", b"onet", b"onetwo", b"onet\0\0", b"one\0\0\0"} <= seen
    assert all(each.rstrip(b"\0") == b"onetwo"[: len(each.rstrip(b"\0"))] for each in seen)


def test_an_unsynced_overwrite_and_truncation_may_not_happen():
    seen = set()
    for seed in SEEDS:
        files, file = made()
        file.pwrite(b"aaaa", 0)
        file.sync()
        file.truncate(2)
        file.pwrite(b"b", 0)
        files.crash(random.Random(seed))
        seen.add(content(files, "/data/a"))
    assert seen == {b"aaaa", b"aa", b"ba"}


def test_a_name_survives_only_when_its_directory_was_synced():
    survived = set()
    for seed in SEEDS:
        files, _ = made()
        file = files.open("/data/b", create=True)
        file.pwrite(b"x", 0)
        file.sync()
        assert files.synced_bytes("/data/b") is None
        files.crash(random.Random(seed))
        survived.add(files.exists("/data/b"))
    assert survived == {True, False}
    for seed in SEEDS:
        files, _ = made()
        files.open("/data/b", create=True)
        files.sync_dir("/data")
        files.crash(random.Random(seed))
        assert files.exists("/data/b")


def test_a_rename_is_one_change_and_follows_earlier_ones_of_its_name():
    seen = set()
    for seed in SEEDS:
        files, file = made()
        file.pwrite(b"old", 0)
        file.sync()
        new = files.open("/data/a.tmp", create=True)
        new.pwrite(b"new", 0)
        new.sync()
        files.rename("/data/a.tmp", "/data/a")
        files.crash(random.Random(seed))
        seen.add((tuple(files.list("/data")), content(files, "/data/a")))
    assert seen == {(("a",), b"old"), (("a",), b"new"), (("a", "a.tmp"), b"old")}


def test_renames_of_different_names_may_survive_each_for_itself():
    seen = set()
    for seed in SEEDS:
        files, _ = made()
        files.open("/data/b", create=True)
        files.sync_dir("/data")
        files.rename("/data/a", "/data/a2")
        files.rename("/data/b", "/data/b2")
        files.crash(random.Random(seed))
        seen.add(tuple(files.list("/data")))
    assert seen == {("a", "b"), ("a2", "b"), ("a", "b2"), ("a2", "b2")}


def test_a_directory_that_was_not_synced_takes_its_files_with_it():
    lost = 0
    for seed in SEEDS:
        files = SimFiles()
        files.make_dir("/data/t-0")
        files.open("/data/t-0/x", create=True)
        files.sync_dir("/data/t-0")
        files.crash(random.Random(seed))
        lost += not files.exists("/data/t-0/x")
    assert 0 < lost < len(SEEDS)


def test_a_directory_keeps_its_files_when_it_is_renamed():
    files, file = made("/data/a")
    file.pwrite(b"x", 0)
    file.sync()
    files.rename("/data", "/data-deleted")
    files.sync_dir("/")
    files.crash(random.Random(1))
    assert files.list("/") == ["data-deleted"]
    assert content(files, "/data-deleted/a") == b"x"
    files.remove_tree("/data-deleted")
    assert not files.exists("/data-deleted")


def test_a_deleted_file_may_come_back_unless_the_directory_was_synced():
    back = set()
    for seed in SEEDS:
        files, _ = made()
        files.unlink("/data/a")
        files.crash(random.Random(seed))
        back.add(files.exists("/data/a"))
    assert back == {True, False}


def test_open_files_raise_after_a_crash_and_after_a_kill():
    files, file = made()
    file.pwrite(b"x", 0)
    files.kill()
    with pytest.raises(OSError):
        file.pread(1, 0)
    assert content(files, "/data/a") == b"x"
    file = files.open("/data/a")
    files.crash(random.Random(0))
    with pytest.raises(OSError):
        file.pwrite(b"y", 0)
    file = files.open("/data/a")
    file.close()
    with pytest.raises(OSError):
        file.size()


def test_a_deleted_file_stays_readable_while_it_is_open():
    files, file = made()
    file.pwrite(b"x", 0)
    files.unlink("/data/a")
    assert file.pread(10, 0) == b"x"


def test_the_call_of_a_number_fails_once_and_does_nothing():
    files, file = made()
    files.fail_at(files.call_count + 2, OSError(errno.EIO, "broken"))
    file.pwrite(b"one", 0)
    with pytest.raises(OSError) as caught:
        file.pwrite(b"two", 0)
    assert caught.value.errno == errno.EIO
    assert file.pread(9, 0) == b"one"


def test_calls_fail_while_a_condition_holds():
    files, file = made()
    files.fail_when(lambda operation, path: operation == "sync_dir" and path == "/data", OSError(errno.EROFS, "ro"))
    with pytest.raises(OSError):
        files.sync_dir("/data")
    files.sync_dir("/")
    files.heal()
    files.sync_dir("/data")
    assert file.size() == 0


def test_bytes_of_a_failed_sync_are_seen_but_never_safe():
    files, file = made()
    file.pwrite(b"lost", 0)
    files.fail_at(files.call_count + 1, OSError(errno.EIO, "broken"))
    with pytest.raises(OSError):
        file.sync()
    assert file.pread(4, 0) == b"lost"
    file.pwrite(b"kept", 4)
    file.sync()
    assert files.synced_bytes("/data/a") == b"\0\0\0\0kept"


def test_a_write_can_be_short():
    files, file = made()
    files.shorten_at(files.call_count + 1, 2)
    assert file.pwritev([b"ab", b"cd"], 0) == 2
    assert file.pwrite(b"cd", 2) == 2
    assert file.pread(9, 0) == b"abcd"


def test_a_full_disk_takes_what_fits_and_then_nothing():
    files, file = made()
    files.capacity = 6
    assert file.pwrite(b"abcd", 0) == 4
    assert file.pwrite(b"efgh", 4) == 2
    with pytest.raises(OSError) as caught:
        file.pwrite(b"x", 6)
    assert caught.value.errno == errno.ENOSPC
    assert file.pwrite(b"AB", 0) == 2
    file.truncate(5)
    assert file.pwrite(b"xy", 5) == 1
    files.unlink("/data/a")
    assert files.open("/data/b", create=True).pwrite(b"123456", 0) == 6


def test_a_flipped_bit_is_on_the_disk_too():
    files, file = made()
    file.pwrite(b"\x00\x00", 0)
    file.sync()
    files.flip_bit("/data/a", 9)
    assert file.pread(2, 0) == b"\x00\x02"
    assert files.synced_bytes("/data/a") == b"\x00\x02"


def test_calls_are_counted_by_operation():
    files, file = made()
    file.pwrite(b"x", 0)
    file.sync()
    file.sync()
    assert files.counts["pwrite"] == 1
    assert files.counts["sync"] == 2
    assert files.counts["sync_dir"] == 2


def test_the_same_seed_gives_the_same_bytes():
    def run(seed: int) -> dict[str, bytes]:
        files, file = made()
        for number in range(20):
            file.pwrite(bytes([number]) * 10, number * 10)
            files.open(f"/data/{number}", create=True).pwrite(b"z" * number, 0)
        files.crash(random.Random(seed))
        return {name: content(files, f"/data/{name}") for name in files.list("/data")}

    assert all(run(seed) == run(seed) for seed in range(20))
    assert len({str(run(seed)) for seed in range(20)}) > 10


@pytest.mark.parametrize("kind", ["simulated", "real"])
def test_both_kinds_of_files_answer_alike(kind, tmp_path):
    files = SimFiles() if kind == "simulated" else SystemFiles()
    root = f"{tmp_path}/root"
    files.make_dir(f"{root}/deep/er")
    files.make_dir(f"{root}/deep")
    assert files.is_dir(f"{root}/deep")
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/no")
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/no/file", create=True)
    with pytest.raises(IsADirectoryError):
        files.open(f"{root}/deep")
    file = files.open(f"{root}/f", create=True)
    assert file.pwrite(b"abc", 2) == 3
    assert file.pread(99, 0) == b"\0\0abc"
    assert file.pread(5, 50) == b""
    file.truncate(6)
    assert file.size() == files.size(f"{root}/f") == 6
    with pytest.raises(OSError):
        files.open(f"{root}/f", writable=False).pwrite(b"x", 0)
    files.rename(f"{root}/f", f"{root}/g")
    assert files.list(root) == ["deep", "g"]
    with pytest.raises(FileNotFoundError):
        files.unlink(f"{root}/f")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{root}/f", f"{root}/h")
    with pytest.raises(NotADirectoryError):
        files.list(f"{root}/g")
    with pytest.raises(FileNotFoundError):
        files.sync_dir(f"{root}/no")
    files.remove_tree(f"{root}/deep")
    assert files.list(root) == ["g"]
