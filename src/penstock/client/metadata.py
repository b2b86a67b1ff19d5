"""What the brokers said of themselves and of topics, frozen as it was heard.

A topic in it has an error, or partitions; a partition may have no leader for a moment (`leader` is -1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.client.address import Address
from penstock.errors import ErrorCode
from penstock.types import TopicId
from penstock.wire.api.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

NO_LEADER = -1

_CODES = {int(code): code for code in ErrorCode}


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition, its leader and its replicas, by node id."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic and its partitions in order, or why it has none."""

    name: str
    topic_id: TopicId
    is_internal: bool
    error: ErrorCode
    partitions: tuple[PartitionInfo, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """Everything known at one moment."""

    cluster_id: str | None = None
    controller_id: int = -1
    nodes: Mapping[int, Address] = field(default_factory=dict)
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)

    def updated(self, response: MetadataResponse, *, is_complete: bool) -> Metadata:
        """With what a response says; a complete one names every topic, so others are gone."""
        heard = {topic.name: topic for topic in map(_topic_info, response.topics)}
        return replace(
            self,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            nodes={broker.node_id: Address(broker.host, broker.port) for broker in response.brokers},
            topics=heard if is_complete else {**self.topics, **heard},
        )


def error_code(code: int) -> ErrorCode:
    """A code that we do not know comes from a newer broker, and is as good as one it did not expect."""
    return _CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def _topic_info(topic: MetadataResponseTopic) -> TopicInfo:
    partitions = sorted(map(_partition_info, topic.partitions), key=lambda info: info.partition)
    return TopicInfo(
        topic.name or "", TopicId(topic.topic_id), topic.is_internal, error_code(topic.error_code), tuple(partitions)
    )


def _partition_info(partition: MetadataResponsePartition) -> PartitionInfo:
    return PartitionInfo(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        error_code(partition.error_code),
    )
