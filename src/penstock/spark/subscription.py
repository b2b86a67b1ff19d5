"""Which partitions a query reads: named topics, topics whose names match a pattern, or partitions one by one.

A pattern is a regular expression for the whole name, and leaves out the cluster's internal topics. It is looked up anew
each time, so that a stream finds topics that were made after its start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.client.metadata import TopicInfo
from penstock.types import ZERO_TOPIC_ID, TopicPartition, topic_id_text


@dataclass(frozen=True, slots=True)
class Named:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matching:
    pattern: str


@dataclass(frozen=True, slots=True)
class Assigned:
    partitions: tuple[TopicPartition, ...]


Subscription = Named | Matching | Assigned


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The partitions in order, and the ids of their topics where the broker gives ids (since Kafka 2.8)."""

    partitions: tuple[TopicPartition, ...]
    topic_ids: Mapping[str, str]
    missing_topics: frozenset[str]
    """Named by the user, and not there."""


def find_partitions(cluster: Cluster, subscription: Subscription) -> Subscribed:
    """As they are now."""

    def attempt(deadline: float) -> Subscribed:
        names = _names(cluster, subscription, deadline)
        topics = list(_topics(cluster, names, deadline))
        missing = names - {topic.name for topic in topics}
        if isinstance(subscription, Assigned):
            partitions = [where for where in subscription.partitions if where.topic not in missing]
            for where in partitions:
                cluster.partition(where, deadline=deadline)
        else:
            partitions = [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]
        ids = {topic.name: topic_id_text(topic.topic_id) for topic in topics if topic.topic_id != ZERO_TOPIC_ID}
        return Subscribed(tuple(sorted(partitions)), ids, frozenset(missing))

    return cluster.retry(attempt)


def _names(cluster: Cluster, subscription: Subscription, deadline: float) -> set[str]:
    """Asks the cluster for the topics, and gives the names that are wanted."""
    if isinstance(subscription, Matching):
        matches = re.compile(subscription.pattern).fullmatch
        topics = cluster.refresh(None, deadline=deadline).topics
        return {name for name, topic in topics.items() if matches(name) and not topic.is_internal}
    if isinstance(subscription, Named):
        names = set(subscription.topics)
    else:
        names = {where.topic for where in subscription.partitions}
    cluster.refresh(names, deadline=deadline)
    return names


def _topics(cluster: Cluster, names: set[str], deadline: float) -> Iterator[TopicInfo]:
    for name in sorted(names):
        try:
            yield cluster.topic(name, deadline=deadline)
        except UnknownTopicError:
            continue
