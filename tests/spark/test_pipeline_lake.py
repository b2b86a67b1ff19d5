"""lake: a topic as Parquet files by date, the same for every reader, as a stream and as a load of a range."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pytest

import penstock
from penstock.errors import ConfigError
from penstock.spark.pipelines.sinks import Batch
from penstock.spark.pipelines.sinks.lake import _Lake, lake_writer
from penstock.testing import Cluster
from pipelines import make_project, run

MAY_1 = datetime(2024, 5, 1, 23, 59, 59, tzinfo=UTC)
MAY_2 = datetime(2024, 5, 2, tzinfo=UTC)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Two partitions, 3 messages on the first of May and 2 on the second."""
    name = cluster.create_topic(partitions=2, retention_ms=-1)
    rows = {
        "value": ["a", "b", "c", "d", "e"],
        "partition": pa.array([0, 0, 1, 0, 1], pa.int32()),
        "timestamp": pa.array([MAY_1, MAY_1, MAY_1, MAY_2, MAY_2], pa.timestamp("ms", "UTC")),
    }
    penstock.write(name, pa.table(rows), bootstrap=cluster.bootstrap)
    return name


def by_duckdb(path: Path) -> list[tuple[str, str]]:
    query = f"SELECT date::VARCHAR, value::VARCHAR FROM read_parquet('{path}/**/*.parquet', hive_partitioning=true)"
    return sorted(duckdb.sql(query).fetchall())


def by_pyarrow(path: Path) -> list[tuple[str, str]]:
    table = pyarrow.dataset.dataset(path, partitioning="hive").to_table()
    return sorted((str(row["date"]), row["value"].decode()) for row in table.select(["date", "value"]).to_pylist())


def test_a_topic_becomes_files_by_date_for_every_reader_and_later_runs_add_what_is_new(spark, cluster, topic, tmp_path):
    project = make_project(
        tmp_path / "p", "lake", topic=topic, bootstrap=cluster.bootstrap, path=str(tmp_path / "lake")
    )
    assert run(spark, project).rows == 5
    first = [("2024-05-01", "a"), ("2024-05-01", "b"), ("2024-05-01", "c"), ("2024-05-02", "d"), ("2024-05-02", "e")]
    assert by_duckdb(tmp_path / "lake") == by_pyarrow(tmp_path / "lake") == first
    row = {"value": ["f"], "timestamp": pa.array([MAY_2], pa.timestamp("ms", "UTC"))}
    penstock.write(topic, pa.table(row), bootstrap=cluster.bootstrap)
    assert run(spark, project).rows == 1
    assert by_duckdb(tmp_path / "lake") == by_pyarrow(tmp_path / "lake") == [*first, ("2024-05-02", "f")]


@pytest.mark.parametrize("kind", ["offsets", "times"])
def test_a_range_is_loaded_at_once_and_again_without_doubling(spark, cluster, topic, tmp_path, kind):
    if kind == "offsets":
        bounds = {"start": json.dumps({topic: {"0": 1, "1": 0}}), "end": json.dumps({topic: {"0": 3, "1": 1}})}
        expected = ["b", "c", "d"]
    else:
        bounds = {"start_time": str(int(MAY_2.timestamp() * 1000)), "end_time": str(int(MAY_2.timestamp() * 1000) + 1)}
        expected = ["d", "e"]
    path = tmp_path / "lake"
    project = make_project(tmp_path / "p", "lake", topic=topic, bootstrap=cluster.bootstrap, path=str(path), **bounds)
    for _ in range(2):
        assert run(spark, project).rows == len(expected)
        assert [value for _, value in by_duckdb(path)] == expected


def test_a_batch_that_is_written_again_replaces_what_a_killed_one_left(spark, tmp_path):
    write = lake_writer({"path": str(tmp_path / "lake")})
    frame = spark.createDataFrame([(MAY_1, b"a"), (MAY_2, b"b")], "timestamp TIMESTAMP, value BINARY")
    write(frame.limit(1), Batch("6d1f0a3c-aaaa", 7))  # a part of the batch, as if killed
    write(frame, Batch("6d1f0a3c-aaaa", 7))
    write(frame, Batch("6d1f0a3c-aaaa", 8))
    assert [value for _, value in by_pyarrow(tmp_path / "lake")] == ["a", "a", "b", "b"]


def test_what_a_killed_driver_was_writing_is_not_in_the_lake_and_goes_when_the_batch_is_repeated(spark, tmp_path):
    """DuckDB looks into hidden directories too, so what is being written must be elsewhere."""
    lake, batch = tmp_path / "lake", Batch("6d1f0a3c-aaaa", 7)
    frame = spark.createDataFrame([(MAY_1, b"a"), (MAY_2, b"b")], "timestamp TIMESTAMP, value BINARY")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Lake, "put", lambda *_: None)  # killed when all is written and nothing moved
        lake_writer({"path": str(lake)})(frame, batch)
    assert [path for path in tmp_path.rglob("*.parquet") if path.is_relative_to(lake)] == []
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    lake_writer({"path": str(lake)})(frame, batch)
    assert by_duckdb(lake) == [("2024-05-01", "a"), ("2024-05-02", "b")]
    assert all(path.is_relative_to(lake) for path in tmp_path.rglob("*.parquet"))


def test_a_lake_needs_a_directory_above_it(spark):
    frame = spark.createDataFrame([(MAY_1, b"a")], "timestamp TIMESTAMP, value BINARY")
    with pytest.raises(ConfigError, match="has nothing above it"):
        lake_writer({"path": "file:///"})(frame, Batch("6d1f0a3c-aaaa", 7))
