"""Kafka's own Java producers (`Producers.java`), which speak version 2 of transactions: no request begins one.

A JVM of its own for each round of a cell. It does all of the work some times before the clock runs, for its compiler:
after once, what came first was slowest.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import oracle
from benchmarks.broker.clients import RUN_TIMEOUT_SECONDS
from benchmarks.broker.process import cpu_seconds
from benchmarks.broker.systems import System, Usage
from benchmarks.broker.topics import temporary_topic

from .producers import Runs

SOURCE = Path(__file__).with_name("Producers.java")
WARM_UPS = 4
MODES = ("idempotent", "waiting", "transactional")


def is_there() -> bool:
    """Java with its compiler, and Maven for Kafka's jars; whether they come is seen when a cell runs."""
    return shutil.which("javac") is not None and shutil.which("mvn") is not None


@contextmanager
def java_producers(system: System, value_bytes: int, count: int, producers: int) -> Iterator[Runs]:
    command = [*oracle.java_command(), str(SOURCE), system.bootstrap, str(value_bytes), str(producers)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    timer = threading.Timer(len(MODES) * (WARM_UPS + 1) * RUN_TIMEOUT_SECONDS, process.kill)
    timer.start()
    try:
        for mode in MODES * WARM_UPS:
            with temporary_topic(system) as topic:
                _run(process, system, count, mode, topic)
        yield Runs(*[partial(_run, process, system, count, mode) for mode in MODES])
    finally:
        timer.cancel()
        process.kill()
        process.communicate()


def _run(process: subprocess.Popen[str], system: System, count: int, mode: str, topic: str) -> Usage:
    _tell(process, f"{mode} {topic} {count}")
    _expect(process, "ready")
    before = cpu_seconds(process.pid)
    with system.measure() as usage:
        _tell(process, "go")
        _expect(process, "done")
    usage.client_cpu_s = cpu_seconds(process.pid) - before
    return usage


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def _expect(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    said = process.stdout.readline().strip()
    if said != word:
        raise RuntimeError(f"Kafka's producers said {said!r} and not {word!r}; what they wrote is above")
