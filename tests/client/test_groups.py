"""Groups from outside, on both brokers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

import penstock as library
from brokers import Broker
from capabilities import needs_consumer_protocol
from changes import check_seen
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.groups import ActiveGroupError, Groups, UnknownGroupError
from penstock.client.metadata import Metadata
from penstock.types import TopicPartition


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap) as opened:
        yield opened


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


def test_offsets_that_are_set_are_told_and_a_deleted_topic_is_not(
    broker: Broker, cluster: Cluster, new_topic: Callable[..., str], group: str
) -> None:
    kept, deleted = new_topic(partitions=2), new_topic()
    offsets = {TopicPartition(kept, 0): 7, TopicPartition(kept, 1): 0, TopicPartition(deleted, 0): 3}
    groups = Groups(cluster)
    groups.commit(group, offsets)
    assert groups.committed(group) == offsets
    Admin(cluster).delete_topic(deleted)
    check_seen(broker, lambda: groups.committed(group), {TopicPartition(kept, 0): 7, TopicPartition(kept, 1): 0})


def test_the_offsets_of_many_groups_need_one_look_at_the_topics(
    cluster: Cluster, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = Groups(cluster)
    offsets = {f"{group}-{number}": {TopicPartition(topic, 0): number} for number in range(5)}
    for name, committed in offsets.items():
        groups.commit(name, committed)
    refresh, asked = cluster.refresh, list[object]()

    def counted(topics: Collection[str] | None, **options: Any) -> Metadata:
        asked.append(topics)
        return refresh(topics, **options)

    monkeypatch.setattr(cluster, "refresh", counted)
    assert groups.committed_by(list(offsets)) == offsets
    assert asked == [None]
    assert groups.committed_by([]) == {}


def test_groups_are_described_in_the_order_asked_for(cluster: Cluster, topic: str, group: str) -> None:
    groups = Groups(cluster)
    names = [f"{group}-{number}" for number in (2, 0, 1)]
    for name in names:
        groups.commit(name, {TopicPartition(topic, 0): 1})
    described = groups.describe(names)
    assert [(info.name, info.state, info.type, info.members) for info in described] == [
        (name, "Empty", "classic", ()) for name in names
    ]
    assert set(names) <= {listed.name for listed in groups.list_groups()}
    assert list(groups.find([group, names[0]])) == [names[0]]
    with pytest.raises(UnknownGroupError, match=group):
        groups.describe([names[0], group])


def test_a_group_of_the_consumer_protocol_is_described_too(
    broker: Broker, cluster: Cluster, new_topic: Callable[..., str], group: str
) -> None:
    needs_consumer_protocol(broker.bootstrap)
    topic = new_topic(partitions=2)
    options = {"group.protocol": "consumer"}
    groups = Groups(cluster)
    with library.Consumer(topic, broker.bootstrap, group=group, commit="manual", options=options) as consumer:
        consumer.wait_assigned()
        (info,) = groups.describe([group])
        assert (info.type, len(info.members)) == ("consumer", 1)
        assert sorted(info.members[0].partitions) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        with pytest.raises(ActiveGroupError, match="has members now"):
            groups.commit(group, {TopicPartition(topic, 0): 1})
        with pytest.raises(ActiveGroupError, match="has members now"):
            groups.delete(group)
    groups.commit(group, {TopicPartition(topic, 0): 1})
    groups.delete(group)
    assert groups.find([group]) == {}
