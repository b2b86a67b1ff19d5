"""`penstock pipeline` as people run it: a process of its own, here and on a cluster of Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import penstock
from cli.commands import SOURCE
from cli.commands import run as command
from penstock.spark.java import prepare_environment
from penstock.testing import Cluster
from pipelines import kill_tree, make_project, run
from spark_standalone import SparkStandalone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
TIMEOUT_SECONDS = 240


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1", **more}


def start(*arguments: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "penstock", "pipeline", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, env=environment(), stdout=pipe, stderr=pipe, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, errors
    return output


def fill(cluster: Cluster, topic: str, count: int) -> None:
    rows = {"value": [str(n) for n in range(count)], "partition": pa.array([n % 2 for n in range(count)], pa.int32())}
    penstock.write(topic, pa.table(rows), bootstrap=cluster.bootstrap)


def count_rows(path: Path) -> tuple[int, int]:
    """Rows, and different rows, of a lake."""
    query = f"SELECT count(*), count(DISTINCT (partition, \"offset\")) FROM read_parquet('{path}/**/*.parquet')"
    return duckdb.sql(query).fetchall()[0]


def test_on_a_cluster_penstock_is_sent_to_the_executors(cluster, tmp_path):
    topic = cluster.create_topic(partitions=2)
    fill(cluster, topic, 1000)
    project = make_project(
        tmp_path / "p", "lake", topic=topic, bootstrap=cluster.bootstrap, path=str(tmp_path / "lake")
    )  # fmt: skip
    with SparkStandalone(tmp_path, workers=2) as spark:
        settings = ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"]
        ended = json.loads(finish(start("run", str(project.directory), "--master", spark.url, *settings, "--json")))
        assert [(each["state"], each["rows"]) for each in ended] == [("done", 1000)]
        assert spark.executors() == {"worker-0", "worker-1"}
    assert count_rows(tmp_path / "lake") == (1000, 1000)


def test_a_stream_shows_its_batches_and_stops_cleanly_on_sigterm(cluster, tmp_path):
    topic, path = cluster.create_topic(partitions=2), tmp_path / "lake"
    fill(cluster, topic, 100)
    project = make_project(tmp_path / "p", "lake", topic=topic, bootstrap=cluster.bootstrap, path=str(path))
    stream = start("stream", str(project.directory), "--master", "local[2,4]", "--json")
    try:
        assert stream.stdout is not None
        batches = (json.loads(line) for line in stream.stdout)
        assert next(each["rows"] for each in batches if each["state"] == "running") == 100
        fill(cluster, topic, 50)
        assert next(each["rows"] for each in batches if each["state"] == "running") == 150
        stream.send_signal(signal.SIGTERM)
        assert list(batches)[-1]["state"] == "stopped"
        finish(stream)
    finally:
        kill_tree(stream)
    assert count_rows(path) == (150, 150)
    shown = command("pipeline", "status", str(project.directory), "--json", bootstrap=cluster.bootstrap)
    (status,) = json.loads(shown.stdout)
    assert (status["flow"], status["lag"], status["batch_open"]) == ("lake", 0, False)
    assert status["last_run"]["rows"] == 150


def test_a_run_goes_on_where_sparks_own_command_ended(spark, cluster, tmp_path):
    topic = cluster.create_topic(partitions=2)
    with Cluster() as other:
        project = make_project(
            tmp_path / "p", "mirror", source=cluster.bootstrap, target=other.bootstrap, topics=topic
        )  # fmt: skip

        def copied() -> int:
            return penstock.read(topic, columns=["offset"], bootstrap=other.bootstrap).read_all().num_rows

        fill(cluster, topic, 100)
        run_by_spark(project.directory)
        assert copied() == 100
        fill(cluster, topic, 50)
        assert run(spark, project).rows == 50
        assert copied() == 150


def run_by_spark(directory: Path) -> None:
    """`spark-pipelines run`, as it comes with pyspark.

    It ends with an error after the run is completed: pyspark 4.3's client does not know the answer by which a Python
    data source's workers report. So its status says nothing, and its last event does.
    """
    settings = environment(PYSPARK_PYTHON=sys.executable)
    prepare_environment(settings)
    words = [Path(sys.executable).with_name("spark-pipelines"), "run"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(words, cwd=directory, env=settings, stdout=pipe, stderr=pipe, text=True)
    try:
        output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        kill_tree(process)
    assert "Run is COMPLETED." in output + errors, errors


def test_what_is_wrong_is_a_sentence_and_no_traceback(cluster, tmp_path):
    values = {"topic": "nothing-here", "bootstrap": cluster.bootstrap, "path": str(tmp_path / "lake")}
    project = make_project(tmp_path / "p", "lake", **values)
    ended = start("run", str(project.directory), "--master", "local[1,1]")
    output, errors = ended.communicate(timeout=TIMEOUT_SECONDS)
    assert ended.returncode == 1
    assert errors.splitlines()[-1].startswith("penstock: Flow lake failed: There is no topic 'nothing-here'"), errors
    assert output == ""
