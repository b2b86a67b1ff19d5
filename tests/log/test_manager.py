"""All logs of a broker: found again, put aside, deleted, checkpointed, and closed cleanly or not at all."""

from __future__ import annotations

import errno
import random

import pytest

from log.batches import NOW_MS, batch
from log.worlds import ManualClock, offsets_and_values
from penstock.env.clock import SystemClock
from penstock.env.files import SystemFiles
from penstock.errors import ConfigError, StorageError
from penstock.log.config import LogConfig
from penstock.log.log import Log
from penstock.log.manager import LogManager
from penstock.testing.sim_files import SimFiles
from penstock.types import TopicPartition

A, B, C = (TopicPartition(topic, 0) for topic in "abc")
ID_A, ID_B = bytes(15) + b"\x0a", bytes(15) + b"\x0b"
CONFIG = LogConfig(file_delete_delay_ms=1000)
KNOWN = {A: (ID_A, CONFIG), B: (ID_B, CONFIG)}


class Broker:
    """The disks of a broker, over several lives of its log manager."""

    def __init__(self, directories: tuple[str, ...] = ("/d1",)) -> None:
        self.clock = ManualClock()
        self.files = SimFiles(clock=self.clock)
        self.directories = directories

    def start(self, known: dict[TopicPartition, tuple[bytes, LogConfig]] | None = None) -> LogManager:
        manager = LogManager(self.files, self.clock, self.directories)
        manager.open(KNOWN if known is None else known)
        return manager


def append(log: Log, *values: bytes) -> None:
    for value in values:
        log.append_as_leader(batch([value]), 0)
    log.advance_high_watermark(log.log_end_offset)


def values(log: Log) -> list[bytes]:
    return [value for _, value in offsets_and_values(log, log.log_start_offset)]


def test_logs_are_found_again_after_a_clean_stop() -> None:
    broker = Broker(("/d1", "/d2"))
    manager = broker.start()
    append(manager.create(A, ID_A, CONFIG), b"1", b"2")
    append(manager.create(B, ID_B, CONFIG), b"3")
    assert {log.directory for log in manager.logs.values()} == {"/d1/a-0", "/d2/b-0"}, "each directory gets its share"
    manager.close()
    assert broker.files.synced_bytes("/d1/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    assert broker.files.synced_bytes("/d1/recovery-point-offset-checkpoint") == b"0\n1\na 0 2\n"
    assert broker.files.synced_bytes("/d1/replication-offset-checkpoint") == b"0\n1\na 0 2\n"
    assert broker.files.synced_bytes("/d1/log-start-offset-checkpoint") == b"0\n0\n"
    again = broker.start()
    assert {tp: values(log) for tp, log in again.logs.items()} == {A: [b"1", b"2"], B: [b"3"]}
    assert again.logs[A].high_watermark == 2
    assert again.logs[A].topic_id == ID_A


def test_the_clean_marker_is_gone_durably_before_the_first_append() -> None:
    broker = Broker()
    broker.start().close()
    broker.start()
    for seed in range(20):
        broker.files.crash(random.Random(seed))
        assert not broker.files.exists("/d1/.kafka_cleanshutdown")


def test_after_a_crash_everything_that_was_flushed_is_there() -> None:
    for seed in range(50):
        broker = Broker()
        manager = broker.start()
        log = manager.create(A, ID_A, CONFIG)
        append(log, b"1", b"2", b"3")
        log.flush()
        manager.checkpoint()
        append(log, b"4", b"5")
        broker.files.crash(random.Random(seed))
        recovered = values(broker.start().logs[A])
        assert recovered[:3] == [b"1", b"2", b"3"]
        assert [b"1", b"2", b"3", b"4", b"5"][: len(recovered)] == recovered


def test_deleted_records_stay_deleted_after_a_restart() -> None:
    broker = Broker()
    manager = broker.start()
    append(manager.create(A, ID_A, CONFIG), b"1", b"2", b"3")
    manager.logs[A].delete_records(2)
    manager.checkpoint()
    assert broker.files.synced_bytes("/d1/log-start-offset-checkpoint") == b"0\n1\na 0 2\n"
    broker.files.kill()
    assert broker.start().logs[A].log_start_offset == 2


def test_a_partition_that_the_metadata_does_not_know_is_kept_as_a_stray() -> None:
    """B24: never deleted on absence."""
    broker = Broker()
    manager = broker.start()
    append(manager.create(A, ID_A, CONFIG), b"1")
    manager.close()
    again = broker.start(known={})
    assert again.logs == {}
    again.sweep_deleted(NOW_MS + 10**9)
    assert [name for name in broker.files.list("/d1") if name.startswith("a-0")] == [f"a-0.{ID_A.hex()}-stray"]
    assert broker.files.size(f"/d1/a-0.{ID_A.hex()}-stray/{0:020d}.log") > 0


def test_a_topic_made_again_does_not_see_the_old_ones_records() -> None:
    """B22: the directory says which topic it belongs to."""
    broker = Broker()
    manager = broker.start()
    append(manager.create(A, ID_A, CONFIG), b"old")
    manager.close()
    again = broker.start(known={A: (ID_B, CONFIG)})
    assert A not in again.logs
    assert values(again.create(A, ID_B, CONFIG)) == []
    assert f"a-0.{ID_A.hex()}-stray" in broker.files.list("/d1")


def test_a_directory_that_is_no_partition_is_left_alone() -> None:
    broker = Broker()
    for name in ("lost+found", "__cluster_metadata-0", "x.y", f"a-0.{'1' * 32}-stray", f"a-0.{'1' * 32}-future"):
        broker.files.make_dir(f"/d1/{name}")
    before = set(broker.files.list("/d1"))
    broker.start().close()
    assert before <= set(broker.files.list("/d1"))


def test_a_deleted_log_is_renamed_at_once_and_removed_later() -> None:
    broker = Broker()
    manager = broker.start()
    log = manager.create(A, ID_A, CONFIG)
    append(log, b"1")
    found = log.read(0, 100, 1)
    manager.delete(A)
    assert A not in manager.logs
    assert f"a-0.{ID_A.hex()}-delete" in broker.files.list("/d1")
    assert manager.sweep_deleted(NOW_MS + 999) == 0
    assert found is not None
    assert b"1" in found.file.pread(found.size, found.position)
    assert manager.sweep_deleted(NOW_MS + 1000) == 1
    assert f"a-0.{ID_A.hex()}-delete" not in broker.files.list("/d1")
    with pytest.raises(StorageError):
        log.append_as_leader(batch(), 0)


def test_a_deletion_that_a_stop_interrupted_is_finished_by_the_next_start() -> None:
    broker = Broker()
    manager = broker.start()
    append(manager.create(A, ID_A, CONFIG), b"1")
    manager.delete(A)
    manager.close()
    again = broker.start(known={})
    assert again.sweep_deleted(NOW_MS) == 1
    assert not [name for name in broker.files.list("/d1") if name.startswith("a-0")]


def test_a_long_topic_name_still_fits_when_it_is_deleted() -> None:
    broker = Broker()
    manager = broker.start()
    tp = TopicPartition("t" * 249, 0)
    manager.create(tp, ID_A, CONFIG)
    manager.delete(tp)
    assert all(len(name) <= 255 for name in broker.files.list("/d1"))


def test_a_bad_disk_takes_its_directory_offline_and_no_other() -> None:
    broker = Broker(("/d1", "/d2"))
    manager = broker.start()
    first, second = manager.create(A, ID_A, CONFIG), manager.create(B, ID_B, CONFIG)
    third = manager.create(C, ID_B, CONFIG)
    assert [log.directory[:3] for log in (first, second, third)] == ["/d1", "/d2", "/d1"]
    broker.files.fail_when(lambda name, path: name == "pwrite" and path.startswith("/d1"), OSError(errno.EIO, "bad"))
    with pytest.raises(StorageError):
        first.append_as_leader(batch(), 0)
    assert list(manager.offline_directories) == ["/d1"]
    assert third.is_fenced
    append(second, b"fine")
    manager.checkpoint()
    manager.close()
    assert broker.files.exists("/d2/.kafka_cleanshutdown")
    assert not broker.files.exists("/d1/.kafka_cleanshutdown")


def test_no_empty_log_replaces_one_in_a_directory_that_is_offline() -> None:
    broker = Broker(("/d1", "/d2"))
    manager = broker.start()
    append(manager.create(A, ID_A, CONFIG), b"1")
    manager.close()
    broker.files.fail_when(lambda name, path: path.startswith("/d1"), OSError(errno.EROFS, "read-only"))
    again = broker.start()
    assert list(again.offline_directories) == ["/d1"]
    with pytest.raises(StorageError):
        again.create(A, ID_A, CONFIG)
    again.create(C, ID_B, CONFIG)


def test_no_usable_directory_stops_the_start_with_a_sentence() -> None:
    broker = Broker()
    broker.files.fail_when(lambda name, path: True, OSError(errno.EROFS, "read-only file system"))
    with pytest.raises(ConfigError, match=r"No data directory can be used: .*read-only"):
        broker.start()


def test_a_fenced_log_is_not_marked_clean() -> None:
    broker = Broker()
    manager = broker.start()
    log = manager.create(A, ID_A, CONFIG)
    append(log, b"1")
    log.fence(OSError(errno.ENOSPC, "sync failed"))
    manager.close()
    assert not broker.files.exists("/d1/.kafka_cleanshutdown")


def test_logs_are_due_to_be_flushed_by_count_by_time_and_when_a_segment_was_closed() -> None:
    broker = Broker()
    manager = broker.start()
    by_count = manager.create(A, ID_A, LogConfig(flush_messages=2))
    by_time = manager.create(B, ID_B, LogConfig(flush_ms=100))
    rolled = manager.create(C, ID_B, CONFIG)
    assert manager.flush_due(NOW_MS + 1000) == []
    for log in (by_count, by_time, rolled):
        append(log, b"1")
    assert manager.flush_due(NOW_MS) == []
    append(by_count, b"2")
    assert manager.flush_due(NOW_MS) == [by_count]
    assert manager.flush_due(NOW_MS + 100) == [by_count, by_time]
    rolled.roll()
    assert manager.flush_due(NOW_MS) == [by_count, rolled]
    for log in (by_count, rolled):
        syncables, end_offset = log.files_to_sync()
        for syncable in syncables:
            syncable.sync()
        log.on_synced(end_offset)
    assert manager.flush_due(NOW_MS) == []


def test_a_checkpoint_that_says_nothing_new_is_not_written() -> None:
    broker = Broker()
    manager = broker.start()
    append(manager.create(A, ID_A, CONFIG), b"1")
    manager.checkpoint()
    calls = broker.files.call_count
    manager.checkpoint()
    assert broker.files.call_count == calls


def test_meta_properties_say_whose_directory_it_is() -> None:
    broker = Broker()
    manager = broker.start()
    manager.write_identity("cluster-one", 1, [bytes(16)])
    text = (broker.files.synced_bytes("/d1/meta.properties") or b"").decode()
    assert "cluster.id=cluster-one\n" in text
    assert "node.id=1\n" in text
    assert "version=1\n" in text
    manager.check_identity("cluster-one", 1)
    for cluster_id, node_id in (("cluster-two", 1), ("cluster-one", 2)):
        with pytest.raises(ConfigError, match=r"meta\.properties"):
            manager.check_identity(cluster_id, node_id)


def test_progress_is_told_while_logs_are_opened() -> None:
    broker = Broker()
    manager = broker.start()
    for tp, (topic_id, config) in KNOWN.items():
        manager.create(tp, topic_id, config)
    manager.close()
    told: list[tuple[int, int, TopicPartition]] = []
    LogManager(broker.files, broker.clock, ("/d1",)).open(KNOWN, lambda *what: told.append(what))
    assert told == [(0, 2, A), (1, 2, B)]


def test_a_data_directory_is_used_by_one_process_only(tmp_path) -> None:
    import subprocess
    import sys

    manager = LogManager(SystemFiles(), SystemClock(), [str(tmp_path)])
    manager.open({})
    program = (
        "import sys; from penstock.env.clock import SystemClock; from penstock.env.files import SystemFiles\n"
        "from penstock.log.manager import LogManager\n"
        "LogManager(SystemFiles(), SystemClock(), [sys.argv[1]]).open({})"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "Another broker uses the data directory" in refused.stderr
    manager.close()
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0


def test_real_files_are_appended_read_and_found_again(tmp_path) -> None:
    files, clock = SystemFiles(), SystemClock()
    manager = LogManager(files, clock, [str(tmp_path)])
    manager.open({})
    log = manager.create(A, ID_A, LogConfig(segment_bytes=500))
    for number in range(50):
        log.append_as_leader(batch([b"%d" % number], timestamp=clock.now_ms()), 0)
    manager.close()
    again = LogManager(files, clock, [str(tmp_path)])
    again.open({A: (ID_A, LogConfig())})
    assert values(again.logs[A]) == [b"%d" % number for number in range(50)]
    again.close()
