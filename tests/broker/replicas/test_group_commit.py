"""fsync mode: nothing is acknowledged or shown before it is on disk, and everything is in the end."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from in_process import (
    LONG_WAIT_MS,
    TestFiles,
    batch,
    connected,
    create_topic,
    partition,
    produce_request,
    run,
    running,
    until,
)
from penstock.broker.controller.topics import TopicRef
from penstock.errors import ErrorCode
from penstock.wire.api.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

FSYNC = "penstock.durability=fsync"


@pytest.fixture
def files() -> TestFiles:
    return TestFiles()


def test_an_answer_waits_for_the_disk_and_readers_wait_with_it(tmp_path: Path, files: TestFiles) -> None:
    async def scenario() -> None:
        async with running(tmp_path, FSYNC, files=files) as broker, connected(broker) as producer:
            await create_topic(broker, "t")
            files.may_sync.clear()
            answer = asyncio.create_task(producer.produce("t", batch(b"a", b"b")))
            log = partition(broker, "t").log
            await until(lambda: log.log_end_offset == 2)
            async with connected(broker) as reader:
                seen = await reader.fetch("t")
                assert (seen.high_watermark, bytes(seen.records or b"")) == (0, b"")
                latest = ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])
                found = await reader.call(2, 7, ListOffsetsRequest(topics=[latest]))
                assert found.topics[0].partitions[0].offset == 0
                assert not answer.done()
                files.may_sync.set()
                assert (await answer).base_offset == 0
                assert (await reader.fetch("t")).high_watermark == 2

    run(scenario())


def test_requests_that_come_while_the_disk_works_share_the_next_sync(tmp_path: Path, files: TestFiles) -> None:
    async def scenario() -> None:
        async with running(tmp_path, FSYNC, files=files) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            await client.produce("t", batch(b"warm"))
            files.may_sync.clear()
            before = files.sync_count
            for _ in range(8):
                client.send(0, 9, produce_request("t", batch(b"x")))
            log = partition(broker, "t").log
            await until(lambda: log.log_end_offset == 9)
            files.may_sync.set()
            answers = [(await client.receive()).responses[0].partition_responses[0] for _ in range(8)]
            assert [answer.base_offset for answer in answers] == list(range(1, 9))
            assert files.sync_count - before <= 2

    run(scenario())


def test_a_consumer_that_waits_for_many_bytes_is_woken_by_bytes_not_by_records(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, FSYNC) as broker, connected(broker) as producer, connected(broker) as consumer:
            await create_topic(broker, "t")
            waiting = asyncio.create_task(consumer.fetch("t", max_wait_ms=LONG_WAIT_MS, min_bytes=3000))
            await until(lambda: partition(broker, "t").waiters)
            for _ in range(3):
                await producer.produce("t", batch(b"x" * 1000))
            assert len((await waiting).records) > 3000

    run(scenario())


def test_what_was_produced_with_acks_0_becomes_visible(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, FSYNC) as broker, connected(broker) as producer, connected(broker) as consumer:
            await create_topic(broker, "t")
            await producer.produce("t", batch(b"x"), acks=0)
            assert (await consumer.fetch("t", max_wait_ms=LONG_WAIT_MS)).high_watermark == 1

    run(scenario())


def test_what_a_restart_finds_is_synced_and_then_visible(tmp_path: Path, files: TestFiles) -> None:
    """The records came in without fsync, and no checkpoint tells of them: a crash, and another durability."""

    async def scenario() -> None:
        async with running(tmp_path, "penstock.durability=os") as broker, connected(broker) as client:
            await create_topic(broker, "t")
            await client.produce("t", batch(b"a", b"b", b"c"))
        (tmp_path / ".kafka_cleanshutdown").unlink()
        for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            (tmp_path / name).unlink()
        before = files.sync_count
        async with running(tmp_path, FSYNC, files=files) as broker, connected(broker) as client:
            assert files.sync_count > before
            assert (await client.fetch("t")).high_watermark == 3

    run(scenario())


def test_a_failed_sync_fences_the_log_and_a_later_success_means_nothing(tmp_path: Path, files: TestFiles) -> None:
    """The kernel reports a lost write once: the next fdatasync says all is well although the bytes are gone."""

    async def scenario() -> None:
        async with running(tmp_path, FSYNC, files=files) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            await client.produce("t", batch(b"safe"))
            files.may_sync.clear()
            files.sync_error = OSError(errno.EIO, "lost")
            client.send(0, 9, produce_request("t", batch(b"first")))
            log = partition(broker, "t").log
            await until(lambda: broker.context.group_commit._running is not None)
            client.send(0, 9, produce_request("t", batch(b"second")))  # in the next group
            await until(lambda: log.log_end_offset == 3)
            on_done = broker.context.group_commit._on_done

            def fail_once(*arguments: object) -> None:
                files.sync_error = None
                on_done(*arguments)  # type: ignore[arg-type]

            broker.context.group_commit._on_done = fail_once  # type: ignore[method-assign]
            files.may_sync.set()
            answers = [(await client.receive()).responses[0].partition_responses[0] for _ in range(2)]
            assert [answer.error_code for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
            assert log.is_fenced
            assert (await client.produce("t", batch(b"third"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await client.fetch("t")).high_watermark == 1

    run(scenario())


def test_one_bad_partition_does_not_fail_the_others_of_its_group(tmp_path: Path, files: TestFiles) -> None:
    async def scenario() -> None:
        async with running(tmp_path, FSYNC, files=files) as broker, connected(broker) as one, connected(broker) as two:
            await create_topic(broker, "bad")
            await create_topic(broker, "good")
            files.may_sync.clear()
            answers = asyncio.gather(one.produce("bad", batch(b"x")), two.produce("good", batch(b"x")))
            await until(lambda: partition(broker, "bad").log.log_end_offset == 1)
            await until(lambda: partition(broker, "good").log.log_end_offset == 1)
            broken = partition(broker, "bad").log.segments.active.file
            broken.files = TestFiles()  # type: ignore[attr-defined]
            broken.files.sync_error = OSError(errno.EBADF, "gone")  # type: ignore[attr-defined]
            files.may_sync.set()
            codes = [answer.error_code for answer in await answers]
            assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0]

    run(scenario())


def test_a_topic_may_be_deleted_while_its_batch_is_synced(tmp_path: Path, files: TestFiles) -> None:
    async def scenario() -> None:
        async with running(tmp_path, FSYNC, files=files) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            await create_topic(broker, "other")
            log = partition(broker, "t").log
            files.may_sync.clear()
            answer = asyncio.create_task(client.produce("t", batch(b"x")))
            await until(lambda: log.log_end_offset == 1)
            await broker.context.controller.delete_topics([TopicRef("t")])
            files.may_sync.set()
            assert (await answer).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await client.produce("other", batch(b"x"))).error_code == 0
            assert not broker.context.replicas.logs.offline_directories

    run(scenario())


def test_a_stop_waits_for_the_sync_that_runs_and_the_one_after_it(tmp_path: Path, files: TestFiles) -> None:
    async def scenario() -> None:
        async with running(tmp_path, FSYNC, files=files) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            files.may_sync.clear()
            complaints: list[object] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
            client.send(0, 9, produce_request("t", batch(b"x")))
            await until(lambda: broker.context.group_commit._running is not None)
            client.send(0, 9, produce_request("t", batch(b"y")))
            await until(lambda: partition(broker, "t").log.log_end_offset == 2)
            stopping = asyncio.create_task(broker.stop())
            assert await client.reader.read() == b""  # nobody is left waiting
            assert not stopping.done()
            slow_disk = threading.Timer(0.3, files.may_sync.set)  # not in the loop, which may stand still
            slow_disk.start()
            await stopping
            slow_disk.join()
            assert not complaints
        async with running(tmp_path, FSYNC) as broker, connected(broker) as client:
            assert (await client.fetch("t")).high_watermark == 2

    run(scenario())
