"""What must be true of a data directory after a clean stop, judged from its files alone."""

from __future__ import annotations

import os
import re
import shutil
import struct
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
from penstock.wire.records import iterate_headers

TIME_ENTRY = struct.Struct(">qi")
DUMP = "org.apache.kafka.tools.DumpLogSegments"
FILES_PER_DUMP = 500
"""Kafka's tool takes a list of files; each start of Java costs a second."""

COMPLAINTS = re.compile("isvalid: false|mismatch|Exception|Non-consecutive|Could not|corrupt", re.IGNORECASE)

FIRST_OF_A_SEGMENT = re.compile(r"Non-consecutive offsets in (\S*/0*(\d+)\.log)\n\s+-1 is followed by \2\n")
"""Kafka's tool says this of every segment that does not begin at 0, its own included."""


def partition_directories(log_dir: Path) -> list[Path]:
    return sorted(path for path in log_dir.iterdir() if path.is_dir() and re.search(r"-\d+$", path.name))


def check_indexes(log_dir: Path, scratch: Path, segment_bytes: int) -> None:
    """The indexes say what a scan of their segments says; nothing is damaged."""
    for directory in partition_directories(log_dir):
        copy = scratch / directory.name
        shutil.copytree(directory, copy)
        for path in (*copy.glob("*.index"), *copy.glob("*.timeindex")):
            path.unlink()
        name, _, partition = directory.name.rpartition("-")
        log = load_log(
            SystemFiles(), SystemClock(), OpenSegments(), str(copy), TopicPartition(name, int(partition)), bytes(16),
            LogConfig(segment_bytes=segment_bytes), is_clean=False,
        )  # fmt: skip
        assert not log.corruptions, log.corruptions
        log.close()
        for path in directory.glob("*.index"):
            assert path.read_bytes() == (copy / path.name).read_bytes(), f"{path} is not as a rebuilt one"
        for path in directory.glob("*.timeindex"):
            _check_time_index(path, copy / path.name)
        shutil.rmtree(copy)


def _check_time_index(path: Path, rebuilt: Path) -> None:
    """Every entry of a rebuilt one is there. One more, as true as the others, is left by each stop or recovery that
    found the segment active: it notes the largest timestamp at that moment, as Kafka does when it closes a segment."""
    found, expected = _time_entries(path), _time_entries(rebuilt)
    assert set(expected) <= set(found), f"{path} lacks entries of a rebuilt one"
    assert found == sorted(set(found)), f"{path} goes back"
    assert set(found) <= _largest_timestamps(path.with_suffix(".log")), f"{path} has an entry that is not true"


def _time_entries(path: Path) -> list[tuple[int, int]]:
    return [(timestamp, offset) for timestamp, offset in TIME_ENTRY.iter_unpack(path.read_bytes())]


def _largest_timestamps(path: Path) -> set[tuple[int, int]]:
    """(timestamp, relative last offset) of each batch that brought a larger timestamp than all before it."""
    data, base_offset = path.read_bytes(), int(path.stem)
    largest, entries = -1, set()
    for _, header in iterate_headers(data):
        if header.max_timestamp > largest:
            largest = header.max_timestamp
            entries.add((largest, header.last_offset - base_offset))
    return entries


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
