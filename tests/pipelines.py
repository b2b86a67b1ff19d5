"""Pipeline projects for tests, run in a Spark session that is there already."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.spark.pipelines.graph import load_graph
from penstock.spark.pipelines.progress import FlowProgress, State
from penstock.spark.pipelines.project import Project, load_project
from penstock.spark.pipelines.ready import init_project
from penstock.spark.pipelines.runner import Runner, run_project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_SECONDS = 120.0


def make_project(directory: Path, ready: str, **values: str) -> Project:
    """A project as `penstock pipeline init` makes it; or one flow more in a project."""
    init_project(directory, ready, **values)
    return load_project(directory / "spark-pipeline.yml")


class Streaming:
    """The flows of a project kept on, as `penstock pipeline stream` does, from `with` to its end."""

    def __init__(self, spark: SparkSession, project: Project) -> None:
        self._spark = spark
        self.progress: dict[str, FlowProgress] = {}
        self._runner = Runner(spark, project.storage, load_graph(project, spark), self._take)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._ended: list[FlowProgress] = []
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        if kind is None:
            assert [each.error for each in self._ended if each.state is State.FAILED] == []

    def wait_until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert self._thread.is_alive(), self._error
            assert time.monotonic() < deadline, self.progress
            time.sleep(0.1)

    def _take(self, progress: FlowProgress) -> None:
        self.progress[progress.flow] = progress

    def _run(self) -> None:
        try:
            # A thread that starts queries needs an active session of its own, where Spark looks for data sources.
            self._spark._jvm.SparkSession.setActiveSession(self._spark._jsparkSession)
            self._ended = self._runner.stream((), self._stop)
        except Exception as error:
            self._error = error
            raise


def run(spark: SparkSession, project: Project) -> FlowProgress:
    """As `penstock pipeline run` does, of a project with one flow; it must not fail."""
    (ended,) = run_project(spark, project.directory)
    assert ended.state is State.DONE, ended.error
    return ended


def kill_tree(driver: subprocess.Popen[str]) -> None:
    """SIGKILL to a driver that still runs, its JVM and its Python workers."""
    if driver.poll() is not None:
        return
    for each in [*descendants(driver.pid), driver.pid]:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            continue


def descendants(pid: int) -> list[int]:
    """The children of a process, and theirs: the JVM, and the Python workers."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended since
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    children = parents.get(pid, [])
    return children + [each for child in children for each in descendants(child)]
