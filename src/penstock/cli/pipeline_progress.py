"""How running flows are shown: a live table with bars on a terminal, a line for each batch elsewhere, or JSON lines.

    orders-lake  batch 3  20,000 rows  41,200 rows/s  lag 12  485 ms

Tables and lines go to standard error; JSON lines are results and go to standard output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from penstock.cli.output import note, plural
from penstock.spark.pipelines.progress import FlowProgress, State, Watcher

REFRESH_PER_SECOND = 4
BAR_WIDTH = 24


@contextmanager
def watch(*, is_bounded: bool) -> Iterator[Watcher]:
    """What shows flows to whoever is there."""
    if not sys.stderr.isatty():
        yield _say_line
        return
    from rich.console import Console
    from rich.live import Live

    flows: dict[str, FlowProgress] = {}
    with Live(console=Console(stderr=True), refresh_per_second=REFRESH_PER_SECOND) as live:

        def show(progress: FlowProgress) -> None:
            flows[progress.flow] = progress
            live.update(_table(list(flows.values()), is_bounded))

        yield show


@contextmanager
def write_lines() -> Iterator[Watcher]:
    """A line of JSON for each batch and each change of state."""

    def write(progress: FlowProgress) -> None:
        click.echo(json.dumps(progress.as_json()))
        sys.stdout.flush()

    yield write


def line(progress: FlowProgress) -> str:
    """A flow in one line."""
    if progress.state is State.RUNNING and progress.batch_id is None and progress.total:
        return f"{progress.flow}  running  {progress.done:,} of {progress.total:,} tasks"
    if progress.state is State.RUNNING and progress.batch_id is not None:
        return "  ".join(cell(progress) for cell in (lambda each: each.flow, *_CELLS.values()))
    counted = f"{plural(progress.rows, 'row')} in {_batches(progress.batch_count)}"
    said = {State.DONE: counted, State.STOPPED: counted, State.WAITING: f"failed, tries again: {progress.error}"}
    return f"{progress.flow}  {progress.state}  {said.get(progress.state, progress.error or '')}".rstrip()


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count:,} batches"


def _say_line(progress: FlowProgress) -> None:
    note(line(progress))


_CELLS: dict[str, Callable[[FlowProgress], str]] = {
    "batch": lambda each: "-" if each.batch_id is None else f"batch {each.batch_id}",
    "rows": lambda each: f"{each.rows:,} rows",
    "rate": lambda each: f"{each.rows_per_second:,.0f} rows/s",
    "lag": lambda each: "lag -" if each.lag is None else f"lag {each.lag:,}",
    "time": lambda each: f"{each.batch_ms:,} ms",
}


def _table(flows: list[FlowProgress], is_bounded: bool) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for each in flows:
        bar = [ProgressBar(total=each.total, completed=_done(each), width=BAR_WIDTH)] if is_bounded else []
        table.add_row(each.flow, str(each.state), *bar, *(cell(each) for cell in _CELLS.values()))
    return table


def _done(progress: FlowProgress) -> int:
    """What is over is done, also where offsets have holes."""
    return (progress.total or 1) if progress.state is State.DONE else progress.done
