"""load: files and tables as messages of a topic, each row once."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import penstock
from penstock.testing import Cluster
from pipelines import make_project, run

ROWS = [{"id": str(n), "item": f"item {n}", "amount": n / 4} for n in range(20)]


def messages(cluster: Cluster, topic: str) -> dict[str, dict]:
    """Key -> value; no key is there twice."""
    rows = penstock.read(topic, columns=["key", "value"], bootstrap=cluster.bootstrap).read_all().to_pylist()
    found = {row["key"].decode(): json.loads(row["value"]) for row in rows}
    assert len(found) == len(rows)
    return found


EXPECTED = {row["id"]: row for row in ROWS}


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_files_go_in_once_also_those_that_come_later(spark, cluster, tmp_path, kind):
    topic, files = cluster.create_topic(partitions=2), tmp_path / "in"
    files.mkdir()
    project = make_project(
        tmp_path / "p", "load", topic=topic, bootstrap=cluster.bootstrap, kind=kind, path=str(files)
    )  # fmt: skip
    write_file(files / "first", kind, ROWS[:12])
    run(spark, project)
    write_file(files / "second", kind, ROWS[12:])
    run(spark, project)
    assert messages(cluster, topic) == EXPECTED


def write_file(path: Path, kind: str, rows: list[dict]) -> None:
    table, name = pa.Table.from_pylist(rows), path.with_suffix(f".{kind}")
    if kind == "parquet":
        pyarrow.parquet.write_table(table, name)
    elif kind == "csv":
        pyarrow.csv.write_csv(table, name)
    else:
        name.write_text("\n".join(map(json.dumps, rows)))


def test_a_query_of_duckdb_goes_in_once(spark, cluster, tmp_path):
    topic, file = cluster.create_topic(), tmp_path / "shop.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            "CREATE TABLE orders AS SELECT range::VARCHAR id, 'item ' || range item, range / 4 amount FROM range(20)"
        )
    load_table(spark, cluster, tmp_path, topic, "duckdb", str(file))
    assert messages(cluster, topic) == EXPECTED


def test_a_query_by_jdbc_goes_in_once(spark, cluster, tmp_path):
    """By Derby, whose driver is among Spark's own jars."""
    topic, url = cluster.create_topic(), f"jdbc:derby:{tmp_path / 'derby'};create=true"
    table = spark.createDataFrame(pa.Table.from_pylist(ROWS))
    table.write.format("jdbc").option("url", url).option("dbtable", "orders").save()
    load_table(spark, cluster, tmp_path, topic, "jdbc", url)
    found = messages(cluster, topic)
    assert {key: {name.lower(): each for name, each in row.items()} for key, row in found.items()} == EXPECTED


def load_table(spark, cluster: Cluster, tmp_path: Path, topic: str, kind: str, path: str) -> None:
    key = "ID" if kind == "jdbc" else "id"
    values = {"kind": kind, "path": path, "staging": str(tmp_path / "staging"), "key": key}
    project = make_project(tmp_path / "p", "load", topic=topic, bootstrap=cluster.bootstrap, **values)
    run(spark, project)
    assert run(spark, project).rows == 0
