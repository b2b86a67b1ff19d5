"""The batch reader as Spark calls it, with real brokers and without a JVM: where it starts, ends and splits."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.client.admin import Admin
from penstock.client.cluster import UnknownTopicError
from penstock.errors import ConfigError, KafkaError
from penstock.spark.loss import LostDataError
from penstock.spark.options import batch_options
from penstock.spark.reader import TopicReader
from penstock.spark.rows import row_type
from penstock.spark.source import PenstockDataSource
from penstock.types import TopicPartition


@pytest.fixture
def cluster(every_cluster):
    return every_cluster


@pytest.fixture
def read(cluster):
    """`read("orders", minPartitions="3")` gives the rows as the tasks read them."""

    def run(topic, **options):
        reader = make(topic, **options)
        return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]

    def make(topic, **options):
        given = {"kafka.bootstrap.servers": cluster.bootstrap, **options}
        if not {"subscribePattern", "assign"} & options.keys():
            given["subscribe"] = topic
        return pickle.loads(pickle.dumps(TopicReader(batch_options(given))))

    run.reader = make
    return run


def values(rows):
    return [row["value"].decode() for row in rows]


def milliseconds(*stamps):
    return {"timestamp": pa.array([datetime.fromtimestamp(ms / 1000, UTC) for ms in stamps], pa.timestamp("us", "UTC"))}


def test_a_batch_is_the_whole_topic_with_sparks_columns(cluster, write, read):
    topic = cluster.create_topic()
    write(topic, ["a", "b"], key=["k", None], **milliseconds(1000, 2000))
    rows = read(topic)
    assert list(rows[0]) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert [(row["key"], row["value"], row["partition"], row["offset"]) for row in rows] == [
        (b"k", b"a", 0, 0),
        (None, b"b", 0, 1),
    ]
    assert rows[1]["timestamp"] == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert {(row["topic"], row["timestampType"]) for row in rows} == {(topic, 0)}


@pytest.mark.parametrize("with_headers", [False, True])
def test_the_arrow_batches_have_exactly_the_schema_that_spark_expects(cluster, write, read, with_headers):
    topic = cluster.create_topic()
    write(topic, ["a"])
    reader = read.reader(topic, includeHeaders=str(with_headers))
    batch = next(reader.read(reader.partitions()[0]))
    assert batch.schema.equals(to_arrow_schema(row_type(with_headers=with_headers), timezone="UTC"))


def test_a_batch_is_split_finer_than_partitions_and_read_once(cluster, write, read):
    topic = cluster.create_topic(partitions=2)
    for start in range(0, 100, 10):  # in record batches of ten, so that splits go through them
        write(topic, [str(start + n) for n in range(10)])
    assert len(read.reader(topic, minPartitions="7").partitions()) == 7
    assert values(read(topic, minPartitions="7")) == [str(n) for n in range(100)]
    assert len(read.reader(topic, maxRecordsPerPartition="30").partitions()) == 4


def test_a_topic_without_records_is_an_empty_table(cluster, read):
    assert read(cluster.create_topic()) == []


def test_offsets_say_where_to_start_and_end(cluster, write, read):
    topic = cluster.create_topic(partitions=2)
    write(topic, list("abcde"))
    write(topic, list("xyz"), partition=1)
    rows = read(
        topic,
        startingOffsets=json.dumps({topic: {"0": 1, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 3, "1": -1}}),
    )
    assert values(rows) == list("bcxyz")


def test_times_say_where_to_start_and_end(cluster, write, read):
    topic = cluster.create_topic(partitions=2)
    write(topic, list("abc"), **milliseconds(1000, 2000, 3000))
    write(topic, list("xyz"), partition=1, **milliseconds(1500, 2500, 3500))
    assert values(read(topic, startingTimestamp="2000", endingTimestamp="3000")) == list("by")
    by_partition = json.dumps({topic: {"0": 3000, "1": 1000}})
    assert values(read(topic, startingOffsetsByTimestamp=by_partition)) == list("cxyz")
    assert values(read(topic, endingOffsetsByTimestamp=by_partition)) == list("ab")
    with pytest.raises(ConfigError, match=f"3200 ms in partition {topic}-0, but no record is that late"):
        read(topic, startingTimestamp="3200")
    assert values(read(topic, startingTimestamp="3200", startingOffsetsByTimestampStrategy="latest")) == ["z"]


def test_partitions_and_patterns_may_be_read(cluster, write, read):
    topic = cluster.create_topic(partitions=2)
    other = cluster.create_topic(f"{topic}-b")
    write(topic, ["a"])
    write(topic, ["b"], partition=1)
    write(other, ["c"])
    assert values(read(None, assign=json.dumps({topic: [1]}))) == ["b"]
    assert values(read(None, subscribePattern=f"{topic}.*")) == ["a", "b", "c"]
    assert values(read(f"{topic},{other}")) == ["a", "b", "c"]
    assert read(None, subscribePattern="nothing-like-it") == []


def test_offsets_out_of_range_are_an_error_or_are_moved_to_what_there_is(cluster, connections, write, read):
    topic = cluster.create_topic()
    write(topic, list("abcdef"))
    Admin(connections).delete_records({TopicPartition(topic, 0): 2})
    wanted = {"startingOffsets": json.dumps({topic: {"0": 1}}), "endingOffsets": json.dumps({topic: {"0": 50}})}
    with pytest.raises(LostDataError, match=r"startingOffsets asks for offset 1 .* from 2 to before 6"):
        read(topic, **wanted)
    with pytest.raises(LostDataError, match="endingOffsets asks for offset 50"):
        read(topic, endingOffsets=wanted["endingOffsets"])
    assert values(read(topic, failOnDataLoss="false", **wanted)) == list("cdef")


def test_a_start_behind_the_end_is_an_error(cluster, write, read):
    topic = cluster.create_topic()
    write(topic, list("abc"))
    with pytest.raises(ConfigError, match=f"Partition {topic}-0 is to be read from offset 2 to before 1"):
        read(topic, startingOffsets=json.dumps({topic: {"0": 2}}), endingOffsets=json.dumps({topic: {"0": 1}}))


def test_a_topic_or_a_partition_that_is_not_there_is_an_error_that_names_it(cluster, read):
    with pytest.raises(UnknownTopicError, match="There is no topic 'nowhere'"):
        read("nowhere")
    topic = cluster.create_topic()
    with pytest.raises(KafkaError, match="has no partition 3"):
        read(None, assign=json.dumps({topic: [3]}))


def test_a_schema_of_the_users_own_is_refused(cluster):
    source = PenstockDataSource({"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "orders"})
    source.reader(row_type(with_headers=False))
    with pytest.raises(ConfigError, match="A topic has the columns key, value, topic"):
        source.reader(row_type(with_headers=True))
