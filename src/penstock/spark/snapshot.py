"""Where the partitions of a query begin and end, at one moment.

`latest` is what a reader of the query's isolation level sees: with read_committed a partition ends where its first open
transaction begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.client.offsets import EARLIEST, LATEST, list_offsets
from penstock.spark.subscription import Subscription, find_partitions
from penstock.types import TopicPartition

MAX_DELETIONS = 5
"""Of topics of one query, while a snapshot is taken."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """First offset and the one behind the last of each partition, and the ids of the topics."""

    earliest: Mapping[TopicPartition, int]
    latest: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]
    missing_topics: frozenset[str]

    def check_complete(self, known_topics: Collection[str] = ()) -> None:
        """UnknownTopicError for a topic that is not there and never was, as far as we know."""
        for topic in sorted(self.missing_topics - set(known_topics)):
            raise UnknownTopicError(topic)


def take_snapshot(cluster: Cluster, subscription: Subscription, *, isolation_level: int) -> Snapshot:
    """As it is now. A topic that is deleted while it is asked about counts as missing."""
    for _ in range(MAX_DELETIONS):
        try:
            return _take_once(cluster, subscription, isolation_level)
        except UnknownTopicError:  # those that are missing from the start are not asked about
            continue
    return _take_once(cluster, subscription, isolation_level)


def _take_once(cluster: Cluster, subscription: Subscription, isolation_level: int) -> Snapshot:
    """The ends are asked for last, so that they are never before the beginnings."""
    found = find_partitions(cluster, subscription)
    earliest = list_offsets(cluster, dict.fromkeys(found.partitions, EARLIEST))
    latest = list_offsets(cluster, dict.fromkeys(found.partitions, LATEST), isolation_level=isolation_level)
    return Snapshot(
        {where: at.offset for where, at in earliest.items()},
        {where: at.offset for where, at in latest.items()},
        found.topic_ids,
        found.missing_topics,
    )
