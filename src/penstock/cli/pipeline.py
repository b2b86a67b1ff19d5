"""`penstock pipeline`: make, check, run and watch pipelines on Spark.

A project is a directory with `spark-pipeline.yml`; see `penstock.spark.pipelines`. It needs the extra `spark`; a Java
is found on the machine or comes with that. `init` and `status` start neither Spark nor Java.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from penstock.cli.bootstrap import ENVIRONMENT_VARIABLE, bootstrap_option, connect, json_option, parse_settings
from penstock.cli.invocation import typed_command
from penstock.cli.output import note, show_json, show_table
from penstock.cli.pipeline_move import move_group
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.spark.pipelines.progress import FlowProgress, Watcher
    from penstock.spark.pipelines.runner import Runner

HERE = Path()

project_argument = click.argument("path", metavar="[PROJECT]", type=click.Path(path_type=Path), default=HERE)
flow_option = click.option("--flow", "-f", "flows", multiple=True, metavar="NAME", help="Only this; may be repeated.")
master_option = click.option(
    "--master", "-m", metavar="URL", envvar="SPARK_MASTER", show_envvar=True,
    help="local[N,4], spark://host:port, yarn, k8s://https://host:port.  [default: all cores of this machine]",
)  # fmt: skip
conf_option = click.option("--conf", "-c", "confs", multiple=True, metavar="KEY=VALUE", help="A setting of Spark.")


@click.group("pipeline")
def command() -> None:
    """Run pipelines on Spark: topics into lakes, tables and topics, and back."""


command.add_command(move_group)


@command.command("init")
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("ready", metavar="READY")
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
@json_option
def init(directory: Path, ready: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Make a project in DIRECTORY from a ready pipeline, or add it to one: lake, live, mirror, load, upsert or delta.

    KEY=VALUE sets what stands at the top of the pipeline's file, for example topic=orders path=lake. The broker is
    bootstrap=HOST:PORT, or what PENSTOCK_BOOTSTRAP says."""
    from penstock.spark.pipelines.ready import load_ready, write_project

    pipeline = load_ready(ready)
    values = parse_settings(settings, "KEY=VALUE")
    if "bootstrap" in pipeline.settings and os.environ.get(ENVIRONMENT_VARIABLE):
        values = {"bootstrap": os.environ[ENVIRONMENT_VARIABLE], **values}
    files = write_project(directory, pipeline, values)
    if as_json:
        show_json({"project": str(directory), "ready": ready, "files": [str(path) for path in files]})
        return
    for path in files:
        click.echo(path)
    others = [f"{key}={value}" for key, value in pipeline.settings.items() if key not in values and value]
    note(f"{ready}: {pipeline.summary}")
    note(f"Not set, so as in the file: {', '.join(others)}." if others else "Everything is set.")
    note(f"Run it with `{typed_command()} pipeline run {directory}`.")


@command.command("validate")
@project_argument
@master_option
@conf_option
@json_option
def validate(path: Path, master: str | None, confs: tuple[str, ...], as_json: bool) -> None:
    """Check a project without running it: its files, its flows, their columns and the options of their sinks."""
    from penstock.spark.pipelines.progress import unwatched

    with _runner(path, master, confs, unwatched) as runner:
        flows = {name: (frame.isStreaming, frame.columns) for name, frame in runner.frames().items()}
    if as_json:
        show_json(
            [{"flow": name, "is_stream": is_stream, "columns": each} for name, (is_stream, each) in flows.items()]
        )
        return
    for name, (is_stream, columns) in flows.items():
        click.echo(f"{name}: {'a stream' if is_stream else 'written once'}, columns {', '.join(columns)}")
    note("The project is right; nothing was run.")


@command.command("run")
@project_argument
@flow_option
@master_option
@conf_option
@json_option
def run(path: Path, flows: tuple[str, ...], master: str | None, confs: tuple[str, ...], as_json: bool) -> None:
    """Run a project's flows to the end of what is there, and show how each ended."""
    from penstock.cli.pipeline_progress import watch

    with watch(is_bounded=True) as watcher, _runner(path, master, confs, watcher) as runner:
        ended = runner.run(flows)
    if as_json:
        show_json([each.as_json() for each in ended])
    _end(ended)


@command.command("stream")
@project_argument
@flow_option
@click.option("--every", type=click.FloatRange(0), default=0.0, metavar="SECONDS", help="Pause between batches.")
@master_option
@conf_option
@click.option("--json", "as_json", is_flag=True, help="Print each batch as a line of JSON.")
def stream(
    path: Path, flows: tuple[str, ...], every: float, master: str | None, confs: tuple[str, ...], as_json: bool
) -> None:
    """Keep a project's flows on until Ctrl-C or SIGTERM.

    A flow that fails is started again, with longer pauses; the others do not notice."""
    from penstock.cli.pipeline_progress import watch, write_lines

    stop = threading.Event()
    watching = write_lines() if as_json else watch(is_bounded=False)
    with watching as watcher, _runner(path, master, confs, watcher) as runner, _stopping(stop):
        ended = runner.stream(flows, stop, every)
    _end(ended)


@command.command("status")
@project_argument
@bootstrap_option
@json_option
def status(path: Path, bootstrap: str, as_json: bool) -> None:
    """Show how far each flow has come: its last batch, rows, rate, and its lag behind the topics."""
    from penstock.cli.pipeline_status import read_status
    from penstock.spark.pipelines.project import find_project

    project = find_project(path)
    with connect(bootstrap) as cluster:
        found = read_status(project, cluster)
    if as_json:
        show_json([each.as_json() for each in found])
    elif not found:
        note(f"No flow of {project.name} has run yet.")
    else:
        columns = ("flow", "sink", "batch", "state", "rows", "rows/s", "batch ms", "lag")
        numbers = ("batch", "rows", "rows/s", "batch ms", "lag")
        show_table(columns, [each.as_row() for each in found], numbers=numbers, has_head=True)


@contextmanager
def _runner(path: Path, master: str | None, confs: tuple[str, ...], watcher: Watcher) -> Iterator[Runner]:
    """The project's flows in a Spark session of their own."""
    from penstock.spark.pipelines.project import find_project

    project = find_project(path)
    settings = {**project.configuration, **parse_settings(confs, "--conf")}
    try:
        from penstock.spark.pipelines.graph import load_graph
        from penstock.spark.pipelines.runner import Runner
        from penstock.spark.pipelines.session import open_session
    except ModuleNotFoundError as error:
        raise ConfigError(f"Pipelines need {error.name}: pip install 'penstock[spark]'.") from None
    spark = open_session(project.name, master, settings)
    try:
        yield Runner(spark, project.storage, load_graph(project, spark), watcher)
    finally:
        spark.stop()


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM set `stop` instead of ending the process."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(ended: Sequence[FlowProgress]) -> None:
    """Say what failed; the exit status is 1 then."""
    failed = [each for each in ended if each.error is not None and each.state == "failed"]
    for each in failed:
        note(f"penstock: Flow {each.flow} failed: {each.error}")
    if failed:
        sys.exit(1)
