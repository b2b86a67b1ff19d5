"""M23: offsets are committed automatically, synchronously or asynchronously, and kept in a compacted topic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as library
import raw
from brokers import PenstockProcess
from clients import Confluent, Record
from mission.watching import poll_until
from penstock.broker.groups.records import OffsetRecord, decode
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.groups import Groups

OFFSETS = "__consumer_offsets"


@pytest.mark.parametrize("how", ["auto", "sync", "async", "manual"])
def test_m23_the_next_consumer_begins_where_the_last_one_committed(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str], group: str, how: Any
) -> None:
    """The consumer is still there when it is asked what is committed: it is not its end that commits."""
    topic = topic_on_penstock()
    Confluent().produce(penstock.bootstrap, topic, [Record(b"%d" % number) for number in range(10)])
    settings: Any = {"group": group, "commit": how, "options": {"auto.commit.interval.ms": 100}}
    with library.Consumer(topic, penstock.bootstrap, **settings) as first:
        assert [next(first).offset for _ in range(6)] == list(range(6))
        first.pause()
        if how == "manual":
            first.commit()
        poll_until(lambda: list(first.committed().values()) == [6], first)
    with library.Consumer(topic, penstock.bootstrap, stop_at_end=True, **settings) as second:
        assert [message.offset for message in second] == [6, 7, 8, 9]


def test_m23_offsets_are_kept_by_the_cluster_in_a_compacted_topic(tmp_path: Path, group: str) -> None:
    with PenstockProcess(tmp_path) as broker:
        with raw.Connection(broker.bootstrap) as connection:
            raw.create_topic(connection, "orders")
        Confluent().produce(broker.bootstrap, "orders", [Record(b"v")] * 10)
        with library.Consumer("orders", broker.bootstrap, group=group) as consumer:
            for _ in range(7):
                next(consumer)
        broker.restart()
        with Cluster(broker.bootstrap) as cluster:
            assert list(Groups(cluster).committed(group).values()) == [7]
            settings = Admin(cluster).describe_configs([OFFSETS])[OFFSETS]
        assert {each.name: each.value for each in settings}["cleanup.policy"] == "compact"
        options: Any = {"partitions": "all", "stop_at_end": True}
        with library.Consumer(OFFSETS, broker.bootstrap, **options) as reader:
            records = [record for message in reader for record in decode(message.key, message.value)]
    offsets = [record.value.offset for record in records if isinstance(record, OffsetRecord) and record.value]
    assert offsets[-1] == 7
