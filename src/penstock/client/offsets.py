"""Offsets by position or by time: where a partition starts and ends, and the first record at or after a moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, cast

from penstock.client.cluster import Cluster
from penstock.client.metadata import error_code
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.api import list_offsets as api
from penstock.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3

NO_OFFSET = -1

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels. For a reader of what is committed a partition ends where the first open transaction begins."""


class FoundOffset(NamedTuple):
    """An offset and the time of its record; NO_OFFSET when no record is that late, time -1 when it was not asked by."""

    offset: int
    timestamp: int


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, FoundOffset]:
    """For each partition a time in ms, or LATEST, EARLIEST or MAX_TIMESTAMP."""
    found: dict[TopicPartition, FoundOffset] = {}

    def attempt(deadline: float) -> None:
        missing = [where for where in wanted if where not in found]
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for where in missing:
            by_leader[cluster.leader(where, deadline=deadline)].append(where)
        for leader, partitions in by_leader.items():
            request = _request({where: wanted[where] for where in partitions}, isolation_level)
            response = cluster.request(api.API, request, node_id=leader, deadline=deadline)
            _take(cast("ListOffsetsResponse", response), found)

    cluster.retry(attempt)
    return found


def _request(wanted: Mapping[TopicPartition, int], isolation_level: int) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), timestamp in wanted.items():
        asked = topics.setdefault(topic, ListOffsetsTopic(name=topic))
        asked.partitions.append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=list(topics.values()))


def _take(response: ListOffsetsResponse, found: dict[TopicPartition, FoundOffset]) -> None:
    """Keep what was found, then raise the first error."""
    failed: KafkaError | None = None
    for topic in response.topics:
        for answer in topic.partitions:
            where = TopicPartition(topic.name, answer.partition_index)
            code = error_code(answer.error_code)
            if code is ErrorCode.NONE:
                found[where] = FoundOffset(answer.offset, answer.timestamp)
            else:
                failed = KafkaError(code, f"Partition {where}: {code.message}")
    if failed is not None:
        raise failed
