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
    """As it is now. The ends are asked for last, so that they are never before the beginnings."""
    found = find_partitions(cluster, subscription)
    earliest = list_offsets(cluster, dict.fromkeys(found.partitions, EARLIEST))
    latest = list_offsets(cluster, dict.fromkeys(found.partitions, LATEST), isolation_level=isolation_level)
    return Snapshot(
        {where: at.offset for where, at in earliest.items()},
        {where: at.offset for where, at in latest.items()},
        found.topic_ids,
        found.missing_topics,
    )
