"""Runs the flows of a project: to the end of what is there, or on and on.

- `run`: every flow reads what was there when it started and ends (Spark's trigger AvailableNow). A flow whose function
  gives a DataFrame that is no stream is written once.
- `stream`: every flow stays on until it is told to stop. One that fails is started again, with a longer pause each
  time, and given up when it fails MAX_FAILURES times without a batch between.

Both keep Spark's checkpoints where Spark's declarative pipelines keep theirs, so that `run`, `stream` and
`spark-pipelines run` go on from each other. Flows do not know each other: each has its checkpoint and its progress,
and one that fails leaves the others alone.

After a crash a flow repeats the batch that was not noted as done; see `sinks` for why nothing doubles.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.spark.pipelines.checkpoints import Storage
from penstock.spark.pipelines.graph import Graph, load_graph
from penstock.spark.pipelines.progress import FlowProgress, State, Watcher, unwatched
from penstock.spark.pipelines.project import find_project
from penstock.spark.pipelines.reasons import reason
from penstock.spark.pipelines.sinks import Batch, batch_writer, check_sink

if TYPE_CHECKING:
    from pyspark.pipelines.flow import Flow
    from pyspark.pipelines.output import Sink
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0
MAX_FAILURES = 10
"""In a row: about four minutes of trying."""
SOURCES_SECONDS = 30.0
"""How long the next flow waits for the sources of one that was started."""


def run_project(spark: SparkSession, directory: str | Path, flows: Sequence[str] = ()) -> list[FlowProgress]:
    """As `penstock pipeline run DIRECTORY`, in a session that is there; how each flow ended."""
    project = find_project(Path(directory))
    return Runner(spark, project.storage, load_graph(project, spark)).run(flows)


class Runner:
    """The flows of one project in one Spark session."""

    def __init__(self, spark: SparkSession, storage: str, graph: Graph, watcher: Watcher = unwatched) -> None:
        self._spark = spark
        self._storage = Storage(storage)
        self._graph = graph
        self._watcher = watcher

    def frames(self) -> dict[str, DataFrame]:
        """What each flow reads, analysed but not run; a ConfigError names the flow that is wrong."""
        self._graph.register_views(self._spark)
        return {name: self._frame(flow) for name, flow in self._graph.flows.items()}

    def run(self, names: Sequence[str] = ()) -> list[FlowProgress]:
        """Read what is there and end; how each flow ended."""
        with self._flows(self._chosen(names)) as running:
            for flow in running:
                flow.start(available_now=True)
            for flow in running:
                flow.write_once()
            while any(flow.is_active for flow in running):
                for flow in running:
                    flow.poll()
                time.sleep(POLL_SECONDS)
            return [flow.finish(State.DONE) for flow in running]

    def stream(self, names: Sequence[str], stop: threading.Event, every_seconds: float = 0.0) -> list[FlowProgress]:
        """Keep the flows on until `stop` is set, or none is left."""
        frames = self._chosen(names)
        for name, frame in frames.items():
            if not frame.isStreaming:
                raise ConfigError(f"Flow {name!r} is no stream, it is written once: use `penstock pipeline run`.")
        with self._flows(frames) as running:
            for flow in running:
                flow.start(every_seconds=every_seconds)
            while not stop.wait(POLL_SECONDS):
                for flow in running:
                    flow.poll()
                    flow.maybe_restart(time.monotonic())
                if all(flow.progress.state is State.FAILED for flow in running):
                    break
            return [flow.finish(State.STOPPED) for flow in running]

    def _chosen(self, names: Sequence[str]) -> dict[str, DataFrame]:
        unknown = [name for name in names if name not in self._graph.flows]
        if unknown:
            raise ConfigError(f"There is no flow {unknown[0]!r}; there are {', '.join(self._graph.flows)}.")
        return {name: frame for name, frame in self.frames().items() if not names or name in names}

    def _frame(self, flow: Flow) -> DataFrame:
        sink = self._graph.sink_of(flow)
        try:
            frame = flow.func()
            check_sink(sink.format, sink.options, frame.schema)  # asking for the schema makes Spark analyse the flow
        except Exception as error:  # a project's code may raise anything
            raise ConfigError(f"Flow {flow.name!r}: {reason(error)}") from error
        return frame

    @contextmanager
    def _flows(self, frames: Mapping[str, DataFrame]) -> Iterator[list[_RunningFlow]]:
        """Ready to be started; whatever happens, none is left running."""
        flows = [(self._graph.flows[name], frame) for name, frame in frames.items()]
        running = [
            _RunningFlow(flow, self._graph.sink_of(flow), frame, self._storage, self._watcher) for flow, frame in flows
        ]
        try:
            yield running
        finally:
            for each in running:
                each.stop()


class _RunningFlow:
    """One flow, its query and its progress."""

    def __init__(self, flow: Flow, sink: Sink, frame: DataFrame, storage: Storage, watcher: Watcher) -> None:
        self._flow = flow
        self._sink = sink
        self._frame = frame
        self._storage = storage
        self._watcher = watcher
        self._query: StreamingQuery | None = None
        self._trigger: dict[str, Any] = {}
        self._seen_reports: set[tuple[str, int, str]] = set()
        self._failure_count = 0
        self._restart_at = 0.0
        self.progress = FlowProgress(flow.name)

    def start(self, *, available_now: bool = False, every_seconds: float = 0.0) -> None:
        """Start the query of a stream."""
        if not self._frame.isStreaming:
            return
        self._trigger = {"availableNow": True} if available_now else {"processingTime": f"{every_seconds} seconds"}
        self._start_query()

    def write_once(self) -> None:
        """Write what is no stream, as one batch."""
        if self._frame.isStreaming:
            return
        from pyspark.sql import Observation
        from pyspark.sql.functions import count, lit

        counted, started = Observation(), time.monotonic()
        frame = self._frame.observe(counted, count(lit(1)).alias("rows"))
        self._say(State.RUNNING)
        try:
            with self._watching_tasks():
                self._write_frame(frame)
        except Exception as error:
            self._fail(error)
        else:
            self.progress.take_load(counted.get["rows"], int(1000 * (time.monotonic() - started)))

    def _write_frame(self, frame: DataFrame) -> None:
        writer = batch_writer(self._sink.format, self._sink.options)
        if writer is not None:
            writer(frame, Batch(self._flow.name, 0))
        else:
            frame.write.format(self._sink.format).options(**self._sink.options).mode("append").save()

    @contextmanager
    def _watching_tasks(self) -> Iterator[None]:
        """A load that is no stream has no batches to count: its progress is how many of its tasks are done."""
        tracker, is_over = self._frame.sparkSession.sparkContext.statusTracker(), threading.Event()

        def watch() -> None:
            while not is_over.wait(POLL_SECONDS):
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                known = [stage for stage in stages if stage is not None]
                if known:
                    self.progress.done = sum(stage.numCompletedTasks for stage in known)
                    self.progress.total = sum(stage.numTasks for stage in known)
                    self._watcher(self.progress)

        watching = threading.Thread(target=watch, name=f"tasks of {self._flow.name}", daemon=True)
        watching.start()
        try:
            yield
        finally:
            is_over.set()
            watching.join()

    @property
    def is_active(self) -> bool:
        return self._query is not None and self._query.isActive

    def poll(self) -> None:
        """Take what Spark reports, and a failure."""
        if self._query is None:
            return
        was_active = self._query.isActive  # before the reports: the last ones come before the end
        reports = [json.loads(report.json) for report in self._query.recentProgress]
        for report in reports:
            self._take(report)
        self._seen_reports = {_identity(report) for report in reports}
        failure = None if was_active else self._query.exception()
        if failure is not None:
            self._query = None
            self._fail(failure)

    def maybe_restart(self, now: float) -> None:
        """Start it again when its pause is over."""
        if self.progress.state is State.WAITING and self._query is None and now >= self._restart_at:
            self._start_query()

    def stop(self) -> None:
        """A batch in the middle is given up, and done again at the next start."""
        if self._query is not None and self._query.isActive:
            try:
                self._query.stop()
            except Exception as error:  # it waits for something that is away, for longer than Spark wants to wait
                log.warning("Flow %r does not stop: %s", self._flow.name, reason(error))

    def finish(self, state: State) -> FlowProgress:
        """Stop it if it runs; `state` is what it then is, unless it failed."""
        self.stop()
        self.poll()
        if self.progress.state is not State.FAILED:
            self._say(state)
        return self.progress

    def _start_query(self) -> None:
        sink, name = self._sink, self._flow.name
        writer = self._frame.writeStream.queryName(name).trigger(**self._trigger)
        writer = writer.option("checkpointLocation", self._storage.checkpoint_location(sink.name, name))
        write_batch = batch_writer(sink.format, sink.options)
        if write_batch is not None:
            writer = writer.foreachBatch(self._with_identity(write_batch))
        else:
            writer = writer.format(sink.format).options(**sink.options)
        try:
            with _settings(self._frame.sparkSession, self._flow.spark_conf):
                self._query = writer.start()
            _wait_for_sources(self._query)
        except Exception as error:  # Spark's, or Java's by way of py4j
            self._fail(error)

    def _with_identity(self, write: Callable[[DataFrame, Batch], None]) -> Callable[[DataFrame, int], None]:
        """The query's id is in the checkpoint before the first batch is written."""

        def write_batch(frame: DataFrame, batch_id: int) -> None:
            write(frame, Batch(self._storage.query_id(self._sink.name, self._flow.name), batch_id))

        return write_batch

    def _take(self, report: dict[str, Any]) -> None:
        is_idle = "addBatch" not in (report.get("durationMs") or {})  # Spark tells of waiting too
        if _identity(report) in self._seen_reports or is_idle:
            return
        self._failure_count = 0
        self.progress.take(report)
        self._storage.write_progress(self._flow.name, {**self.progress.as_json(), "at": report["timestamp"]})
        self._watcher(self.progress)

    def _fail(self, error: Exception) -> None:
        self._failure_count += 1
        self.progress.error = reason(error)
        is_bounded = "processingTime" not in self._trigger
        if is_bounded or self._failure_count >= MAX_FAILURES:
            self._say(State.FAILED)
            return
        pause = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (self._failure_count - 1))
        self._restart_at = time.monotonic() + pause
        self._say(State.WAITING)

    def _say(self, state: State) -> None:
        self.progress.state = state
        self._watcher(self.progress)


def _wait_for_sources(query: StreamingQuery) -> None:
    """Until Spark has started the query's sources, or SOURCES_SECONDS.

    All queries over a Python source share one map of environment variables, to which each adds as it starts, without a
    lock (Spark 4.3). Two at once break it, and then no task of any query can be sent any more. After the first the
    names are there, and nothing is added.
    """
    deadline = time.monotonic() + SOURCES_SECONDS
    while query.isActive and query.status["message"].startswith("Initializing") and time.monotonic() < deadline:
        time.sleep(0.02)


def _identity(report: Mapping[str, Any]) -> tuple[str, int, str]:
    return report["runId"], report["batchId"], report["timestamp"]


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of one flow; a query keeps those of the moment when it starts."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)
