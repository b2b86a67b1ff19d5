"""Metadata, DescribeTopicPartitions, DescribeCluster, DescribeLogDirs, FindCoordinator: what a client learns first."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Any

import aiokafka.admin
import confluent_kafka.admin
import pytest
from kio.schema.errors import ErrorCode as Code

import raw
from brokers import Broker
from changes import check_created

OLDEST_WITH_IDS = 10
TOPIC_OPERATIONS = {3, 4, 5, 6, 7, 8, 10, 11}
CLUSTER_OPERATIONS = {5, 7, 8, 9, 10, 11, 12}
"""The operations (AclOperation) that a topic and a cluster know; without an authorizer everyone may do all of them."""


def describe(connection: raw.Connection, name: str, version: int = 12, create: bool = False) -> Any:
    """One topic's metadata by name."""
    asked = {"name": name, "topic_id": raw.NO_TOPIC_ID} if version >= OLDEST_WITH_IDS else {"name": name}
    extra = {"allow_auto_topic_creation": create} if version >= 4 else {}
    return connection.call("Metadata", version, topics=[asked], **extra).topics[0]


@pytest.mark.parametrize("version", range(14))
def test_every_version_describes_a_topic(
    broker: Broker, connection: raw.Connection, new_topic: Callable[..., str], version: int
) -> None:
    topic = new_topic(partitions=3)
    asked = {"name": topic, "topic_id": raw.NO_TOPIC_ID} if version >= OLDEST_WITH_IDS else {"name": topic}
    response = connection.call("Metadata", version, topics=[asked])
    (node,) = response.brokers
    assert f"{node.host}:{node.port}" == broker.bootstrap
    (described,) = response.topics
    assert (described.name, described.error_code, bool(described.is_internal)) == (topic, 0, False)
    assert sorted(partition.partition_index for partition in described.partitions) == [0, 1, 2]
    for partition in described.partitions:
        assert (partition.error_code, partition.leader_id) == (0, node.node_id)
        assert (partition.replica_nodes, partition.isr_nodes) == ([node.node_id], [node.node_id])
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert (partition.offline_replicas or []) == []
    if version >= 1:
        assert response.controller_id == node.node_id
    if version >= 2:
        assert len(response.cluster_id) == 22


def test_null_is_every_topic_and_an_empty_list_is_none(connection: raw.Connection, topic: str) -> None:
    for version in (1, 8, 9, 12, 13):
        every = connection.call("Metadata", version, topics=None).topics
        assert topic in {described.name for described in every}
        assert connection.call("Metadata", version, topics=[]).topics == []
    assert topic in {described.name for described in connection.call("Metadata", 0, topics=[]).topics}


def test_an_unknown_topic(connection: raw.Connection, name: str) -> None:
    described = describe(connection, name)
    assert (described.error_code, described.partitions) == (Code.unknown_topic_or_partition, [])
    assert describe(connection, name).error_code == Code.unknown_topic_or_partition, "asking did not create it"


@pytest.mark.parametrize("version", [0, 3, 4, 9, 12])
def test_asking_for_an_unknown_topic_may_create_it(
    broker: Broker, connection: raw.Connection, name: str, version: int
) -> None:
    """Versions before 4 always allow it. The first answer may be that the topic is unknown or has no leader yet."""
    first = describe(connection, name, version, create=True)
    assert first.error_code in (0, Code.unknown_topic_or_partition, Code.leader_not_available)
    deadline = time.monotonic() + 20
    while (described := describe(connection, name, version)).error_code != 0:
        assert time.monotonic() < deadline
    assert len(described.partitions) == 1
    check_created(broker, connection, name)
    assert raw.produce(connection, name, raw.batch([b"v"])).base_offset == 0


@pytest.mark.parametrize("bad", ["a b", "", ".", "x" * 250])
def test_a_bad_name_is_never_created(connection: raw.Connection, bad: str) -> None:
    for create in (False, True):
        assert describe(connection, bad, create=create).error_code == Code.invalid_topic_exception


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_by_id(connection: raw.Connection, topic: str, version: int) -> None:
    known, unknown = raw.topic_id(connection, topic), uuid.uuid4()
    asked = [{"name": None, "topic_id": topic_id} for topic_id in (known, unknown)]
    described = {one.topic_id: one for one in connection.call("Metadata", version, topics=asked).topics}
    assert (described[known].name, described[known].error_code) == (topic, 0)
    assert (described[unknown].name, described[unknown].error_code) == (None, Code.unknown_topic_id)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_are_refused_where_names_were_needed(connection: raw.Connection, topic: str, version: int) -> None:
    asked = [{"name": topic, "topic_id": raw.topic_id(connection, topic)}]
    assert connection.call("Metadata", version, topics=asked).topics[0].error_code == Code.invalid_request


def test_a_topic_asked_for_twice_is_answered_once(connection: raw.Connection, topic: str) -> None:
    asked = [{"name": topic, "topic_id": raw.NO_TOPIC_ID}] * 2
    assert len(connection.call("Metadata", 12, topics=asked).topics) == 1


def test_authorized_operations_are_told_when_asked_for(connection: raw.Connection, topic: str) -> None:
    asked = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
    with_operations = connection.call(
        "Metadata", 8, include_topic_authorized_operations=True, include_cluster_authorized_operations=True, **asked
    )
    assert with_operations.topics[0].authorized_operations == TOPIC_OPERATIONS
    assert with_operations.authorized_operations == CLUSTER_OPERATIONS
    without = connection.call("Metadata", 8, **asked)
    assert without.topics[0].authorized_operations is None


def test_many_partitions(broker: Broker, connection: raw.Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=200)
    records = raw.batch([b"v"])
    parts = [{"index": index, "records": records} for index in range(200)]
    data = [{"name": topic, "partition_data": parts}]
    response = connection.call("Produce", 11, acks=-1, timeout_ms=30_000, topic_data=data)
    assert {(p.error_code, p.base_offset) for p in response.responses[0].partition_responses} == {(0, 0)}
    asked = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in range(200)]
    fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    fetched = connection.call("Fetch", 12, topics=[{"topic": topic, "partitions": asked}], **fields)
    assert [raw.values(p.records) for p in fetched.responses[0].partitions] == [[b"v"]] * 200


# DescribeTopicPartitions


def pages(connection: raw.Connection, names: list[str], limit: int, cursor: dict[str, Any] | None = None) -> Any:
    asked = [{"name": name} for name in names]
    return connection.call("DescribeTopicPartitions", 0, topics=asked, response_partition_limit=limit, cursor=cursor)


def shape(response: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    topics = [(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics]
    cursor = response.next_cursor
    return topics, None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_partitions_are_described_page_by_page(connection: raw.Connection, new_topic: Callable[..., str]) -> None:
    first, second = sorted([new_topic(partitions=5), new_topic(partitions=5)])
    names = [second, first]
    assert shape(pages(connection, names, 3)) == ([(first, [0, 1, 2])], (first, 3))
    assert shape(pages(connection, names, 3, {"topic_name": first, "partition_index": 3})) == (
        [(first, [3, 4]), (second, [0])],
        (second, 1),
    )
    assert shape(pages(connection, names, 100, {"topic_name": second, "partition_index": 1})) == (
        [(second, [1, 2, 3, 4])],
        None,
    )


def test_a_described_partition_has_its_replicas(connection: raw.Connection, topic: str) -> None:
    (described,) = pages(connection, [topic], 2000).topics
    (partition,) = described.partitions
    node_id = connection.call("Metadata", 12, topics=[]).brokers[0].node_id
    assert (described.topic_id, described.is_internal) == (raw.topic_id(connection, topic), False)
    assert (partition.leader_id, partition.leader_epoch) == (node_id, 0)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([node_id], [node_id], [])
    assert described.topic_authorized_operations == sum(1 << operation for operation in TOPIC_OPERATIONS)


def test_unknown_topics_and_bad_cursors(connection: raw.Connection, topic: str, name: str) -> None:
    codes = {one.name: Code(one.error_code) for one in pages(connection, [topic, name, "a b"], 100).topics}
    expected = {topic: Code.none, name: Code.unknown_topic_or_partition, "a b": Code.invalid_topic_exception}
    assert codes == expected
    for cursor in ({"topic_name": topic, "partition_index": -1}, {"topic_name": name, "partition_index": 0}):
        answers = pages(connection, [topic], 100, cursor).topics
        assert [Code(one.error_code) for one in answers] == [Code.invalid_request]


# DescribeCluster, DescribeLogDirs, FindCoordinator


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_described(broker: Broker, connection: raw.Connection, version: int) -> None:
    metadata = connection.call("Metadata", 12, topics=[])
    response = connection.call("DescribeCluster", version, include_cluster_authorized_operations=True)
    assert (response.error_code, response.cluster_id) == (0, metadata.cluster_id)
    assert response.controller_id == metadata.controller_id
    (node,) = response.brokers
    assert (f"{node.host}:{node.port}", node.broker_id) == (broker.bootstrap, metadata.brokers[0].node_id)
    assert response.authorized_operations == CLUSTER_OPERATIONS


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(1, Code.none), (2, Code.mismatched_endpoint_type), (9, Code.unsupported_endpoint_type)]
)
def test_a_broker_describes_only_brokers(connection: raw.Connection, endpoint_type: int, code: Code) -> None:
    assert connection.call("DescribeCluster", 1, endpoint_type=endpoint_type).error_code == code


@pytest.mark.parametrize("version", range(1, 6))
def test_log_directories_know_the_size_of_each_partition(
    broker: Broker, connection: raw.Connection, topic: str, version: int
) -> None:
    records = raw.batch([b"x" * 1000])
    raw.produce(connection, topic, records)
    response = connection.call("DescribeLogDirs", version, topics=[{"topic": topic, "partitions": [0]}])
    (directory,) = response.results
    assert (directory.error_code, directory.log_dir) == (0, str(broker.log_dir))
    ((partition,),) = [described.partitions for described in directory.topics]
    assert (partition.partition_index, partition.partition_size) == (0, len(records))
    assert (partition.offset_lag, partition.is_future_key) == (0, False)
    if version >= 4:
        assert 0 < directory.usable_bytes < directory.total_bytes


def test_log_directories_leave_out_what_they_do_not_have(connection: raw.Connection, topic: str, name: str) -> None:
    for asked in ({"topic": name, "partitions": [0]}, {"topic": topic, "partitions": [7]}):
        (directory,) = connection.call("DescribeLogDirs", 4, topics=[asked]).results
        assert directory.topics == []
    (directory,) = connection.call("DescribeLogDirs", 4, topics=None).results
    assert topic in {described.name for described in directory.topics}


@pytest.mark.parametrize("version", range(7))
def test_a_coordinator_is_found_in_the_end(broker: Broker, connection: raw.Connection, version: int) -> None:
    """Kafka first creates the topic of offsets, and says meanwhile that there is no coordinator."""
    asked: dict[str, Any] = {"key": "g"} if version < 4 else {"key_type": 0, "coordinator_keys": ["g"]}
    deadline = time.monotonic() + 20
    while True:
        response = connection.call("FindCoordinator", version, **asked)
        found = response if version < 4 else response.coordinators[0]
        if found.error_code != Code.coordinator_not_available:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (found.error_code, f"{found.host}:{found.port}") == (0, broker.bootstrap)


def test_an_unknown_kind_of_coordinator_is_refused(connection: raw.Connection) -> None:
    response = connection.call("FindCoordinator", 4, key_type=9, coordinator_keys=["g"])
    assert response.coordinators[0].error_code == Code.invalid_request


# Clients


def test_confluent_sees_the_cluster(broker: Broker, topic: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    listed = admin.list_topics(timeout=20)
    assert topic in listed.topics
    assert {f"{node.host}:{node.port}" for node in listed.brokers.values()} == {broker.bootstrap}
    described = admin.describe_cluster().result(20)
    assert described.cluster_id == listed.cluster_id


def test_aiokafka_sees_the_topic(broker: Broker, topic: str) -> None:
    async def names() -> list[str]:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            listed: list[str] = await admin.list_topics()
            return listed
        finally:
            await admin.close()

    assert topic in asyncio.run(names())
