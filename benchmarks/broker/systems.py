"""The two systems that are compared, each with one broker that runs for the whole benchmark.

    system = System.kafka(directory)
    system.start()
    with system.measure() as usage:
        load(system.port)
    usage.wall_s, usage.cpu_s

Kafka runs as it ships, one KRaft node with a heap of 1 GB; Penstock as `penstock serve` with its defaults. One setting
differs from the defaults, on both: files of deleted topics go after a second, so that the disk does not fill up.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from brokers import PenstockProcess
from oracle import KafkaNode

from .process import cpu_seconds

SETTINGS = {"log.segment.delete.delay.ms": "1000"}
HEAP = "1G"
LAST_LINES = 10
SAMPLER = Path(__file__).with_name("sampler.py")


class Node(Protocol):
    """One broker process, of either kind."""

    port: int
    bootstrap: str
    stderr_path: Path

    @property
    def pid(self) -> int: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


@dataclass(slots=True)
class Usage:
    """Wall time, the broker's CPU time and that of this process, the client, between two moments."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    client_cpu_s: float = 0.0


class System:
    """A kind of broker, and the one of it that runs now."""

    def __init__(
        self, name: str, directory: Path, make_node: Callable[[Path], Node], is_profiled: bool = False
    ) -> None:
        self.name = name
        self.directory = directory
        self.make_node = make_node
        self.node = make_node(directory / "broker")
        self.is_profiled = is_profiled

    @classmethod
    def kafka(cls, directory: Path, settings: Mapping[str, str]) -> System:
        return cls("kafka", directory, lambda path: KafkaNode(path, {**SETTINGS, **settings}, heap=HEAP))

    @classmethod
    def penstock(cls, directory: Path, python: str, profile: Path | None = None) -> System:
        return cls("penstock", directory, lambda path: _Penstock(path, python, profile), profile is not None)

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.node.start()

    def last_words(self) -> str:
        """The end of what the broker wrote on standard error."""
        return "\n".join(self.node.stderr_path.read_text(errors="replace").splitlines()[-LAST_LINES:])

    @property
    def port(self) -> int:
        return self.node.port

    @property
    def bootstrap(self) -> str:
        return self.node.bootstrap

    @property
    def pid(self) -> int:
        return self.node.pid

    @contextmanager
    def measure(self) -> Iterator[Usage]:
        """Time what the body does, on the clock and on the broker's CPU; the profiler samples only here."""
        usage = Usage()
        if self.is_profiled:
            os.kill(self.pid, signal.SIGUSR1)
        began, cpu_before, client_before = time.perf_counter(), cpu_seconds(self.pid), time.process_time()
        yield usage
        usage.cpu_s = cpu_seconds(self.pid) - cpu_before
        usage.client_cpu_s = time.process_time() - client_before
        usage.wall_s = time.perf_counter() - began
        if self.is_profiled:
            os.kill(self.pid, signal.SIGUSR2)


class _Penstock(PenstockProcess):
    """`penstock serve` under a chosen Python, and under the sampling profiler when a file for it is given."""

    def __init__(self, directory: Path, python: str, profile: Path | None) -> None:
        super().__init__(directory, SETTINGS)
        self._python = python
        self._profile = profile

    def command(self) -> list[str]:
        _, *arguments = super().command()
        if self._profile is None:
            return [self._python, *arguments]
        return [self._python, str(SAMPLER), str(self._profile), *arguments]
