"""Topics and their settings: create, list, change and delete.

    admin = Admin(cluster)
    admin.create_topic("orders", partitions=3, configs={"retention.ms": "60000"})
    admin.create_partitions("orders", 6)
    admin.alter_configs("orders", {"retention.ms": None})       # None: back to the default

Rules:
- every call either did what it says or raises `KafkaError` with the broker's own words;
- `create_topic` and `create_partitions` return when the partitions have leaders, so that the next call can use them;
- a creation or deletion whose answer was lost is tried again and may then find its work done: that counts as success.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.client.metadata import NO_LEADER, TopicInfo, error_code
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.api import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    incremental_alter_configs,
)
from penstock.wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.wire.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from penstock.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from penstock.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from penstock.wire.api.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

BROKER_DEFAULT = -1
"""Partitions or replication factor as the broker is set up (KIP-464)."""

REQUEST_TIMEOUT_MS = 30_000
TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1


class ConfigSource(IntEnum):
    """Where a setting's value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


@dataclass(frozen=True, slots=True)
class Config:
    """A topic's setting as it is in force; the value of a secret is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool


class Admin:
    """What can be asked of a cluster about its topics."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # Topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, str] | None = None,
    ) -> TopicInfo:
        """Create a topic and wait until all of its partitions have leaders."""
        settings = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        topic = CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=replication_factor, configs=settings
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=REQUEST_TIMEOUT_MS)
        attempts = 0

        def attempt(deadline: float) -> None:
            nonlocal attempts
            attempts += 1
            response = self._cluster.request_controller(create_topics.API, request, deadline)
            result = cast("CreateTopicsResponse", response).topics[0]
            if not (result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and attempts > 1):
                _check(result.error_code, result.error_message, f"Topic {name!r} was not created")

        self._cluster.retry(attempt)
        return self._await_leaders(name, partitions)

    def list_topics(self, *, internal: bool = False) -> list[TopicInfo]:
        """Every topic by name; Kafka's own (`__consumer_offsets`) only when they are asked for."""
        topics = self._cluster.retry(lambda deadline: self._cluster.refresh(None, deadline=deadline).topics)
        return sorted((topic for topic in topics.values() if internal or not topic.is_internal), key=_name)

    def describe_topics(self, names: Collection[str]) -> list[TopicInfo]:
        """These topics in this order; KafkaError when one is not there."""
        self._cluster.forget_topics()

        def attempt(deadline: float) -> list[TopicInfo]:
            if names:
                self._cluster.refresh(names, deadline=deadline)
            return [self._cluster.topic(name, deadline=deadline) for name in names]

        return self._cluster.retry(attempt)

    def create_partitions(self, topic: str, count: int) -> None:
        """Raise a topic's number of partitions to `count`, and wait until the new ones have leaders."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)], timeout_ms=REQUEST_TIMEOUT_MS
        )

        def attempt(deadline: float) -> None:
            self._cluster.topic(topic, deadline=deadline)
            response = self._cluster.request_controller(create_partitions.API, request, deadline)
            result = cast("CreatePartitionsResponse", response).results[0]
            _check(result.error_code, result.error_message, f"Topic {topic!r} keeps its partitions")

        self._cluster.retry(attempt)
        self._await_leaders(topic, count)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all of its messages."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=REQUEST_TIMEOUT_MS
        )
        attempts = 0

        def attempt(deadline: float) -> None:
            nonlocal attempts
            attempts += 1
            response = self._cluster.request_controller(delete_topics.API, request, deadline)
            result = cast("DeleteTopicsResponse", response).responses[0]
            if result.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                _check(result.error_code, result.error_message, f"Topic {name!r} was not deleted")
            elif attempts == 1:
                raise UnknownTopicError(name)

        self._cluster.retry(attempt)
        self._cluster.forget_topics()

    def _await_leaders(self, name: str, count: int) -> TopicInfo:
        """A broker may answer before it has heard of its own work (KRaft): ask until it has."""

        def attempt(deadline: float) -> TopicInfo:
            info = self._cluster.refresh([name], deadline=deadline).topics[name]
            leaders = [partition.leader for partition in info.partitions]
            if info.error is not ErrorCode.NONE or len(leaders) < max(count, 1) or NO_LEADER in leaders:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"Topic {name!r} was made, but has no leaders yet.")
            return info

        return self._cluster.retry(attempt)

    # Settings

    def describe_configs(self, topics: Collection[str]) -> dict[str, list[Config]]:
        """The settings of each topic, in the broker's order."""
        resources = [
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
            for topic in topics
        ]
        request = DescribeConfigsRequest(resources=resources)

        def attempt(deadline: float) -> dict[str, list[Config]]:
            response = cast(
                "DescribeConfigsResponse",
                self._cluster.request(describe_configs.API, request, deadline=deadline),
            )
            for result in response.results:
                _check(result.error_code, result.error_message, f"The settings of topic {result.resource_name!r}")
            return {result.resource_name: [_config(entry) for entry in result.configs] for result in response.results}

        return self._cluster.retry(attempt)

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        """Set settings of a topic; None takes one back to its default. All of them, or none."""
        configs = [
            AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
            for name, value in changes.items()
        ]
        resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])

        def attempt(deadline: float) -> None:
            self._cluster.topic(topic, deadline=deadline)
            response = cast(
                "IncrementalAlterConfigsResponse",
                self._cluster.request_controller(incremental_alter_configs.API, request, deadline),
            )
            for result in response.responses:
                _check(result.error_code, result.error_message, f"The settings of topic {topic!r} were not changed")

        self._cluster.retry(attempt)

    # Records

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records below these offsets (-1: all of them); the partitions' new starts."""
        starts: dict[TopicPartition, int] = {}

        def attempt(deadline: float) -> None:
            by_leader: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
            for where, offset in before.items():
                if where not in starts:
                    by_leader[self._cluster.leader(where, deadline=deadline)][where] = offset
            for leader, offsets in by_leader.items():
                request = _delete_records_request(offsets)
                response = self._cluster.request(delete_records.API, request, node_id=leader, deadline=deadline)
                _take_starts(cast("DeleteRecordsResponse", response), starts)

        self._cluster.retry(attempt)
        return starts

    def log_sizes(self) -> dict[TopicPartition, dict[int, int]]:
        """Bytes on disk of each replica: partition -> node id -> bytes."""

        def attempt(deadline: float) -> dict[TopicPartition, dict[int, int]]:
            sizes: dict[TopicPartition, dict[int, int]] = defaultdict(dict)
            for node_id in self._cluster.refresh((), deadline=deadline).nodes:
                request = DescribeLogDirsRequest(topics=None)
                response = self._cluster.request(describe_log_dirs.API, request, node_id=node_id, deadline=deadline)
                _take_sizes(cast("DescribeLogDirsResponse", response), node_id, sizes)
            return sizes

        return self._cluster.retry(attempt)


def _name(topic: TopicInfo) -> str:
    return topic.name


def _check(code: int, message: str | None, what: str) -> None:
    found = error_code(code)
    if found is not ErrorCode.NONE:
        raise KafkaError(found, f"{what}: {message or found.message}")


def _config(entry: DescribeConfigsResourceResult) -> Config:
    try:
        source = ConfigSource(entry.config_source)
    except ValueError:  # a kind of source that is newer than we are
        source = ConfigSource.UNKNOWN
    return Config(entry.name, entry.value, source, entry.is_sensitive)


def _delete_records_request(offsets: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
    topics: dict[str, DeleteRecordsTopic] = {}
    for (topic, partition), offset in offsets.items():
        asked = topics.setdefault(topic, DeleteRecordsTopic(name=topic))
        asked.partitions.append(DeleteRecordsPartition(partition_index=partition, offset=offset))
    return DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=REQUEST_TIMEOUT_MS)


def _take_starts(response: DeleteRecordsResponse, starts: dict[TopicPartition, int]) -> None:
    for topic in response.topics:
        for result in topic.partitions:
            where = TopicPartition(topic.name, result.partition_index)
            _check(result.error_code, None, f"The records of {where} were not deleted")
            starts[where] = result.low_watermark


def _take_sizes(response: DescribeLogDirsResponse, node_id: int, sizes: dict[TopicPartition, dict[int, int]]) -> None:
    _check(response.error_code, None, "The log directories")
    for directory in response.results:
        for topic in directory.topics:
            for partition in topic.partitions:
                if not partition.is_future_key:
                    sizes[TopicPartition(topic.name, partition.partition_index)][node_id] = partition.partition_size
