"""`spark.readStream.format("penstock")`, with a real Spark and a real broker."""

from __future__ import annotations

import json
import threading
import uuid

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import penstock
from penstock.client.admin import Admin
from penstock.client.groups import Groups
from penstock.testing import Cluster
from penstock.types import TopicPartition


class Query:
    """A stream into a list, run by run with the same checkpoint."""

    def __init__(self, spark, bootstrap, topic, checkpoint, **options):
        self.values = []
        self.sizes = []
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
        self._frame = spark.readStream.format("penstock").options(**options).load()
        self._checkpoint = str(checkpoint)

    def start(self, **trigger):
        writer = self._frame.selectExpr("cast(value as string) as value").writeStream.foreachBatch(self._take)
        return writer.option("checkpointLocation", self._checkpoint).trigger(**trigger).start()

    def run(self):
        """All that is available now; what came in this run."""
        before = len(self.values)
        query = self.start(availableNow=True)
        query.awaitTermination(120)
        assert not query.isActive
        return self.values[before:]

    def _take(self, frame, batch_id):
        found = [row.value for row in frame.collect()]
        self.values += found
        self.sizes.append(len(found))


@pytest.fixture
def query(spark, cluster, tmp_path):
    def make(topic, bootstrap=None, **options):
        return Query(spark, bootstrap or cluster.bootstrap, topic, tmp_path / "checkpoint", **options)

    return make


def test_each_run_reads_what_came_since_the_last_in_bites_of_the_size_asked_for(cluster, connections, write, query):
    topic = cluster.create_topic()
    write(topic, [str(n) for n in range(25)])
    running = query(topic, maxOffsetsPerTrigger="10", **{"kafka.group.id": f"g-{topic}"})
    assert running.run() == [str(n) for n in range(25)]
    assert running.sizes == [10, 10, 5]
    assert Groups(connections).committed(f"g-{topic}") == {TopicPartition(topic, 0): 25}, "the last one too"
    write(topic, ["more"])
    assert running.run() == ["more"]
    assert running.run() == []


def test_a_stream_that_runs_on_sees_new_records_and_new_partitions(cluster, connections, write, query):
    topic = cluster.create_topic()
    write(topic, ["old"])
    running = query(topic, startingOffsets="latest")
    active = running.start(processingTime="100 milliseconds")
    try:
        wait_until(lambda: active.lastProgress is not None and active.lastProgress.batchId >= 0, active)
        write(topic, ["new"])
        wait_until(lambda: running.values == ["new"], active)
        Admin(connections).create_partitions(topic, 2)
        write(topic, ["newer"], partition=1)
        wait_until(lambda: running.values == ["new", "newer"], active)
        latest = json.loads(active.lastProgress.json)["sources"][0]["latestOffset"]
        assert latest == {topic: {"0": 2, "1": 1}}
    finally:
        active.stop()


def test_a_topic_created_anew_ends_the_query_with_a_sentence_or_is_read_from_its_start(
    cluster, connections, write, query
):
    topic = cluster.create_topic()
    write(topic, ["a", "b"])
    assert query(topic).run() == ["a", "b"]
    Admin(connections).delete_topic(topic)
    cluster.create_topic(topic)
    write(topic, ["c", "d", "e"])
    with pytest.raises(StreamingQueryException, match=r"was deleted and created anew.*Set the option failOnDataLoss"):
        query(topic).run()
    assert query(topic, failOnDataLoss="false").run() == ["c", "d", "e"]


def test_a_broker_that_goes_and_comes_back_is_waited_for_and_nothing_is_lost(query):
    with Cluster() as own:
        topic = own.create_topic()
        running = query(topic, own.bootstrap)
        active = running.start(processingTime="100 milliseconds")
        try:
            append(own, topic, "before")
            wait_until(lambda: running.values == ["before"], active)
            own.stop()
            back = threading.Timer(2.0, own.start)
            back.start()
            back.join()
            append(own, topic, "after")
            wait_until(lambda: running.values == ["before", "after"], active)
        finally:
            active.stop()


def test_a_checkpoint_of_sparks_own_kafka_source_is_read_on_from(cluster, write, query, tmp_path):
    topic = cluster.create_topic()
    write(topic, ["a", "b", "c"])
    batch = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000, "conf": {}})
    written = {
        "metadata": json.dumps({"id": str(uuid.uuid4())}),
        "offsets/0": f'v1\n{batch}\n{{"{topic}":{{"0":1}}}}',
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "sources/0/0": f'0v1\n{{"{topic}":{{"0":0}}}}',
    }
    for name, text in written.items():
        path = tmp_path / "checkpoint" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert query(topic).run() == ["b", "c"]


def append(cluster, topic, value):
    penstock.write(topic, pa.table({"value": [value]}), bootstrap=cluster.bootstrap)


def wait_until(condition, active, seconds=180):
    """Until it holds; a query that ends meanwhile shows its error."""
    turn = threading.Event()
    for _ in range(seconds * 10):
        if condition():
            return
        if not active.isActive:
            active.awaitTermination()
            raise AssertionError("the query has ended")
        turn.wait(0.1)
    raise AssertionError("it did not happen")
