"""From bytes to a handler and back: what is answered, what ends the connection, and that nothing is left hanging."""

from __future__ import annotations

import asyncio
import errno
import struct
from pathlib import Path
from typing import Any

import pytest

from in_process import Client, batch, connected, create_topic, frame, partition, run, running, until
from penstock.broker.context import Later
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.store import StoreError
from penstock.wire.api.alter_configs import AlterConfigsRequest
from penstock.wire.api.alter_configs import AlterConfigsResource as Replacement
from penstock.wire.api.api_versions import ApiVersionsRequest
from penstock.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.wire.api.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.wire.api.describe_log_dirs import DescribeLogDirsRequest
from penstock.wire.api.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from penstock.wire.api.metadata import MetadataRequest, MetadataRequestTopic
from penstock.wire.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest

DESCRIBE_CLUSTER = (60, 0, DescribeClusterRequest())
METADATA = (3, 12, MetadataRequest(topics=[]))


async def is_closed(client: Client) -> bool:
    return await client.reader.read() == b""


def replace_handler(broker: Any, key: int, version: int, handle: Any, is_async: bool = False) -> None:
    routes = broker.dispatcher._routes
    route = routes.get((key, version)) or broker.dispatcher._make_route(key, version)
    routes[key, version] = route._replace(handle=handle, is_async=is_async)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 7) + bytes(7),
        struct.pack(">ihhih", 10, 4711, 0, 1, -1),
        struct.pack(">ihhih", 10, 3, 99, 1, -1),
        struct.pack(">ihhihi", 14, 3, 1, 1, -1, 1_000_000),
        struct.pack(">ihhih", 10, 3, 1, 1, 500),
    ],
    ids=["shorter than a header", "unknown API", "unknown version", "a count without its items", "a cut client id"],
)
def test_what_cannot_be_served_ends_its_connection_only(tmp_path: Path, data: bytes) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as bad, connected(broker) as good:
            bad.writer.write(data)
            assert await is_closed(bad)
            assert (await good.call(*METADATA)).brokers

    run(scenario())


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_any_version_of_api_versions_is_answered(tmp_path: Path, version: int) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            client.writer.write(struct.pack(">ihhih", 10, 18, version, 77, -1))
            (size,) = struct.unpack(">i", await client.reader.readexactly(4))
            told = await client.reader.readexactly(size)
            assert struct.unpack_from(">ih", told) == (77, ErrorCode.UNSUPPORTED_VERSION)
            assert (await client.call(18, 3, ApiVersionsRequest("tests", "1"))).error_code == 0
            assert len(broker.dispatcher._routes) == 1  # made-up versions are not remembered

    run(scenario())


def test_a_request_that_names_too_many_things_is_refused_by_the_setting(tmp_path: Path) -> None:
    names = [MetadataRequestTopic(name=f"t{number}") for number in range(50)]

    async def scenario() -> None:
        async with running(tmp_path, "penstock.request.object.budget=40") as broker, connected(broker) as client:
            client.send(3, 12, MetadataRequest(topics=names, allow_auto_topic_creation=False))
            assert await is_closed(client)
            assert broker.context.metrics.malformed_requests == 1

    run(scenario())


@pytest.mark.parametrize("is_async", [False, True])
def test_a_bug_in_a_handler_ends_the_connection_and_is_counted(tmp_path: Path, is_async: bool) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    async def fail_async(*_: object) -> None:
        fail()

    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client, connected(broker) as other:
            replace_handler(broker, 60, 0, fail_async if is_async else fail, is_async)
            client.send(*DESCRIBE_CLUSTER)
            assert await is_closed(client)
            assert broker.context.metrics.unexpected_errors == 1
            assert (await other.call(*METADATA)).brokers

    run(scenario())


@pytest.mark.parametrize("is_async", [False, True])
def test_a_refusal_of_a_response_without_a_code_of_its_own_ends_the_connection(tmp_path: Path, is_async: bool) -> None:
    """It must not leave the client waiting."""

    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    async def refuse_async(*_: object) -> None:
        refuse()

    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            replace_handler(broker, 23, 4, refuse_async if is_async else refuse, is_async)
            client.send(23, 4, OffsetForLeaderEpochRequest())
            assert await is_closed(client)
            assert broker.context.metrics.unexpected_errors == 0

    run(scenario())


def test_an_answer_that_cannot_be_encoded_does_not_leave_the_client_waiting(tmp_path: Path) -> None:
    async def answer_nonsense(*_: object) -> DescribeClusterResponse:
        return DescribeClusterResponse(cluster_id=12)  # type: ignore[arg-type]

    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            replace_handler(broker, 60, 0, answer_nonsense, True)
            client.send(*DESCRIBE_CLUSTER)
            assert await is_closed(client)

    run(scenario())


def test_an_answer_may_be_there_before_the_handler_returns(tmp_path: Path) -> None:
    def at_once(*_: object) -> Later:
        later = Later()
        later.finish(lambda: DescribeClusterResponse(cluster_id="now"))
        return later

    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            replace_handler(broker, 60, 0, at_once)
            assert (await client.call(*DESCRIBE_CLUSTER)).cluster_id == "now"

    run(scenario())


def test_one_late_answer_that_fails_keeps_no_other_from_its_own(tmp_path: Path) -> None:
    waiting: list[Later] = []

    def wait(*_: object) -> Later:
        waiting.append(Later())
        return waiting[-1]

    def fail() -> DescribeClusterResponse:
        raise OSError(errno.EIO, "a bug")

    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as bad, connected(broker) as good:
            replace_handler(broker, 60, 0, wait)
            for client in (bad, good):
                client.send(*DESCRIBE_CLUSTER)
                await client.writer.drain()
            await until(lambda: len(waiting) == 2)
            waiting[0].finish(fail)
            waiting[1].finish(lambda: DescribeClusterResponse(cluster_id="fine"))
            results = await asyncio.gather(bad.reader.read(), good.reader.readexactly(4))
            assert sorted(map(len, results)) == [0, 4]

    run(scenario())


def test_a_late_answer_is_not_made_when_nobody_waits(tmp_path: Path) -> None:
    waiting: list[Later] = []
    made: list[int] = []

    def wait(*_: object) -> Later:
        waiting.append(Later())
        return waiting[-1]

    def make() -> DescribeClusterResponse:
        made.append(1)
        return DescribeClusterResponse()

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            async with connected(broker) as client:
                replace_handler(broker, 60, 0, wait)
                client.send(*DESCRIBE_CLUSTER)
                await until(lambda: waiting)
            await until(lambda: not broker.server.connections)
            assert waiting[0].is_cancelled
            waiting[0].finish(make)
            assert not made

    run(scenario())


def test_answers_keep_the_order_of_their_requests_whatever_takes_longer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            for _ in range(20):
                client.send(3, 12, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
                client.send(*DESCRIBE_CLUSTER)
            for _ in range(20):
                assert (await client.receive()).topics[0].name == "t"
                assert (await client.receive()).cluster_id == broker.context.image.cluster_id

    run(scenario())


TOPIC_TYPE = 2


@pytest.mark.parametrize(
    ("key", "version", "request_", "results"),
    [
        (19, 7, CreateTopicsRequest(topics=[CreatableTopic("t")]), "topics"),
        (20, 6, DeleteTopicsRequest(topics=[DeleteTopicState("t")]), "responses"),
        (20, 1, DeleteTopicsRequest(topic_names=["t"]), "responses"),
        (37, 3, CreatePartitionsRequest(topics=[CreatePartitionsTopic("t", 3)]), "results"),
        (33, 2, AlterConfigsRequest(resources=[Replacement(TOPIC_TYPE, "t")]), "responses"),
        (44, 1, IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(TOPIC_TYPE, "t")]), "responses"),
    ],
    ids=[
        "CreateTopics",
        "DeleteTopics",
        "DeleteTopics by name",
        "CreatePartitions",
        "AlterConfigs",
        "IncrementalAlter",
    ],
)
def test_a_store_that_fails_is_answered_for_each_thing_asked(
    tmp_path: Path, key: int, version: int, request_: Any, results: str
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise StoreError("The disk is full.")

    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            broker.context.controller._write = fail  # type: ignore[method-assign,assignment]
            (told,) = getattr(await client.call(key, version, request_), results)
            assert told.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    run(scenario())


def test_metadata_is_told_although_a_topic_cannot_be_created(tmp_path: Path) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise StoreError("The disk is full.")

    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            broker.context.controller._write = fail  # type: ignore[method-assign,assignment]
            told = await client.call(3, 12, MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
            assert [topic.error_code for topic in told.topics] == [ErrorCode.KAFKA_STORAGE_ERROR]
            assert told.brokers

    run(scenario())


def test_a_hundred_clients_that_want_the_same_new_topic_get_one(tmp_path: Path) -> None:
    async def ask(broker: Any) -> bytes:
        async with connected(broker) as client:
            told = await client.call(3, 12, MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
            (topic,) = told.topics
            assert topic.error_code == 0
            assert (await client.produce("new", batch(b"x"))).error_code == 0
            return bytes(topic.topic_id)

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            assert len(set(await asyncio.gather(*(ask(broker) for _ in range(100))))) == 1
            assert partition(broker, "new").log.log_end_offset == 100

    run(scenario())


def test_a_data_directory_that_went_away_is_reported_as_such(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "data") as broker, connected(broker) as client:
            (tmp_path / "data").rename(tmp_path / "moved")
            (told,) = (await client.call(35, 4, DescribeLogDirsRequest(topics=None))).results
            assert told.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            (tmp_path / "moved").rename(tmp_path / "data")

    run(scenario())


def test_produce_with_acks_0_and_an_error_ends_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            await client.produce("t", batch(b"fine"), acks=0)
            await client.produce("t", b"not a batch at all", acks=0)
            assert await is_closed(client)
            assert partition(broker, "t").log.log_end_offset == 1

    run(scenario())


def test_the_frame_of_these_tests_is_what_the_broker_reads() -> None:
    data = frame(*DESCRIBE_CLUSTER, 7)
    assert struct.unpack_from(">ihhi", data) == (len(data) - 4, 60, 0, 7)
