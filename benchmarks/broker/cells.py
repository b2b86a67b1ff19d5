"""The cells of the table: what is done to a broker, and what comes out as figures.

A cell is one kind of work. It runs on a topic of its own, on warm pages, with the same work on both systems, and gives
its figures by name; the names end in their units, and `report.py` knows which way each is better.

How much work: enough for one to three seconds on Kafka, and never more than about 1 GB on disk.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import raw

from . import clients
from .end_to_end import RECORD_BATCH_BYTES, run_end_to_end
from .frames import RECORD_BYTES, make_batch, produce_error_at, produce_frame, sequenced_frames
from .loader import Load, run_one_at_a_time, run_pipelined
from .process import resident_bytes
from .reader import check_stored, run_reader
from .relay import run_relay
from .scratch import warm_pages
from .start import IDLE_CONNECTIONS, idle_connections, run_start
from .systems import System, Usage
from .topics import check_written, count_records, lasting_topic, temporary_topic

Figures = dict[str, float]

CONNECTIONS = 4
IN_FLIGHT = 5
TOUCHES = 12
"""Kafka writes the first index entry after 4 KB."""
FETCH_PARTITIONS = 4
FETCH_BATCH_BYTES = 16 << 10
END_TO_END_PER_SECOND = 2_000


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of work; `run` does it on a system, at a scale of 1 or less, and returns its figures."""

    name: str
    what: str
    run: Callable[[System, float], Figures]


# Raw produce


@dataclass(frozen=True, slots=True)
class Produce:
    """Pre-encoded produce requests of one size."""

    batch_bytes: int
    requests: int
    partitions: int = 1
    is_pipelined: bool = True
    is_idempotent: bool = False
    idle_connections: int = 0

    def run(self, system: System, scale: float) -> Figures:
        requests = max(CONNECTIONS * IN_FLIGHT, int(self.requests * scale)) // CONNECTIONS * CONNECTIONS
        idle = idle_connections(system.port, self.idle_connections) if self.idle_connections else nullcontext()
        topic_partitions = max(CONNECTIONS, self.partitions)
        make_topic = lasting_topic if self.partitions > CONNECTIONS else temporary_topic
        with idle, make_topic(system, topic_partitions) as topic:
            before = self._touch(system, topic, topic_partitions)
            loads = self._loads(system, topic, requests)
            warm_pages(system.directory, requests * self.partitions * self.batch_bytes)
            usage, taken = self._measure(system, loads)
            written = requests * self.partitions * max(1, self.batch_bytes // RECORD_BYTES)
            check_written(system, topic, topic_partitions, before + written)
        return self._figures(usage, requests) | (latencies(taken) if taken else {})

    def _touch(self, system: System, topic: str, topic_partitions: int) -> int:
        """Write the first kilobytes of each partition, untimed: then a broker opens files and maps indexes, once."""
        batch = make_batch(RECORD_BYTES)
        before = count_records(system, topic, topic_partitions)
        if before < TOUCHES * topic_partitions:
            frame = produce_frame(topic, range(topic_partitions), batch)
            load = Load.repeated(frame, TOUCHES, produce_error_at(topic, topic_partitions), 1)
            run_pipelined(system.port, [load], 1)
            before += TOUCHES * topic_partitions
        return before

    def _loads(self, system: System, topic: str, requests: int) -> list[Load]:
        error_at = produce_error_at(topic, self.partitions)
        if self.is_idempotent:
            count = requests // CONNECTIONS
            frames = [self._sequence(system, topic, index, count) for index in range(CONNECTIONS)]
            return [Load.sequence(part, count, error_at) for part in frames]
        batch = make_batch(self.batch_bytes)
        if not self.is_pipelined:
            return [Load.repeated(produce_frame(topic, [0], batch), requests, error_at, 1)]
        targets = [[index] if self.partitions == 1 else range(self.partitions) for index in range(CONNECTIONS)]
        frames_of = [produce_frame(topic, target, batch) for target in targets]
        return [Load.repeated(frame, requests // CONNECTIONS, error_at, IN_FLIGHT) for frame in frames_of]

    def _sequence(self, system: System, topic: str, partition: int, count: int) -> bytearray:
        with raw.Connection(system.bootstrap) as connection:
            given = connection.call("InitProducerId", 2, transactional_id=None, transaction_timeout_ms=60_000)
        producer = (given.producer_id, given.producer_epoch)
        return sequenced_frames(topic, partition, self.batch_bytes, producer, count)

    def _measure(self, system: System, loads: Sequence[Load]) -> tuple[Usage, array[int] | None]:
        taken = None
        with system.measure() as usage:
            if self.is_pipelined:
                run_pipelined(system.port, loads, IN_FLIGHT)
            else:
                taken = run_one_at_a_time(system.port, loads[0])
        return usage, taken

    def _figures(self, usage: Usage, requests: int) -> Figures:
        size_bytes = requests * self.partitions * self.batch_bytes
        figures = {
            "requests_per_s": requests / usage.wall_s,
            "mb_per_s": size_bytes / 1e6 / usage.wall_s,
            "cpu_us_per_request": usage.cpu_s * 1e6 / requests,
            "cpu_s_per_gb": usage.cpu_s * 1e9 / size_bytes,
        }
        if self.partitions > 1:
            figures["cpu_us_per_partition"] = figures["cpu_us_per_request"] / self.partitions
        return figures


def latencies(taken_ns: array[int]) -> Figures:
    """Percentiles in microseconds."""
    ordered = sorted(taken_ns)
    at = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999}
    return {name: ordered[min(len(ordered) - 1, int(len(ordered) * part))] / 1e3 for name, part in at.items()}


# Raw fetch


def run_fetch(system: System, scale: float) -> Figures:
    """Write 512 MB in batches of 16 KB, then read it all four times."""
    batches = max(64, int((512 << 20) * scale) // FETCH_BATCH_BYTES // FETCH_PARTITIONS)
    batch = make_batch(FETCH_BATCH_BYTES)
    with temporary_topic(system, FETCH_PARTITIONS) as topic:
        warm_pages(system.directory, batches * FETCH_PARTITIONS * FETCH_BATCH_BYTES)
        error_at = produce_error_at(topic, 1)
        frames = [produce_frame(topic, [index], batch) for index in range(FETCH_PARTITIONS)]
        run_pipelined(system.port, [Load.repeated(frame, batches, error_at, IN_FLIGHT) for frame in frames], IN_FLIGHT)
        check_stored(system.bootstrap, topic, batches // 2 * batch.records, batch)
        run_reader(system.port, topic, FETCH_PARTITIONS, batch, batches, passes=1)
        with system.measure() as usage:
            read_bytes = run_reader(system.port, topic, FETCH_PARTITIONS, batch, batches, passes=4)
    return {"gb_per_s": read_bytes / 1e9 / usage.wall_s, "cpu_s_per_gb": usage.cpu_s * 1e9 / read_bytes}


# confluent-kafka


@dataclass(frozen=True, slots=True)
class Client:
    """A producer, then a consumer, of confluent-kafka."""

    value_bytes: int
    messages: int
    codec: str

    def run(self, system: System, scale: float) -> Figures:
        count = int(self.messages * scale)
        with temporary_topic(system) as topic:
            warm_pages(system.directory, count * self.value_bytes)
            written = clients.produce(system, topic, self.value_bytes, count, self.codec)
            check_written(system, topic, 1, count)
            read = clients.consume(system, topic, count)
        return self._figures("in", written, count) | self._figures("out", read, count)

    def _figures(self, way: str, usage: Usage, count: int) -> Figures:
        size_bytes = count * self.value_bytes
        return {
            f"{way}_messages_per_s": count / usage.wall_s,
            f"{way}_mb_per_s": size_bytes / 1e6 / usage.wall_s,
            f"{way}_cpu_s_per_gb": usage.cpu_s * 1e9 / size_bytes,
            f"{way}_cpu_us_per_message": usage.cpu_s * 1e6 / count,
            f"{way}_broker_cores": usage.cpu_s / usage.wall_s,
            f"{way}_client_cores": usage.client_cpu_s / usage.wall_s,
        }


# Latency, start, memory


def run_latency(system: System, scale: float) -> Figures:
    count = int(10_000 * scale)
    with temporary_topic(system) as topic:
        warm_pages(system.directory, count * RECORD_BATCH_BYTES)
        with system.measure() as usage:
            taken = run_end_to_end(system.port, topic, count, END_TO_END_PER_SECOND)
        check_written(system, topic, 1, count)
        floor = latencies(run_relay(topic, count, END_TO_END_PER_SECOND))
    floors = {f"relay_{name}": value for name, value in floor.items()}
    return {**latencies(taken), "cpu_us_per_message": usage.cpu_s * 1e6 / count, **floors}


def run_memory(system: System, _scale: float) -> Figures:
    """After everything else: what the broker that did all of it holds."""
    return {"memory_mb": resident_bytes(system.pid) / 1e6}


def warm_up(system: System, scale: float) -> None:
    """Work that is not timed: Kafka's just-in-time compiler needs it, and what one gets the other gets too."""
    Produce(1 << 10, 60_000).run(system, scale)
    Produce(1 << 10, 20_000, is_idempotent=True).run(system, scale)
    Produce(1 << 10, 10_000, is_pipelined=False).run(system, scale)
    Produce(100 << 10, 4_000).run(system, scale)
    Produce(1 << 10, 1_000, partitions=100).run(system, scale)
    run_fetch(system, scale / 2)


_CLIENT = [
    Cell(f"client-{name}-{codec}", f"confluent-kafka, values of {name}, {codec}", Client(size, count, codec).run)
    for name, size, count in (("100B", 100, 2_000_000), ("1KB", 1024, 500_000), ("10KB", 10_240, 80_000))
    for codec in ("none", "lz4")
]
_PIPELINED = [
    Cell(f"produce-{name}", f"raw produce, {name} requests, 4 connections x 5 in flight", Produce(size, count).run)
    for name, size, count in (
        ("1KB", 1 << 10, 60_000), ("16KB", 16 << 10, 24_000), ("100KB", 100 << 10, 8_000), ("900KB", 900 << 10, 1_200),
    )
]  # fmt: skip
_ONE_AT_A_TIME = [
    Cell(f"single-{name}", f"raw produce, {name} requests, one at a time", Produce(size, count, is_pipelined=False).run)
    for name, size, count in (
        ("1KB", 1 << 10, 15_000), ("16KB", 16 << 10, 8_000), ("100KB", 100 << 10, 3_000), ("900KB", 900 << 10, 600),
    )
]  # fmt: skip
_PARTITIONS = [
    Cell(
        f"partitions-{partitions}",
        f"raw produce, {partitions} partitions a request, 1 KB each, pipelined",
        Produce(RECORD_BYTES, count, partitions=partitions).run,
    )
    for partitions, count in ((10, 10_000), (100, 1_500), (1000, 160))
]
CELLS: list[Cell] = [
    Cell(
        "start",
        "start of a fresh broker, idle memory, 1,000 idle connections",
        lambda system, _scale: run_start(system),
    ),
    *_PIPELINED,
    Cell("idempotent-1KB", "as produce-1KB, idempotent producers", Produce(1 << 10, 60_000, is_idempotent=True).run),
    Cell("idempotent-16KB", "as produce-16KB, idempotent", Produce(16 << 10, 24_000, is_idempotent=True).run),
    Cell(
        "idle-1KB",
        "as produce-1KB, 1,000 idle connections",
        Produce(1 << 10, 60_000, idle_connections=IDLE_CONNECTIONS).run,
    ),
    *_ONE_AT_A_TIME,
    *_PARTITIONS,
    Cell("fetch", "raw fetch, 4 connections, 1 MB a fetch, batches of 16 KB", run_fetch),
    Cell("end-to-end", "1 KB records at 2,000 a second, long poll", run_latency),
    *_CLIENT,
    Cell("memory", "resident memory of the broker after the run", run_memory),
]
