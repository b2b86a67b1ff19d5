"""Pipeline projects for tests, run in a Spark session that is there already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.pipelines.graph import load_graph
from penstock.spark.pipelines.progress import FlowProgress, State
from penstock.spark.pipelines.project import Project, load_project
from penstock.spark.pipelines.ready import load_ready, write_project
from penstock.spark.pipelines.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_project(directory: Path, ready: str, **values: str) -> Project:
    """A project as `penstock pipeline init` makes it."""
    write_project(directory, load_ready(ready), values)
    return load_project(directory / "spark-pipeline.yml")


def runner_of(
    spark: SparkSession, project: Project, watcher: Callable[[FlowProgress], None] = lambda progress: None
) -> Runner:
    return Runner(spark, project.storage, load_graph(project, spark), watcher)


def run(spark: SparkSession, project: Project) -> FlowProgress:
    """As `penstock pipeline run` does, of a project with one flow; it must not fail."""
    (ended,) = runner_of(spark, project).run()
    assert ended.state is State.DONE, ended.error
    return ended
