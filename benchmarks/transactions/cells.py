"""The cells of the table of transactions: what is done to a broker, and what comes out as figures.

How much work: one to three seconds on Kafka.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import raw
from benchmarks.broker.cells import Cell, Figures
from benchmarks.broker.scratch import warm_pages
from benchmarks.broker.systems import System, Usage
from benchmarks.broker.topics import LATEST, temporary_topic
from transactional import Transactional

from .frames import SmallTransactions, Step
from .java import is_there, java_producers
from .loop import run_loop
from .producers import TRANSACTION_MESSAGES, Run, Runs, confluent_producers, run_idempotent
from .steps import run_steps

READ_COMMITTED = 1
MARKER = 1
COMMITTED_TIMEOUT_SECONDS = 30.0
IDS_PER_CONNECTION = 10
"""In turn: when an id comes again, Kafka has written the markers of its last transaction."""
SMALL_PARTITIONS = 4
LOOP_MESSAGES = 100_000
LOOP_VALUE_BYTES = 100
Client = Callable[[System, int, int, int], AbstractContextManager[Runs]]
"""Of a system, for values of that size, so many messages in all, so many producers."""


@dataclass(frozen=True, slots=True)
class Produce:
    """The same messages by idempotent producers, by such that wait after each 1,000, and by transactional ones."""

    value_bytes: int
    messages: int
    producers: int
    client: Client

    def run(self, system: System, scale: float) -> Figures:
        step = TRANSACTION_MESSAGES * self.producers
        count = max(1, int(self.messages * scale) // step) * step
        markers = (self.producers + count // TRANSACTION_MESSAGES) * MARKER
        with self.client(system, self.value_bytes, count, self.producers) as runs:
            idempotent = self._measure(system, runs.idempotent, count)
            waiting = self._measure(system, runs.waiting, count)
            transactional = self._measure(system, runs.transactional, count, markers)
        return {
            "idempotent_messages_per_s": count / idempotent.wall_s,
            "waiting_messages_per_s": count / waiting.wall_s,
            "transactional_messages_per_s": count / transactional.wall_s,
            "of_idempotent": idempotent.wall_s / transactional.wall_s,
            "of_waiting": waiting.wall_s / transactional.wall_s,
            "idempotent_cpu_us_per_1000": idempotent.cpu_s * 1e9 / count,
            "transactional_cpu_us_per_1000": transactional.cpu_s * 1e9 / count,
            "idempotent_client_cpu_us_per_1000": idempotent.client_cpu_s * 1e9 / count,
            "transactional_client_cpu_us_per_1000": transactional.client_cpu_s * 1e9 / count,
        }

    def _measure(self, system: System, run: Run, count: int, markers: int = 0) -> Usage:
        with temporary_topic(system) as topic:
            warm_pages(system.directory, count * self.value_bytes)
            usage = run(topic)
            check_committed(system, topic, 1, self.producers + count + markers)
        return usage


@dataclass(frozen=True, slots=True)
class Small:
    """Transactions of one message by raw frames."""

    version: int
    transactions: int
    connections: int = 1

    def run(self, system: System, scale: float) -> Figures:
        ids = self.connections * IDS_PER_CONNECTION
        each = max(1, int(self.transactions * scale) // ids)
        partitions = min(self.connections, SMALL_PARTITIONS)
        with temporary_topic(system, partitions) as topic:
            steps = [self._steps(system, topic, line, each) for line in range(self.connections)]
            with system.measure() as usage:
                retries = run_steps(system.port, steps)
            check_committed(system, topic, partitions, ids * each * (1 + MARKER))
        count = ids * each
        return {
            "transactions_per_s": count / usage.wall_s,
            "cpu_us_per_transaction": usage.cpu_s * 1e6 / count,
            "retries_per_1000": retries * 1e3 / count,
        }

    def _steps(self, system: System, topic: str, line: int, each: int) -> list[Step]:
        """The transactions of a connection's ids, one of each in turn."""
        names = [f"{topic}-{line:02}-{number:02}" for number in range(IDS_PER_CONNECTION)]
        partition = line % min(self.connections, SMALL_PARTITIONS)
        ids = [list(begin(system, name, self.version, topic, partition).steps(each)) for name in names]
        size = len(ids[0]) // each
        turns = (ids[number][turn * size : (turn + 1) * size] for turn in range(each) for number in range(len(ids)))
        return list(itertools.chain.from_iterable(turns))


def begin(system: System, name: str, version: int, topic: str, partition: int) -> SmallTransactions:
    """A new transactional id, ready for its first transaction."""
    with Transactional(system.bootstrap, name) as producer:
        if code := producer.settled(producer.init):
            raise RuntimeError(f"InitProducerId of {name} was answered with error code {code}")
        return SmallTransactions(version, name, producer.producer_id, producer.epoch, topic, partition)


def run_copy(system: System, scale: float) -> Figures:
    count = int(LOOP_MESSAGES * scale) // TRANSACTION_MESSAGES * TRANSACTION_MESSAGES
    with temporary_topic(system) as source, temporary_topic(system) as target:
        run_idempotent(system, source, LOOP_VALUE_BYTES, count - 1, producers=1)
        usage, transactions = run_loop(system, source, target, count)
        check_committed(system, target, 1, count + transactions * MARKER)
    return {
        "copied_messages_per_s": count / usage.wall_s,
        "messages_per_transaction": count / transactions,
        "cpu_us_per_transaction": usage.cpu_s * 1e6 / transactions,
    }


def check_committed(system: System, topic: str, partitions: int, records: int) -> None:
    """Who reads committed messages must be able to read all, markers counted. Kafka writes those after its answer."""
    deadline = time.monotonic() + COMMITTED_TIMEOUT_SECONDS
    with raw.Connection(system.bootstrap) as connection:
        while (found := _last_stable(connection, topic, partitions)) != records:
            if found > records or time.monotonic() > deadline:
                raise RuntimeError(f"{system.name}: {records} records were to be committed, and {found} are")
            time.sleep(0.02)


def _last_stable(connection: raw.Connection, topic: str, partitions: int) -> int:
    asked = [{"partition_index": index, "timestamp": LATEST} for index in range(partitions)]
    topics = [{"name": topic, "partitions": asked}]
    answer = connection.call("ListOffsets", 6, replica_id=-1, isolation_level=READ_COMMITTED, topics=topics)
    return sum(part.offset for part in answer.topics[0].partitions)


def warm_up(system: System, scale: float) -> None:
    """Work that is not timed: Kafka makes its internal topics, and its compiler needs it."""
    Small(1, 6_000, connections=20).run(system, scale)
    Small(2, 12_000, connections=20).run(system, scale)
    Produce(100, 300_000, 1, confluent_producers).run(system, scale)


_SMALL = [
    Cell(
        f"small-v{version}{suffix}",
        f"version {version}, one message a transaction, {what}",
        Small(version, count, connections).run,
    )
    for version in (1, 2)
    for suffix, what, count, connections in (
        ("", "one connection, one request at a time", 3_000, 1),
        ("-20", "20 connections", 6_000, 20),
    )
]


def _produce_cells(prefix: str, name: str, client: Client, messages: tuple[int, int]) -> list[Cell]:
    """`messages` of 100 B, and of 1 KB."""
    return [
        Cell(
            f"{prefix}-{size_name}{suffix}",
            f"{name}, {size_name}, 1,000 a transaction, {what}",
            Produce(size, count, producers, client).run,
        )
        for size_name, size, count in (("100B", 100, messages[0]), ("1KB", 1024, messages[1]))
        for suffix, what, producers in (("", "one producer", 1), ("-4", "four producers", 4))
    ]


CELLS: list[Cell] = [
    *_SMALL,
    *_produce_cells("transactional", "confluent-kafka", confluent_producers, (600_000, 300_000)),
    *(_produce_cells("java", "Kafka's own client", java_producers, (400_000, 100_000)) if is_there() else ()),
    Cell("copy", "consume, process, produce with the offsets in the transaction, up to 1,000 messages each", run_copy),
]
