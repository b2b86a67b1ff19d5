"""`df.write` and `df.writeStream` with format("penstock"), in a real Spark."""

from __future__ import annotations

import os
import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import penstock
from members import wait_until
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster as Connections
from penstock.client.groups import Groups
from penstock.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

FINISHED_SECONDS = 60
NewTopic = Callable[..., str]


@pytest.fixture
def new_topic(connections: Connections) -> NewTopic:
    def create(partitions: int = 1, **configs: str) -> str:
        created = f"t-{uuid.uuid4().hex[:12]}"
        named = {name.replace("_", "."): value for name, value in configs.items()}
        Admin(connections).create_topic(created, partitions=partitions, configs=named)
        return created

    return create


def test_all_columns_are_written(spark: SparkSession, cluster: Cluster, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    rows = [
        (b"k1", b"v1", [("h", b"1"), ("h", None)], 2, at),
        (None, None, None, 0, at),
        (b"", b"", [], 1, at),
    ]
    schema = (
        "key binary, value binary, headers array<struct<key string, value binary>>, partition int, timestamp timestamp"
    )
    save(spark.createDataFrame(rows, schema), cluster, topic=topic)
    found = penstock.read(topic, bootstrap=cluster.bootstrap, headers=True).read_all().sort_by("partition")
    by_partition = {row["partition"]: row for row in found.to_pylist()}
    assert (by_partition[2]["key"], by_partition[2]["value"]) == (b"k1", b"v1")
    assert by_partition[2]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert by_partition[2]["timestamp"] == at
    assert (by_partition[0]["key"], by_partition[0]["value"]) == (None, None)
    assert (by_partition[1]["key"], by_partition[1]["value"]) == (b"", b"")


def test_strings_are_written_and_columns_that_the_sink_does_not_know_are_left_alone(
    spark: SparkSession, cluster: Cluster, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    frame = spark.range(100).selectExpr("cast(id as string) as key", "concat('v', id) as value", "id as other")
    save(frame, cluster, topic=topic, **{"kafka.compression.type": "lz4"})
    assert values(cluster, topic) == Counter(f"v{number}" for number in range(100))


def test_a_column_names_the_topics(spark: SparkSession, cluster: Cluster, new_topic: NewTopic) -> None:
    even, odd = new_topic(), new_topic()
    frame = spark.range(10).selectExpr(
        "cast(id as string) as value", f"case when id % 2 = 0 then '{even}' else '{odd}' end as topic"
    )
    save(frame, cluster, exactlyOnce="true")
    assert values(cluster, even) == Counter("02468")
    assert values(cluster, odd) == Counter("13579")


@pytest.mark.parametrize(
    ("select", "options", "words"),
    [
        ("id as value", {}, "'value'.*binary or string"),
        ("cast(id as string) as valu", {}, "no column 'value'"),
        ("cast(id as string) as value, 'x' as partition", {}, "'partition'.*an integer"),
        ("cast(id as string) as value, id as timestamp", {}, "'timestamp'.*a timestamp"),
        ("cast(id as string) as value", {"topic": ""}, "No topic is named"),
        ("cast(id as string) as value", {"compresion.type": "lz4"}, "Did you mean compression.type"),
        ("cast(id as string) as value", {"topic": "no-such-topic"}, "There is no topic 'no-such-topic'"),
    ],
)
def test_what_cannot_be_written_is_a_sentence_and_nothing_is_written(
    spark: SparkSession,
    cluster: Cluster,
    new_topic: NewTopic,
    select: str,
    options: dict[str, str],
    words: str,
) -> None:
    topic = new_topic()
    frame = spark.range(4).selectExpr(*select.split(", "))
    with pytest.raises(Exception, match=f"(?s){words}"):
        save(frame, cluster, **{"topic": topic, "exactlyOnce": "true", **options})
    assert values(cluster, topic) == Counter()


def test_a_topic_cannot_be_overwritten(spark: SparkSession, cluster: Cluster, new_topic: NewTopic) -> None:
    frame = spark.range(1).selectExpr("'x' as value")
    with pytest.raises(Exception, match="cannot be overwritten"):
        save(frame, cluster, mode="overwrite", topic=new_topic())


def test_a_worker_that_is_killed_after_its_commit_is_run_again_and_writes_nothing_twice(
    spark: SparkSession, cluster: Cluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Spark never hears that the task is done: only the marker knows."""
    from pyspark.sql.types import StructType

    from penstock.spark.source import PenstockDataSource
    from penstock.spark.writer import TopicWriter, Written

    died = str(tmp_path)

    class DyingWriter(TopicWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
            from pyspark.taskcontext import TaskContext

            written = super().write(iterator)
            context = TaskContext.get()
            assert context is not None
            if context.attemptNumber() == 0:
                Path(died, str(context.partitionId())).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return written

    class DyingSource(PenstockDataSource):
        @classmethod
        def name(cls) -> str:
            return "dying"

        def writer(self, schema: StructType, overwrite: bool) -> DyingWriter:
            return DyingWriter(self.options, schema, overwrite)

    topic = new_topic()
    spark.dataSource.register(DyingSource)
    frame = spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as value")
    save(frame, cluster, name="dying", topic=topic, exactlyOnce="true")
    assert len(list(tmp_path.iterdir())) == 2
    assert values(cluster, topic) == Counter(map(str, range(100)))


# Streams


def test_a_stream_copies_a_topic_and_marks_how_far_it_is(
    spark: SparkSession, cluster: Cluster, connections: Connections, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, sink = new_topic(partitions=2), new_topic(partitions=2)
    fill(cluster, source, range(100))
    query = copy(spark, cluster, source, sink, tmp_path)
    finish(query)
    fill(cluster, source, range(100, 200))
    finish(copy(spark, cluster, source, sink, tmp_path))
    assert values(cluster, sink) == Counter(map(str, range(200)))
    groups = {each.name for each in Groups(connections).list_groups()}
    assert {f"sink-{query.id}", f"sink-{query.id}-0", f"sink-{query.id}-1"} <= groups


def test_a_batch_that_spark_did_not_commit_is_run_again_and_writes_nothing_twice(
    spark: SparkSession, cluster: Cluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    source, sink = new_topic(), new_topic()
    fill(cluster, source, range(50))
    finish(copy(spark, cluster, source, sink, tmp_path))
    commits = sorted((tmp_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink(missing_ok=True)  # as if the driver had died just before
    fill(cluster, source, range(50, 60))
    finish(copy(spark, cluster, source, sink, tmp_path))
    assert values(cluster, sink) == Counter(map(str, range(60)))


def test_counts_go_on_after_a_batch_was_run_again(
    spark: SparkSession, cluster: Cluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    """The state of an aggregate is kept although its rows are not written a second time."""
    source, sink = new_topic(), new_topic()
    fill(cluster, source, [1, 1, 2])
    finish(count(spark, cluster, source, sink, tmp_path))
    for path in (tmp_path / "commits").glob("*0*"):
        path.unlink()
    fill(cluster, source, [1, 2, 2])
    finish(count(spark, cluster, source, sink, tmp_path))
    assert values(cluster, sink) == Counter(["1=2", "2=1", "1=3", "2=3"])


def test_a_wrong_schema_of_a_stream_is_a_sentence(
    spark: SparkSession, cluster: Cluster, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    fill(cluster, topic, range(3))
    stream = read_stream(spark, cluster, topic).selectExpr("offset as value")
    with pytest.raises(Exception, match=r"(?s)'value'.*binary or string"):
        finish(start(stream, cluster, topic, tmp_path))


def test_a_stream_that_does_not_know_its_batch_is_a_sentence(spark: SparkSession, cluster: Cluster) -> None:
    from pyspark.sql.types import BinaryType, StructField, StructType

    from penstock.spark.writer import TopicStreamWriter

    options = {"bootstrap": cluster.bootstrap, "topic": "any"}
    writer = TopicStreamWriter(options, StructType([StructField("value", BinaryType())]))
    with pytest.raises(Exception, match=r"did not say which batch of which query.*sql\.streaming\.queryId"):
        spark.sparkContext.parallelize([0], 1).map(lambda _: writer.write(iter(()))).collect()


def test_a_broker_that_restarts_under_a_stream_costs_time_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster() as cluster:
        with Connections(cluster.bootstrap) as connections:
            for topic in ("in", "out"):
                Admin(connections).create_topic(topic, partitions=2)
        fill(cluster, "in", range(100))
        query = copy(spark, cluster, "in", "out", tmp_path, is_endless=True)
        wait_until(lambda: bool(query.recentProgress), FINISHED_SECONDS)
        for first in (100, 200):
            fill(cluster, "in", range(first, first + 100))
            cluster.stop()
            cluster.start()
        wait_until(lambda: sum(values(cluster, "out").values()) >= 300, FINISHED_SECONDS)
        query.stop()
        assert query.exception() is None
        assert values(cluster, "out") == Counter(map(str, range(300)))


# What the tests do beside


def save(frame: DataFrame, cluster: Cluster, mode: str = "append", name: str = "penstock", **options: str) -> None:
    writing = frame.write.format(name).mode(mode).option("kafka.bootstrap.servers", cluster.bootstrap)
    writing.options(**{key: value for key, value in options.items() if value}).save()


def fill(cluster: Cluster, topic: str, numbers: range | list[int]) -> None:
    texts = [str(number) for number in numbers]
    rows = pa.table({"key": texts, "value": texts})
    penstock.write(topic, rows, bootstrap=cluster.bootstrap)


def values(cluster: Cluster, topic: str) -> Counter[str]:
    """What a reader of committed data finds, and how often."""
    found = penstock.read(topic, bootstrap=cluster.bootstrap).read_all().column("value").to_pylist()
    return Counter("" if value is None else bytes(value).decode() for value in found)


def read_stream(spark: SparkSession, cluster: Cluster, topic: str) -> DataFrame:
    reading = spark.readStream.format("penstock").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reading.option("subscribe", topic).option("startingOffsets", "earliest").load()


def copy(
    spark: SparkSession, cluster: Cluster, source: str, sink: str, checkpoint: Path, is_endless: bool = False
) -> StreamingQuery:
    stream = read_stream(spark, cluster, source).select("key", "value", "partition")
    return start(stream, cluster, sink, checkpoint, is_endless=is_endless)


def count(spark: SparkSession, cluster: Cluster, source: str, sink: str, checkpoint: Path) -> StreamingQuery:
    counted = read_stream(spark, cluster, source).selectExpr("cast(value as string) as word").groupBy("word").count()
    return start(counted.selectExpr("concat(word, '=', count) as value"), cluster, sink, checkpoint, mode="complete")


def start(
    stream: DataFrame, cluster: Cluster, sink: str, checkpoint: Path, mode: str = "append", is_endless: bool = False
) -> StreamingQuery:
    writing = stream.writeStream.format("penstock").outputMode(mode).option("checkpointLocation", str(checkpoint))
    writing = (
        writing.option("bootstrap", cluster.bootstrap).option("topic", sink).option("transactionalIdPrefix", "sink")
    )
    return (writing if is_endless else writing.trigger(availableNow=True)).start()


def finish(query: StreamingQuery) -> None:
    """Until all that was there is done; its error when it failed."""
    query.awaitTermination(FINISHED_SECONDS)
    assert not query.isActive, "the query does not end"
