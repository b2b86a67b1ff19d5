"""Running flows: several at once, views, failures, and what a project may not define."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.readwriter import DataStreamWriter

import penstock
from cli.commands import run as command
from penstock.errors import ConfigError
from penstock.spark.pipelines import session
from penstock.spark.pipelines.graph import load_graph
from penstock.spark.pipelines.progress import State
from penstock.spark.pipelines.project import Project, find_project
from penstock.spark.pipelines.runner import run_project

SPEC = "name: p\nstorage: storage\nlibraries:\n  - glob: {include: flows.py}\n"
HEAD = """
from pyspark import pipelines as dp
def read(topic):
    reader = spark.readStream.format("penstock").option("bootstrap", BOOTSTRAP)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
"""


@pytest.fixture
def project_of(tmp_path, cluster):
    """Makes a project of one file."""

    def make(source: str) -> Project:
        (tmp_path / "spark-pipeline.yml").write_text(SPEC)
        (tmp_path / "flows.py").write_text(HEAD.replace("BOOTSTRAP", repr(cluster.bootstrap)) + source)
        return find_project(tmp_path)

    return make


def test_flows_read_views_and_one_that_fails_leaves_the_others_alone(spark, cluster, write, project_of):
    topic, target = cluster.create_topic(), cluster.create_topic()
    write(topic, ["a", "b"])
    sink = {"bootstrap": cluster.bootstrap, "topic": target}
    project = project_of(f"""
@dp.temporary_view
def messages():
    return read("{topic}")

dp.create_sink("copy", "penstock", {sink})

@dp.append_flow(target="copy", spark_conf={{"spark.sql.shuffle.partitions": "1"}})
def good():
    return spark.readStream.table("messages").selectExpr("upper(CAST(value AS STRING)) AS value")

@dp.append_flow(target="copy")
def bad():
    return spark.readStream.table("messages").selectExpr("CAST(raise_error('It is broken') AS STRING) AS value")
""")
    good, bad = run_project(spark, project.directory)
    assert (good.state, good.rows) == (State.DONE, 2)
    assert bad.state is State.FAILED
    assert "It is broken" in str(bad.error)
    values = penstock.read(target, columns=["value"], bootstrap=cluster.bootstrap).read_all()["value"].to_pylist()
    assert values == [b"A", b"B"]
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_flow_starts_when_the_sources_of_the_one_before_have_started(spark, cluster, write, project_of, monkeypatch):
    topic = cluster.create_topic()
    write(topic, ["a"])
    flows = "\n".join(
        f"@dp.append_flow(target='out', name='flow{n}')\ndef flow{n}(): return read('{topic}')" for n in range(3)
    )
    project = project_of(f"dp.create_sink('out', 'noop', {{}})\n{flows}")
    others, start = [], DataStreamWriter.start

    def watched(writer, *arguments, **options):
        others.append([query.status["message"] for query in spark.streams.active])
        return start(writer, *arguments, **options)

    monkeypatch.setattr(DataStreamWriter, "start", watched)
    assert [each.state for each in run_project(spark, project.directory)] == [State.DONE] * 3
    assert len(others) == 3
    assert [message for messages in others for message in messages if message.startswith("Initializing")] == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = ", "flows.py, line 6: invalid syntax."),
        ("import nothing_like_this", "No module named 'nothing_like_this'"),
        ("", "defines no flow"),
        ("@dp.append_flow(target='x')\ndef f(): pass", "flow 'f' goes to 'x'; sinks are: none"),
        ("dp.create_sink('x', 'lake', {})\ndp.create_sink('x', 'lake', {})", "'x' is defined twice"),
        ("@dp.table\ndef t(): pass", "table 't' needs Spark's catalog; run this project with `spark-pipelines run`"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(spark, project_of, source, said):
    with pytest.raises(ConfigError) as caught:
        load_graph(project_of(source), spark)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("sink", "flow", "said"),
    [
        ("'lake', {'pat': 'x'}", "read('t')", "Flow 'f': A sink of format 'lake' needs the option 'path'."),
        ("'penstock', {'bootstrap': 'a:1', 'topc': 't'}", "read('t')", "Did you mean topic?"),
        ("'penstock', {'bootstrap': 'a:1', 'topic': 't'}", "read('t').select('key')", "'value'"),
        ("'lake', {'path': 'x'}", "read('t').select('nothing')", "`nothing`"),
        ("'lake', {'path': 'x'}", "missing_name", "name 'missing_name' is not defined"),
    ],
)
def test_validate_says_what_is_wrong_with_a_flow(spark, project_of, monkeypatch, sink, flow, said):
    monkeypatch.setattr(session, "open_session", lambda *arguments: spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    project = project_of(f"dp.create_sink('s', {sink})\n@dp.append_flow(target='s')\ndef f(): return {flow}")
    result = command("pipeline", "validate", str(project.directory))
    assert isinstance(result.exception, ConfigError)
    assert said in str(result.exception)
