"""M34: a parallel batch load of any range of offsets or times into files that other tools read."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset
import pytest

import penstock as library
from pipelines import make_project, run

pytestmark = pytest.mark.slow
COUNT = 5000
FIRST_MS = 1_714_521_600_000


@pytest.fixture
def topic(penstock, topic_on_penstock) -> str:
    """Two partitions, a message in each second, in turns."""
    name = topic_on_penstock(2, **{"retention.ms": "-1"})
    times = pa.array([FIRST_MS + 1000 * n for n in range(COUNT)], pa.timestamp("ms", "UTC"))
    partitions = pa.array([n % 2 for n in range(COUNT)], pa.int32())
    rows = pa.table({"value": [str(n) for n in range(COUNT)], "partition": partitions, "timestamp": times})
    library.write(name, rows, bootstrap=penstock.bootstrap)
    return name


@pytest.mark.parametrize("kind", ["offsets", "times"])
def test_a_range_is_loaded_in_parallel_into_files_that_other_tools_read(spark, penstock, topic, tmp_path, kind):
    if kind == "offsets":
        bounds = {
            "start": json.dumps({topic: {"0": 500, "1": 500}}),
            "end": json.dumps({topic: {"0": 2000, "1": 2000}}),
        }
    else:
        bounds = {"start_time": str(FIRST_MS + 1_000_000), "end_time": str(FIRST_MS + 4_000_000)}
    values = {"topic": topic, "bootstrap": penstock.bootstrap, "path": str(tmp_path / "lake"), **bounds}
    run(spark, make_project(tmp_path / "p", "lake", **values))
    expected = list(range(1000, 4000))
    for read in (by_duckdb, by_pyarrow, by_polars):
        assert sorted(map(int, read(tmp_path / "lake"))) == expected
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) > 2  # more tasks than partitions


def by_duckdb(path: Path) -> list[bytes]:
    return [value for (value,) in duckdb.sql(f"SELECT value FROM '{path}/**/*.parquet'").fetchall()]


def by_pyarrow(path: Path) -> list[bytes]:
    return pyarrow.dataset.dataset(path, partitioning="hive").to_table()["value"].to_pylist()


def by_polars(path: Path) -> list[bytes]:
    return polars.scan_parquet(path / "**/*.parquet").collect()["value"].to_list()
