"""The partitions of a broker follow the metadata, whatever the disk does."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

from in_process import (
    LONG_WAIT_MS,
    TestFiles,
    batch,
    connected,
    create_topic,
    partition,
    run,
    running,
    set_config,
    until,
)
from penstock.broker.controller.configs import ResourceType
from penstock.broker.controller.topics import NewPartitions, NewTopic, TopicRef
from penstock.errors import ErrorCode
from penstock.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic


def test_topics_come_back_after_a_restart_with_records_and_settings(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t", 2, max_message_bytes="2000")
            await client.produce("t", batch(b"a", b"b"), index=1)
        async with running(tmp_path) as broker:
            assert partition(broker, "t", 1).offsets() == (0, 2, 2, 2)
            assert partition(broker, "t", 0).log.config.max_message_bytes == 2000
            assert partition(broker, "t").leader_epoch == 1

    run(scenario())


def test_a_topic_that_is_made_again_is_another_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            old_id = partition(broker, "t").log.topic_id
            await client.produce("t", batch(b"old"))
            await broker.context.controller.delete_topics([TopicRef("t")])
            assert old_id not in broker.context.replicas.by_id
            await create_topic(broker, "t")
            assert partition(broker, "t").log.log_end_offset == 0
            by_id = FetchTopic(topic_id=old_id, partitions=[FetchPartition(0, partition_max_bytes=1000)])
            answer = await client.call(1, 13, FetchRequest(topics=[by_id]))
            assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    run(scenario())


def test_a_consumer_that_waits_on_a_topic_learns_at_once_that_it_is_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            waiting = asyncio.create_task(client.fetch("t", max_wait_ms=LONG_WAIT_MS))
            await until(lambda: partition(broker, "t").waiters)
            await broker.context.controller.delete_topics([TopicRef("t")])
            assert (await waiting).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(scenario())


def test_a_slice_of_a_deleted_topic_is_sent_to_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t", max_message_bytes="100000000", file_delete_delay_ms="0")
            value = bytes(range(256)) * 160_000
            assert (await client.produce("t", batch(value))).error_code == 0
            sending = asyncio.create_task(client.fetch("t", partition_max_bytes=100_000_000, max_bytes=100_000_000))
            (connection,) = broker.server.connections
            await until(lambda: not connection.outbox.is_empty)
            await broker.context.controller.delete_topics([TopicRef("t")])
            assert broker.context.replicas.logs.sweep_deleted(2**60) == 1
            assert len((await sending).records) > len(value)

    run(scenario())


def test_new_partitions_can_be_used_when_the_answer_comes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            await broker.context.controller.create_partitions([NewPartitions("t", 3)])
            assert (await client.produce("t", batch(b"x"), index=2)).error_code == 0

    run(scenario())


def test_settings_of_topics_and_brokers_reach_the_logs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await create_topic(broker, "own", retention_ms="1000")
            await create_topic(broker, "plain")
            await set_config(broker, ResourceType.BROKER, "", log_retention_ms="77000", message_max_bytes="5000")
            own, plain = partition(broker, "own").log, partition(broker, "plain").log
            assert (own.config.retention_ms, plain.config.retention_ms) == (1000, 77000)
            assert plain.config.max_message_bytes == 5000
            await set_config(broker, ResourceType.TOPIC, "plain", max_message_bytes="600", min_insync_replicas="2")
            assert plain.config.max_message_bytes == 600

    run(scenario())


def test_a_topic_that_cannot_be_made_on_disk_stops_nothing_else(tmp_path: Path) -> None:
    files = TestFiles()

    async def scenario() -> None:
        async with running(tmp_path, files=files) as broker, connected(broker) as client:
            await create_topic(broker, "before")
            files.create_error = OSError(errno.ENOSPC, "full")
            await broker.context.controller.create_topics([NewTopic("unlucky", 1, 1)])
            files.create_error = None
            await create_topic(broker, "after")
            codes = [(await client.produce(name, batch(b"x"))).error_code for name in ("before", "unlucky", "after")]
            assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
            await broker.context.controller.delete_topics([TopicRef("unlucky")])
        async with running(tmp_path) as broker:
            assert set(broker.context.replicas.by_name) == {"before", "after"}

    run(scenario())


def test_a_directory_that_the_metadata_does_not_know_is_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            await client.produce("t", batch(b"precious"))
        (tmp_path / "t-0").rename(tmp_path / "unknown-0")
        async with running(tmp_path) as broker:
            assert "unknown" not in broker.context.replicas.by_name
        (kept,) = tmp_path.glob("unknown-0*")
        assert b"precious" in (kept / "00000000000000000000.log").read_bytes()

    run(scenario())
