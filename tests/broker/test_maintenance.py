"""The chores: they happen, and one that fails is tried again."""

from __future__ import annotations

import asyncio
import errno
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from in_process import TestFiles, batch, connected, create_topic, partition, run, running, until
from penstock.broker import maintenance as maintenance_module
from penstock.broker.controller.topics import TopicRef
from penstock.broker.maintenance import Maintenance
from penstock.env.clock import SystemClock
from penstock.errors import ErrorCode

LONG_AGO_MS = 1_000_000_000_000
QUICK = "log.retention.check.interval.ms=10"


@pytest.fixture(autouse=True)
def quick_chores(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISK_PERIOD_S", "SWEEP_PERIOD_S", "MAX_FLUSH_PERIOD_S"):
        monkeypatch.setattr(maintenance_module, name, 0.01)


def test_records_older_than_the_retention_go_although_their_segment_is_the_active_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, QUICK) as broker, connected(broker) as client:
            await create_topic(broker, "t", retention_ms="50")
            await client.produce("t", batch(b"soon old"))
            log = partition(broker, "t").log
            await until(lambda: log.log_start_offset == 1)
            assert (await client.fetch("t", 0)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (await client.produce("t", batch(b"new"))).base_offset == 1

    run(scenario())


def test_records_that_are_old_on_arrival_are_not_taken_from_under_their_reader(tmp_path: Path) -> None:
    """A topic that is filled with what happened years ago; its readers have the time that any other topic's have."""

    async def scenario() -> None:
        async with running(tmp_path, QUICK) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            await create_topic(broker, "looked-at", retention_ms="1")
            await client.produce("t", batch(b"old", timestamp_ms=LONG_AGO_MS))
            await client.produce("looked-at", batch(b"x"))
            await until(lambda: partition(broker, "looked-at").log.log_start_offset == 1)
            assert len((await client.fetch("t", 0)).records) > 0

    run(scenario())


def test_the_files_of_a_deleted_topic_go_after_their_delay(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t", file_delete_delay_ms="0")
            await client.produce("t", batch(b"x"))
            await broker.context.controller.delete_topics([TopicRef("t")])
            assert not (tmp_path / "t-0").exists()
            await until(lambda: not list(tmp_path.glob("t-0*")))

    run(scenario())


@pytest.mark.parametrize("durability", ["os", "interval"])
def test_logs_are_flushed_by_the_clock(tmp_path: Path, durability: str) -> None:
    async def scenario() -> None:
        settings = [f"penstock.durability={durability}", "penstock.durability.interval.ms=10"]
        async with running(tmp_path, *settings) as broker, connected(broker) as client:
            await create_topic(broker, "t", flush_ms="1")
            await client.produce("t", batch(b"x"))
            await until(lambda: partition(broker, "t").log.recovery_point == 1)

    run(scenario())


def test_a_flush_that_fails_fences_that_log_and_the_others_go_on(tmp_path: Path) -> None:
    files = TestFiles()

    async def scenario() -> None:
        async with running(tmp_path, files=files) as broker, connected(broker) as client:
            for name in ("bad", "good"):
                await create_topic(broker, name, flush_ms="1")
            bad, good = (partition(broker, name).log for name in ("bad", "good"))
            broken = TestFiles()
            broken.sync_error = OSError(errno.EBADF, "gone")
            bad.segments.active.file.files = broken  # type: ignore[attr-defined]
            for name in ("bad", "good"):
                await client.produce(name, batch(b"x"))
            await until(lambda: good.recovery_point == 1)
            await until(lambda: bad.is_fenced)
            assert bad.recovery_point == 0
            assert (await client.produce("bad", batch(b"x"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await client.produce("good", batch(b"x"))).error_code == 0

    run(scenario())


def test_writes_are_refused_while_the_disk_is_nearly_full_and_reads_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t", 20)
            await client.produce("t", batch(b"before"))
            with monkeypatch.context() as full:
                full.setattr(maintenance_module, "_free_bytes", lambda _: 1000)
                await until(lambda: partition(broker, "t", 19).is_disk_full)
                assert (await client.produce("t", batch(b"x"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
                assert (await client.fetch("t")).high_watermark == 1
            await until(lambda: not partition(broker, "t", 19).is_disk_full)
            assert (await client.produce("t", batch(b"after"))).error_code == 0

    run(scenario())
    said = [record.message for record in caplog.records if "nearly full" in record.message]
    assert len(said) == 1  # not once for each partition


def test_checkpoints_are_written_while_the_broker_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, "log.flush.offset.checkpoint.interval.ms=10") as broker:
            await create_topic(broker, "t")
            checkpoint = tmp_path / "replication-offset-checkpoint"
            await until(lambda: checkpoint.exists() and "t 0 0" in checkpoint.read_text())

    run(scenario())


def test_a_chore_that_fails_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        calls: list[float] = []

        def chore() -> None:
            calls.append(time.monotonic())
            if len(calls) < 3:
                raise RuntimeError("not today")

        async with running(tmp_path) as broker:
            with ThreadPoolExecutor(1) as executor:
                chores = Maintenance(broker.context.replicas, SystemClock(), executor)
                chores._every("a chore", 0.001, chore)
                await until(lambda: len(calls) >= 4)
                await chores.stop()
            count = len(calls)
            await asyncio.sleep(0.02)
            assert len(calls) == count

    run(scenario())
    assert "a chore: failed" in caplog.text
