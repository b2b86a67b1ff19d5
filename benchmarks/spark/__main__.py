"""The command line: `python -m benchmarks.spark` from the root of the repository.

One Penstock broker, two Sparks: ours with the data source `penstock` (the pyspark of this environment), and 4.0.0 with
its own Kafka connector. The same queries in turn, round by round, after untimed rounds: a JVM gets faster for minutes.
Topics of two partitions, two cores for each Spark, and never both at work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import penstock
from benchmarks.broker.report import machine
from brokers import PenstockProcess
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster

from .connector import SPARK_VERSION, ConnectorUnavailableError, fetch

WORKER = Path(__file__).with_name("worker.py")
PARTITIONS = 2
FILL_ROWS = 100_000
MICRO_BATCHES, MICRO_ROWS = 20, 1_000
WARM_ROUNDS, WARM_READS, WARM_BATCHES = 3, 3, 5
"""Untimed: rounds, further reads in each (they become faster for longest), and micro-batches."""
SIZES = {"100B": (100, 7_500_000), "1KB": (1_000, 600_000)}
AIMS = {("read", "100B"): 2.0, ("read", "1KB"): 1.2, ("write", "100B"): 1.0, ("write", "1KB"): 1.0}


@dataclass
class Spark:
    """A worker process."""

    name: str
    process: subprocess.Popen[str]

    def tell(self, do: str, **order: Any) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"do": do, **order}), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the Spark of {self.name} ended with status {self.process.wait()}")
        told: dict[str, float] = json.loads(answer)
        return told


@dataclass
class Results:
    """Records a second (or milliseconds) of every round: cell -> name of the Spark -> rounds."""

    rounds: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, cell: str, name: str, value: float) -> None:
        self.rounds.setdefault(cell, {}).setdefault(name, []).append(value)

    def median(self, cell: str, name: str) -> float | None:
        values = self.rounds[cell].get(name)
        return statistics.median(values) if values else None


def main() -> int:
    options = _options()
    console = Console(stderr=True)
    results = Results()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-spark-")))
        broker = stack.enter_context(PenstockProcess(directory / "broker", {"log.segment.delete.delay.ms": "1000"}))
        sparks = [stack.enter_context(_spark("penstock", sys.executable, "", broker.bootstrap, directory))]
        try:
            python, jars = fetch()
            sparks.append(stack.enter_context(_spark("kafka", python, jars, broker.bootstrap, directory)))
        except ConnectorUnavailableError as error:
            console.print(f"{error}: nothing is compared", style="yellow")
        for size in options.sizes:
            _run_size(broker.bootstrap, sparks, size, options, results, console)
            _show(results, size)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"machine": machine(), "rounds": results.rounds}, indent=1))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds of each cell (3)")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="of a message (all)")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the usual work")
    parser.add_argument("--out", type=Path, help="write the figures of every round as JSON")
    return parser.parse_args()


@contextmanager
def _spark(kind: str, python: str, jars: str, bootstrap: str, directory: Path) -> Iterator[Spark]:
    told = {"kind": kind, "bootstrap": bootstrap, "jars": jars, "directory": str(directory / kind)}
    (directory / kind).mkdir()
    environment = {**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (directory / f"{kind}.stderr").open("w") as stderr:
        process = subprocess.Popen(
            [python, str(WORKER), json.dumps(told)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment,
        )  # fmt: skip
    try:
        yield Spark(kind, process)
    except RuntimeError as error:
        words = (directory / f"{kind}.stderr").read_text()[-2000:]
        raise RuntimeError(f"{error}:\n{words}") from error
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _run_size(
    bootstrap: str, sparks: list[Spark], size: str, options: argparse.Namespace, results: Results, console: Console
) -> None:
    value_bytes, usual = SIZES[size]
    count = int(usual * options.scale)
    full = f"full-{size}"
    _make_topic(bootstrap, full)
    _fill(bootstrap, full, value_bytes, count)
    for number in range(WARM_ROUNDS + options.rounds):
        is_timed = number >= WARM_ROUNDS
        for spark in sparks if number % 2 else sparks[::-1]:
            console.print(f"{size}, {'timed' if is_timed else 'warming up'}, {number + 1}: {spark.name}")
            for _ in range(0 if is_timed else WARM_READS):
                spark.tell("read", topic=full)
            fresh = f"written-{size}-{number}-{spark.name}"
            _make_topic(bootstrap, fresh)
            rates = {
                f"read {size}": count / spark.tell("read", topic=full)["seconds"],
                f"write {size}": count
                / spark.tell("write", topic=fresh, value_bytes=value_bytes, count=count)["seconds"],
            }
            _check_count(bootstrap, fresh, count)
            _delete_topic(bootstrap, fresh)
            stored = spark.tell("parquet", topic=full)
            if stored["rows"] != count:
                raise RuntimeError(f"{spark.name} wrote {stored['rows']:,.0f} rows of {count:,} to Parquet")
            rates[f"to Parquet {size}"] = count / stored["seconds"]
            batches = MICRO_BATCHES if is_timed else WARM_BATCHES
            told = spark.tell("stream", topic=full, batches=batches, rows_per_batch=MICRO_ROWS)
            rates[f"micro-batch of {MICRO_ROWS:,}, ms, {size}"] = told["median_ms"]
            console.print("    " + "; ".join(f"{cell} {rate:,.0f}" for cell, rate in rates.items()), style="dim")
            for cell, rate in rates.items() if is_timed else ():
                results.add(cell, spark.name, rate)
    _delete_topic(bootstrap, full)


def _make_topic(bootstrap: str, topic: str) -> None:
    with Cluster(bootstrap) as cluster:
        Admin(cluster).create_topic(topic, partitions=PARTITIONS)


def _delete_topic(bootstrap: str, topic: str) -> None:
    with Cluster(bootstrap) as cluster:
        Admin(cluster).delete_topic(topic)


def _fill(bootstrap: str, topic: str, value_bytes: int, count: int) -> None:
    filler = "abcdefghijklmnopqrstuvwxyz" * (value_bytes // 26 + 1)
    for start in range(0, count, FILL_ROWS):
        numbers = [str(number) for number in range(start, min(count, start + FILL_ROWS))]
        values = [(filler[: value_bytes - len(number)] + number).encode() for number in numbers]
        rows = pa.table({"key": pa.array(numbers).cast(pa.binary()), "value": pa.array(values, pa.binary())})
        penstock.write(topic, rows, bootstrap=bootstrap)


def _check_count(bootstrap: str, topic: str, count: int) -> None:
    found = sum(batch.num_rows for batch in penstock.read(topic, columns=["offset"], bootstrap=bootstrap))
    if found != count:
        raise RuntimeError(f"{topic} has {found:,} rows of {count:,}")


def _show(results: Results, size: str) -> None:
    table = Table(header_style="bold", pad_edge=False)
    for column in ("records/s", f"Spark {SPARK_VERSION}, Kafka connector", "Spark, penstock", "ratio", "aim", ""):
        table.add_column(column, justify="left" if column == "records/s" else "right")
    for cell in [each for each in results.rounds if each.endswith(size)]:
        theirs, ours = results.median(cell, "kafka"), results.median(cell, "penstock")
        ratio = ours / theirs if ours and theirs else None
        shown = ["" if each is None else f"{each:,.0f}" for each in (theirs, ours)]
        table.add_row(cell, *shown, "" if ratio is None else f"{ratio:.2f}", *verdict(cell, ratio))
    Console().print(table)


def verdict(cell: str, ratio: float | None) -> tuple[str, str]:
    """The aim of a cell, and whether it is met."""
    what, *_, size = cell.split()
    aim = AIMS.get((what, size))
    if aim is None:
        return "", ""
    return f">= {aim}", "" if ratio is None else "met" if ratio >= aim else "missed"


if __name__ == "__main__":
    sys.exit(main())
