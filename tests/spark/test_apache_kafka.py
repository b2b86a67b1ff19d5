"""The same source, sink and pipelines on Apache Kafka: what is spoken is the protocol, not a secret of our broker."""

from __future__ import annotations

import duckdb
import pytest

import penstock
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster as Connections
from penstock.client.groups import Groups
from pipelines import make_project, run

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

COUNT = 500


@pytest.fixture
def on_kafka(kafka):
    """Creates a topic of two partitions."""

    def create(name: str) -> str:
        with Connections(kafka.bootstrap) as opened:
            Admin(opened).create_topic(name, partitions=2)
        return name

    return create


@pytest.fixture
def filled(spark, kafka, on_kafka, name):
    """A topic on Kafka, written by Spark."""
    rows = spark.range(COUNT).selectExpr("cast(id as string) as key", "concat('v', id) as value")
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": on_kafka(name)}
    rows.write.format("penstock").options(**options).mode("append").save()
    return name


def values(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    rows = penstock.read(topic, start={partition: 0}, columns=["value"], bootstrap=bootstrap)
    return rows.read_all()["value"].to_pylist()


def test_what_was_written_is_read_in_a_batch_and_copied_by_a_stream(spark, kafka, on_kafka, filled, tmp_path):
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": filled, "startingOffsets": "earliest"}
    found = spark.read.format("penstock").options(**options).load().selectExpr("cast(value as string)").collect()
    assert sorted(row.value for row in found) == sorted(f"v{n}" for n in range(COUNT))

    copy, group = on_kafka(f"{filled}-copy"), f"{filled}-group"
    options |= {"maxOffsetsPerTrigger": "200", "kafka.group.id": group}
    rows = spark.readStream.format("penstock").options(**options).load().select("key", "value", "partition")
    writer = rows.writeStream.format("penstock").option("kafka.bootstrap.servers", kafka.bootstrap)
    writer = writer.option("topic", copy).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    original = [values(kafka.bootstrap, filled, partition) for partition in range(2)]
    assert [values(kafka.bootstrap, copy, partition) for partition in range(2)] == original
    with Connections(kafka.bootstrap) as opened:
        committed = Groups(opened).committed(group)
    ends = {at.partition: offset for at, offset in committed.items() if at.topic == filled}
    for partition in range(2):  # nothing is left: behind the messages there can only be markers
        assert ends[partition] >= len(original[partition])
        rest = penstock.read(filled, start={partition: ends[partition]}, bootstrap=kafka.bootstrap)
        assert rest.read_all().num_rows == 0


def test_pipelines_take_it_to_a_lake_and_to_penstock(spark, kafka, cluster, filled, tmp_path):
    at, lake = kafka.bootstrap, tmp_path / "lake"
    assert run(spark, make_project(tmp_path / "a", "lake", bootstrap=at, topic=filled, path=str(lake))).rows == COUNT
    assert duckdb.sql(f"SELECT count(DISTINCT value) FROM '{lake}/**/*.parquet'").fetchall() == [(COUNT,)]

    mirror = make_project(tmp_path / "b", "mirror", source=at, target=cluster.bootstrap, topics=filled)
    assert run(spark, mirror).rows == COUNT
    for partition in range(2):
        assert values(cluster.bootstrap, filled, partition) == values(at, filled, partition)
