"""mirror: a copy in another cluster is the original, message by message, and a group goes on in it where it was."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

import penstock
from cli.commands import run as command
from penstock.client.cluster import Cluster as Connections
from penstock.client.groups import Groups
from penstock.spark.pipelines.offset_map import Stretch, map_key, read_offset_map, translate
from penstock.testing import Cluster
from penstock.types import TopicPartition
from pipelines import make_project, run

COPIED = ["topic", "partition", "key", "value", "headers", "timestamp"]


@pytest.fixture(scope="module")
def target() -> Iterator[Cluster]:
    with Cluster(log_retention_ms=-1) as running:  # the messages are of 2024
        yield running


def messages(bootstrap: str, topic: str, partition: int, start: int = 0) -> list[dict]:
    """All that a mirror keeps of the messages of a partition, in their order."""
    return penstock.read(topic, start={partition: start}, columns=COPIED, bootstrap=bootstrap).read_all().to_pylist()


def fill(cluster: Cluster, topic: str, count: int, **options: object) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = {
        "key": [f"k{n % 7}" for n in range(count)],
        "value": [f"v{n}" for n in range(count)],
        "headers": pa.array([[{"key": "n", "value": b"%d" % n}] for n in range(count)], kind),
        "partition": pa.array([n % 3 for n in range(count)], pa.int32()),
        "timestamp": pa.array([1_714_521_600_000 + n for n in range(count)], pa.timestamp("ms", "UTC")),
    }
    penstock.write(topic, pa.table(rows), bootstrap=cluster.bootstrap, **options)


def test_a_copy_is_the_original_and_a_group_goes_on_in_it(spark, cluster, target, tmp_path):
    topic = cluster.create_topic(partitions=3, retention_ms=-1)
    project = make_project(
        tmp_path / "p", "mirror", source=cluster.bootstrap, target=target.bootstrap, topics=topic
    )  # fmt: skip
    for part in ("first", "second"):  # in transactions: their markers are holes between offsets, on both sides
        fill(cluster, topic, 300, transactional_id=f"{topic}-{part}")
        fill(cluster, topic, 30)
        assert run(spark, project).rows == 330
    for partition in range(3):
        original = messages(cluster.bootstrap, topic, partition)
        assert len(original) == 220
        assert messages(target.bootstrap, topic, partition) == original

    committed = {TopicPartition(topic, 0): 70, TopicPartition(topic, 1): 150, TopicPartition(topic, 2): 222}
    with Connections(cluster.bootstrap) as connections:
        Groups(connections).commit(f"g-{topic}", committed)
    arguments = ("pipeline", "move-group", f"g-{topic}", "--from", cluster.bootstrap, "--to", target.bootstrap)
    assert not json.loads(command(*arguments, "--json").stdout)["executed"]
    assert command(*arguments, "--execute").exit_code == 0
    with Connections(target.bootstrap) as connections:
        moved = Groups(connections).committed(f"g-{topic}")
    assert set(moved) == set(committed)
    for where, offset in committed.items():
        left = messages(cluster.bootstrap, topic, where.partition, offset)
        assert messages(target.bootstrap, topic, where.partition, moved[where]) == left


def test_offsets_are_translated_exactly_without_holes_and_at_the_earliest_with_them():
    exact, holed = Stretch(100, 200, 10, 100), Stretch(200, 300, 111, 60)
    stretches = [exact, holed]
    assert [translate(stretches, offset) for offset in (100, 150, 199)] == [10, 60, 109]
    assert translate(stretches, 300) == 171
    assert translate(stretches, 1000) == 171  # what came after is not in the map
    assert translate(stretches, 290) == 161  # at most ten of the sixty are left
    assert translate(stretches, 210) == 111
    assert translate(stretches, 99) is None


def test_the_map_takes_stretches_in_any_order_twice_and_passes_over_what_is_none():
    where = TopicPartition("a/b", 3)
    first, second = Stretch(0, 10, 0, 10), Stretch(10, 20, 11, 10)
    records = [(map_key(where), each.as_value()) for each in (second, first, second)]
    assert read_offset_map([*records, (b"x", b"{}"), (b"\xff", b"\xff")]) == {where: [first, second]}
