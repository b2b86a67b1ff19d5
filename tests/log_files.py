"""What must be true of a data directory after a clean stop, judged from its files alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import oracle
from brokers import SOURCE
from penstock.env.clock import SystemClock
from penstock.env.files import SystemFiles
from penstock.log.config import LogConfig
from penstock.log.loader import load_log
from penstock.log.open_segments import OpenSegments
from penstock.types import TopicPartition

DUMP = "org.apache.kafka.tools.DumpLogSegments"
FILES_PER_DUMP = 500
"""Kafka's tool takes a list of files; each start of Java costs a second."""

COMPLAINTS = re.compile("isvalid: false|mismatch|Exception|Non-consecutive|Could not|corrupt", re.IGNORECASE)

FIRST_OF_A_SEGMENT = re.compile(r"Non-consecutive offsets in (\S*/0*(\d+)\.log)\n\s+-1 is followed by \2\n")
"""Kafka's tool says this of every segment that does not begin at 0, its own included."""


def partition_directories(log_dir: Path) -> list[Path]:
    return sorted(path for path in log_dir.iterdir() if path.is_dir() and re.search(r"-\d+$", path.name))


def check_indexes(log_dir: Path, scratch: Path, config: LogConfig) -> None:
    """Every index is byte for byte what a scan of its segment makes of it, the newest one's too; nothing is damaged."""
    for directory in partition_directories(log_dir):
        copy = scratch / directory.name
        shutil.copytree(directory, copy)
        for path in (*copy.glob("*.index"), *copy.glob("*.timeindex")):
            path.unlink()
        name, _, partition = directory.name.rpartition("-")
        log = load_log(
            SystemFiles(), SystemClock(), OpenSegments(), str(copy), TopicPartition(name, int(partition)), bytes(16),
            config, is_clean=False,
        )  # fmt: skip
        assert not log.corruptions, log.corruptions
        log.close()
        names = {path.name for path in directory.glob("*index")}
        assert names == {path.name for path in copy.glob("*index")}, f"{directory} lacks an index or has a stray one"
        for name in sorted(names):
            assert (directory / name).read_bytes() == (copy / name).read_bytes(), f"{name} is not as a rebuilt one"
        shutil.rmtree(copy)


def check_with_penstock(log_dir: Path) -> None:
    """`penstock log dump --check` finds nothing wrong."""
    command = [sys.executable, "-m", "penstock.cli.main", "log", "dump", "--check", str(log_dir)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]


def check_with_kafka(log_dir: Path) -> None:
    """Kafka's own checker reads every record and compares every index entry with the log."""
    directories = partition_directories(log_dir)
    _dump(_files(directories, "*.log"), ["--deep-iteration"])
    _dump(_files(directories, "*.index") + _files(directories, "*.timeindex"), ["--verify-index-only"])
    _dump(_files(directories, "*.snapshot"), [])


def _files(directories: list[Path], pattern: str) -> list[str]:
    """Those with something in them: the tool takes no empty files."""
    return sorted(str(path) for each in directories for path in each.glob(pattern) if path.stat().st_size)


def _dump(paths: list[str], options: list[str]) -> None:
    for first in range(0, len(paths), FILES_PER_DUMP):
        files = paths[first : first + FILES_PER_DUMP]
        done = oracle.run_tool(DUMP, [*options, "--files", ",".join(files)])
        text = FIRST_OF_A_SEGMENT.sub("", done.stdout + done.stderr)
        assert done.returncode == 0, text[-3000:]
        found = COMPLAINTS.search(text)
        assert found is None, text[max(0, found.start() - 500) : found.end() + 500]
