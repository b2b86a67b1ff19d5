"""A suite of cells and its command line: options, rounds, table and JSON are the same for every suite.

Each cell runs `--rounds` times on each system in turn, and the order changes from round to round: a machine that gets
slower or faster does so for both. A cell that fails is reported, and the others go on.
"""

from __future__ import annotations

import argparse
import fnmatch
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from oracle import why_unavailable

from .cells import Cell
from .process import raise_open_file_limit
from .report import Results, show, show_summary
from .systems import System

QUICK_SCALE = 0.25
WARM_UP_ROUNDS = 2
WARM_UP_SCALE = 0.5


@dataclass(frozen=True, slots=True)
class Suite:
    """Cells that run on the same two brokers."""

    command: str
    description: str
    cells: Sequence[Cell]
    warm_up: Callable[[System, float], None]
    """Work that is not timed, before the first cell."""
    cold_cells: frozenset[str] = frozenset()
    """Those that need no warm broker."""
    kafka_settings: Mapping[str, str] = field(default_factory=dict)


def run_suite(suite: Suite) -> int:
    """Do what the command line asks for; the exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # not without ending the brokers
    options = _parser(suite).parse_args()
    console = Console(stderr=True)
    cells = [cell for cell in suite.cells if any(fnmatch.fnmatch(cell.name, pattern) for pattern in options.only)]
    if options.list:
        for cell in cells:
            print(f"{cell.name:18} {cell.what}")
        return 0
    if not cells:
        console.print(f"no cell is named {' or '.join(options.only)}; --list shows them all", style="red")
        return 2
    why_no_kafka = None if options.no_kafka else why_unavailable()
    if why_no_kafka:
        console.print(f"without Kafka: {why_no_kafka}", style="yellow")
        options.no_kafka = True
    raise_open_file_limit()
    directory = Path(tempfile.mkdtemp(prefix="penstock-bench-", dir=options.dir))
    try:
        results = _run(suite, options, cells, directory, console)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return _report(results, options, console)


def _run(suite: Suite, options: argparse.Namespace, cells: list[Cell], directory: Path, console: Console) -> Results:
    scale = QUICK_SCALE if options.quick else 1.0
    rounds = options.rounds or (1 if options.quick else 3)
    shown = {name: str(value) for name, value in vars(options).items() if value is not None}
    results = Results({**shown, "rounds": rounds, "scale": scale})
    systems = _systems(suite, options, directory)
    with ExitStack() as stack:
        for system in systems:
            system.start()
            stack.callback(_stop, system, results)
        if any(cell.name not in suite.cold_cells for cell in cells):
            _warm_up(suite, systems, max(scale, WARM_UP_SCALE), console)
        for cell in cells:
            _run_cell(cell, systems, rounds, scale, results, console)
    return results


def _warm_up(suite: Suite, systems: list[System], scale: float, console: Console) -> None:
    for _ in range(WARM_UP_ROUNDS):
        for system in systems:
            console.log(f"warm up {system.name}", style="dim")
            suite.warm_up(system, scale)


def _run_cell(cell: Cell, systems: list[System], rounds: int, scale: float, results: Results, console: Console) -> None:
    for number in range(rounds):
        for system in systems if number % 2 == 0 else reversed(systems):
            began = time.monotonic()
            try:
                results.add(cell, system.name, cell.run(system, scale))
            except Exception as error:
                # A broker under development can fail in any way; the other cells are worth having all the same.
                results.failures[f"{cell.name} on {system.name}"] = f"{type(error).__name__}: {error}"
                console.log(f"{cell.name} on {system.name}: {error}\n{system.last_words()}", style="red", markup=False)
            else:
                taken = f"{time.monotonic() - began:.1f} s"
                console.log(f"{cell.name} round {number + 1} {system.name}: {taken}", style="dim")
    show(results, console, [cell.name])


def _stop(system: System, results: Results) -> None:
    try:
        system.node.stop()
    except Exception as error:
        # The figures are there already: a bad end is reported beside them.
        results.failures[f"the stop of {system.name}"] = f"{type(error).__name__}: {error}"


def _systems(suite: Suite, options: argparse.Namespace, directory: Path) -> list[System]:
    systems = []
    if not options.no_kafka:
        systems.append(System.kafka(directory / "kafka", suite.kafka_settings))
    if not options.no_penstock:
        systems.append(System.penstock(directory / "penstock", options.python, options.profile))
    return systems


def _report(results: Results, options: argparse.Namespace, console: Console) -> int:
    show(results, Console())
    show_summary(results, Console())
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(results.to_json() + "\n")
        console.print(f"figures of every round: {options.out}")
    if options.profile and not options.no_penstock:
        console.print(f"profile of the timed runs: {options.profile} and {options.profile}.folded")
    return 1 if results.failures else 0


def _parser(suite: Suite) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=suite.command, description=suite.description)
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="CELL", help="cells to run, also as patterns such as 'produce-*'"
    )
    parser.add_argument("--list", action="store_true", help="show the cells and end")
    parser.add_argument("--rounds", type=int, help="rounds of each cell; medians are shown (default 3; 1 with --quick)")
    parser.add_argument("--quick", action="store_true", help="a quarter of the work, one round: rough figures")
    parser.add_argument("--no-kafka", action="store_true", help="Penstock only, no ratios")
    parser.add_argument("--no-penstock", action="store_true", help="Kafka only")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs Penstock")
    parser.add_argument(
        "--profile",
        type=lambda path: Path(path).resolve(),
        metavar="FILE",
        help="sample the Penstock broker in the timed runs",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the figures of every round as JSON")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: the temporary directory)")
    return parser
