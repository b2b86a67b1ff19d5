"""M37: from offline systems back: what a lake holds goes into a topic again, each message once."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import penstock as library
from pipelines import make_project, run

pytestmark = pytest.mark.slow


def test_files_of_a_lake_go_back_into_a_topic(spark, penstock, topic_on_penstock, tmp_path):
    topic, back, lake = topic_on_penstock(2), topic_on_penstock(2), str(tmp_path / "lake")
    keys = [f"k{n}" for n in range(1000)]
    library.write(topic, pa.table({"key": keys, "value": [f"v{n}" for n in range(1000)]}), bootstrap=penstock.bootstrap)
    run(spark, make_project(tmp_path / "p1", "lake", topic=topic, bootstrap=penstock.bootstrap, path=lake))
    values = {"kind": "parquet", "path": lake, "schema": "key BINARY, value BINARY", "key": "key"}
    project = make_project(tmp_path / "p2", "load", topic=back, bootstrap=penstock.bootstrap, **values)
    run(spark, project)
    assert run(spark, project).rows == 0  # the files were loaded
    rows = library.read(back, columns=["key", "value"], bootstrap=penstock.bootstrap).read_all().to_pylist()
    assert sorted(row["key"].decode() for row in rows) == sorted(keys)
    assert {frozenset(json.loads(row["value"])) for row in rows} == {frozenset({"key", "value", "date", "batch"})}
