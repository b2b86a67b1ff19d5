"""A dataset there and back: events of 200 bytes from a topic into Parquet, and from there into another topic.

    python -m benchmarks.spark.dataset                        # 20 million events, 4 GB
    python -m benchmarks.spark.dataset --events 1000000

Both ways are pipeline projects, run by `penstock pipeline run`, whose progress is shown: the ready pipeline `lake`, and
a project of a few lines that reads the files. Count and checksum of keys and values are taken three times, by DuckDB:
of the first topic, of the Parquet files, of the second topic. They must be equal. The checksum is a sum of one hash for
each event, so order does not matter, and every event counts.

The most memory that all processes of a run had together is sampled twice a second.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.progress import Progress

import penstock
from benchmarks.broker.process import resident_bytes
from benchmarks.broker.report import machine
from brokers import PenstockProcess
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster

EVENTS = 20_000_000
EVENT_BYTES = 200
PARTITIONS = 4
CHUNK = 200_000
SAMPLE_SECONDS = 0.5
HEAP = "2g"

CHECKSUM = "SELECT count(*), sum(hash(key, value)::HUGEINT) FROM events"

BACK_SPEC = """name: back
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""
BACK_FLOW = """from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
dp.create_sink("back", "penstock", {{"kafka.bootstrap.servers": "{bootstrap}", "topic": "back"}})


@dp.append_flow(target="back", name="back")
def flow():
    files = spark.read.parquet("{path}").schema
    return spark.readStream.schema(files).parquet("{path}").select("key", "value", "timestamp")
"""


def main() -> int:
    options = _options()
    console = Console(stderr=True)
    figures: dict[str, object] = {"events": options.events, "machine": machine()}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-dataset-", dir=options.dir)))
        broker = stack.enter_context(PenstockProcess(directory / "broker", {}))
        with Cluster(broker.bootstrap) as cluster:
            for topic in ("events", "back"):
                Admin(cluster).create_topic(topic, partitions=PARTITIONS)
        figures["fill_s"] = _fill(broker.bootstrap, options.events, console)
        lake = directory / "lake"
        project = directory / "lake-project"
        settings = [f"bootstrap={broker.bootstrap}", "topic=events", f"path={lake}"]
        subprocess.run([*_penstock(), "pipeline", "init", str(project), "lake", *settings], check=True)
        figures["to_parquet"] = _run(project)
        back = _write_back_project(directory / "back-project", broker.bootstrap, lake)
        figures["to_topic"] = _run(back)
        sums = {
            "first topic": _checksum_of_topic(broker.bootstrap, "events"),
            "Parquet": _checksum_of_files(lake),
            "second topic": _checksum_of_topic(broker.bootstrap, "back"),
        }
        figures["broker_mb"] = resident_bytes(broker.pid) / 1e6
    figures["checksums"] = {where: [count, str(total)] for where, (count, total) in sums.items()}
    print(json.dumps(figures, indent=1))
    is_equal = len(set(sums.values())) == 1 and sums["Parquet"][0] == options.events
    console.print("counts and checksums are equal" if is_equal else "COUNTS OR CHECKSUMS DIFFER", style="bold")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=1))
    return 0 if is_equal else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.spark.dataset", description="A dataset there and back.")
    parser.add_argument("--events", type=int, default=EVENTS, help=f"how many ({EVENTS:,})")
    parser.add_argument("--dir", type=Path, help="where the data goes (the temporary directory)")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    return parser.parse_args()


def _penstock() -> list[str]:
    return [sys.executable, "-m", "penstock.cli.main"]


def _fill(bootstrap: str, events: int, console: Console) -> float:
    began = time.monotonic()
    filler = "the quick brown fox jumps over the lazy dog; " * (EVENT_BYTES // 45 + 1)
    with Progress(console=console) as progress:
        task = progress.add_task("events into the first topic", total=events)
        for start in range(0, events, CHUNK):
            numbers = pa.array(range(start, min(events, start + CHUNK)), pa.int64()).cast(pa.string())
            value = pc.utf8_slice_codeunits(pc.binary_join_element_wise(numbers, filler, ":"), 0, EVENT_BYTES)
            penstock.write("events", pa.table({"key": numbers, "value": value}), bootstrap=bootstrap)
            progress.advance(task, len(numbers))
    return time.monotonic() - began


def _write_back_project(project: Path, bootstrap: str, lake: Path) -> Path:
    (project / "transformations").mkdir(parents=True)
    (project / "spark-pipeline.yml").write_text(BACK_SPEC.format(storage=(project / "storage").as_uri()))
    (project / "transformations" / "back.py").write_text(BACK_FLOW.format(bootstrap=bootstrap, path=lake))
    return project


def _run(project: Path) -> dict[str, float]:
    """Run it to the end; how long it took, and the most memory of all its processes together."""
    began = time.monotonic()
    command = [*_penstock(), "pipeline", "run", str(project), "--conf", f"spark.driver.memory={HEAP}"]
    with subprocess.Popen(command, start_new_session=True) as process:
        sampler = _MemorySampler(process.pid)
        sampler.start()
        status = process.wait()
        sampler.is_over.set()
        sampler.join()
    if status != 0:
        raise RuntimeError(f"the pipeline {project.name} ended with status {status}")
    return {"seconds": time.monotonic() - began, "peak_mb": sampler.peak_bytes / 1e6}


class _MemorySampler(threading.Thread):
    """Of a process and all that it started: they are its session."""

    def __init__(self, leader: int) -> None:
        super().__init__(daemon=True)
        self._leader = leader
        self.is_over = threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        while not self.is_over.wait(SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, sum(map(_resident, self._members())))

    def _members(self) -> list[int]:
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _session(pid) == self._leader]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def _resident(pid: int) -> int:
    try:
        return resident_bytes(pid)
    except (OSError, IndexError):
        return 0


def _checksum_of_topic(bootstrap: str, topic: str) -> tuple[int, int]:
    events = penstock.read(topic, columns=["key", "value"], bootstrap=bootstrap)
    return _checksum(duckdb.from_arrow(events))


def _checksum_of_files(lake: Path) -> tuple[int, int]:
    return _checksum(duckdb.read_parquet(f"{lake}/**/*.parquet").select("key, value"))


def _checksum(events: duckdb.DuckDBPyRelation) -> tuple[int, int]:
    ((count, total),) = events.query("events", CHECKSUM).fetchall()
    return int(count), int(total)


if __name__ == "__main__":
    sys.exit(main())
