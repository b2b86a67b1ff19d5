"""delta: a topic as a Delta table that delta-rs reads, each batch once."""

from __future__ import annotations

from deltalake import DeltaTable

from penstock.spark.pipelines.sinks import Batch
from penstock.spark.pipelines.sinks.delta import delta_writer
from pipelines import make_project, run


def values(path) -> list[str]:
    return sorted(value.decode() for value in DeltaTable(path).to_pyarrow_table()["value"].to_pylist())


def test_a_topic_becomes_a_delta_table_and_later_runs_add_what_is_new(spark, cluster, write, tmp_path):
    topic, path = cluster.create_topic(), tmp_path / "table"
    project = make_project(tmp_path / "p", "delta", topic=topic, bootstrap=cluster.bootstrap, path=str(path))
    write(topic, ["a", "b"])
    run(spark, project)
    write(topic, ["c"])
    run(spark, project)
    assert values(path) == ["a", "b", "c"]
    assert DeltaTable(path).metadata().partition_columns == ["date"]
    assert DeltaTable(path).version() == 1


def test_a_batch_is_written_once(spark, tmp_path):
    write = delta_writer({"path": str(tmp_path / "table")})
    frame = spark.createDataFrame([(b"a",)], "value BINARY")
    for batch in (Batch("q", 0), Batch("q", 0), Batch("q", 1), Batch("other", 0)):
        write(frame, batch)
    assert values(tmp_path / "table") == ["a", "a", "a"]
