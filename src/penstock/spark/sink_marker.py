"""Markers: how far a sink has come, as committed offsets of groups that no consumer is in.

    group                       offset        note               written
    <prefix>-<query>-<task>     batch id + 1  {"rows": 1000}     in the transaction that writes the task's rows
    <prefix>-<query>            batch id + 1  {"tasks": 4}       when all tasks of the batch are done

The first are what makes a sink exact: rows and marker are committed together or not at all. The second is a summary:
whoever finds it needs not look for the others, and it says how many there are.

A committed offset belongs to a partition that exists: it is one of partition 0 of the sink's topic, or of any topic
that was written to where a column names them. The greatest of a group counts.

Rules: a marker is read only when no transaction that would change it is open (`require_stable`), after the task has
taken its transactional id, so that none can be opened any more. Brokers forget offsets of a group without members after
`offsets.retention.minutes` (seven days) without a commit: a query that was stopped in the middle of a batch for longer
than that writes the batch again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import cast

from penstock.client.cluster import Cluster
from penstock.client.coordinator import GROUP, find_coordinator
from penstock.client.metadata import error_code
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.api import offset_commit, offset_fetch
from penstock.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

Note = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Marker:
    """The batch id that is next, and what its writer noted of the one before."""

    next_batch_id: int
    note: Note


NOT_BEGUN = Marker(0, {})


def read_marker(cluster: Cluster, group: str) -> Marker:
    """What is committed, once nothing is open that would change it."""
    return cluster.retry(lambda deadline: _read(cluster, group, deadline))


def _read(cluster: Cluster, group: str, deadline: float) -> Marker:
    request = OffsetFetchRequest(
        group_id=group,
        topics=None,
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None)],
        require_stable=True,
    )
    node_id = find_coordinator(cluster, GROUP, group, deadline)
    response = cast(
        "OffsetFetchResponse", cluster.request(offset_fetch.API, request, node_id=node_id, deadline=deadline)
    )
    found = response.groups[0] if response.groups else response
    partitions = [each for topic in found.topics for each in topic.partitions]
    for code in [found.error_code, *(each.error_code for each in partitions)]:
        _check(code, f"The marker {group!r} cannot be read")
    markers = [Marker(each.committed_offset, _note(each.metadata)) for each in partitions]
    return max(markers, key=lambda marker: marker.next_batch_id, default=NOT_BEGUN)


def write_marker(cluster: Cluster, group: str, topic: str, marker: Marker) -> None:
    """Outside of a transaction: for what is known to be so."""

    def attempt(deadline: float) -> None:
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=marker.next_batch_id, committed_metadata=note_text(marker.note)
        )
        topic_id = cluster.topic(topic, deadline=deadline).topic_id
        topics = [OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[partition])]
        request = OffsetCommitRequest(group_id=group, topics=topics)
        node_id = find_coordinator(cluster, GROUP, group, deadline)
        answer = cluster.request(offset_commit.API, request, node_id=node_id, deadline=deadline)
        for each in cast("OffsetCommitResponse", answer).topics:
            _check(each.partitions[0].error_code, f"The marker {group!r} was not written")

    cluster.retry(attempt)


def marker_partition(topics: Collection[str]) -> TopicPartition:
    """Whose offset is a marker, of all that is written to."""
    return TopicPartition(min(topics), 0)


def note_text(note: Note) -> str:
    return json.dumps(dict(note), separators=(",", ":"))


def _note(text: str | None) -> Note:
    """Nothing when somebody else has committed here: an offset counts without its note."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, int)}


def _check(code: int, doing: str) -> None:
    error = error_code(code)
    if error is not ErrorCode.NONE:
        raise KafkaError(error, f"{doing}: {error.message}")
