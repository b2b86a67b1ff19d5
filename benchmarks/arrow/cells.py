"""The cells of the table: the same records by `penstock.read` and `consume()`, by `penstock.write` and `produce()`.

Both clients talk to the same live broker, in turn, in this process. What is compared is how many records a second
arrive: as an Arrow table there, as message objects here; and how many are acknowledged, from an Arrow table there, from
a list of bytes here. confluent-kafka runs with large batches and queues, as in `benchmarks.broker`. Every count is
checked, and what is read is the same topic, written by confluent-kafka. "Socket" is what the machine gives at best
(`floor.py`).

How much work: one to three seconds for confluent-kafka.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

import penstock
from benchmarks.broker.cells import Cell, Figures
from benchmarks.broker.clients import CONSUMER, PRODUCER, RUN_TIMEOUT_SECONDS, VALUES, take
from benchmarks.broker.frames import text
from benchmarks.broker.scratch import warm_pages
from benchmarks.broker.systems import System
from benchmarks.broker.topics import check_written, temporary_topic

from .floor import receive_floor, send_floor

PARTITIONS = 2
KEYS = 10_007
"""Different keys in turn; a prime, so that values and keys meet in all ways."""


@dataclass(frozen=True, slots=True)
class Read:
    """All records of a topic, from its beginning to its end."""

    value_bytes: int
    records: int

    def run(self, system: System, scale: float) -> Figures:
        count = int(self.records * scale)
        with temporary_topic(system, PARTITIONS) as topic:
            warm_pages(system.directory, count * self.value_bytes)
            _produce(system, topic, _values(self.value_bytes), None, count)
            check_written(system, topic, PARTITIONS, count)
            by_arrow = _read(system, topic, count)
            by_confluent = _consume(system, topic, count)
        floor = receive_floor(system.directory, count * self.value_bytes)
        return _figures(count, self.value_bytes, by_arrow, by_confluent, floor)


@dataclass(frozen=True, slots=True)
class Write:
    """Records of a table, or of a list, to a topic; each is acknowledged."""

    value_bytes: int
    records: int
    has_keys: bool = False
    compression: str = "none"

    def run(self, system: System, scale: float) -> Figures:
        count = int(self.records * scale)
        values, keys = _values(self.value_bytes), _keys() if self.has_keys else None
        table = _table(values, keys, count)
        with temporary_topic(system, PARTITIONS) as topic:
            warm_pages(system.directory, count * self.value_bytes)
            began = time.perf_counter()
            result = penstock.write(topic, table, system.bootstrap, compression=self.compression)  # type: ignore[arg-type]
            by_arrow = time.perf_counter() - began
            assert result.row_count == count
            check_written(system, topic, PARTITIONS, count)
        with temporary_topic(system, PARTITIONS) as topic:
            warm_pages(system.directory, count * self.value_bytes)
            by_confluent = _produce(system, topic, values, keys, count, self.compression)
            check_written(system, topic, PARTITIONS, count)
        floor = send_floor(count * self.value_bytes)
        return _figures(count, self.value_bytes, by_arrow, by_confluent, floor)


def _figures(count: int, value_bytes: int, arrow_s: float, confluent_s: float, floor_s: float) -> Figures:
    return {
        "arrow_records_per_s": count / arrow_s,
        "confluent_records_per_s": count / confluent_s,
        "times_confluent": confluent_s / arrow_s,
        "socket_times_confluent": confluent_s / floor_s,
        "arrow_mb_per_s": count * value_bytes / arrow_s / 1e6,
        "socket_mb_per_s": count * value_bytes / floor_s / 1e6,
    }


def _read(system: System, topic: str, count: int) -> float:
    """Batch after batch, as a program works through them."""
    began = time.perf_counter()
    rows = sum(batch.num_rows for batch in penstock.read(topic, bootstrap=system.bootstrap))
    taken = time.perf_counter() - began
    assert rows == count, f"{rows} rows of {count} were read"
    return taken


def _consume(system: System, topic: str, count: int) -> float:
    consumer = Consumer({"bootstrap.servers": system.bootstrap, **CONSUMER})
    try:
        consumer.list_topics(topic, 30)
        began = time.perf_counter()
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        take(consumer, count)
        return time.perf_counter() - began
    finally:
        consumer.close()


def _produce(
    system: System, topic: str, values: list[bytes], keys: list[bytes] | None, count: int, codec: str = "none"
) -> float:
    """All by `produce()`; a callback for one in 1,000, since on each it would cost more than the call."""
    failures = []
    producer = Producer({"bootstrap.servers": system.bootstrap, "compression.type": codec, **PRODUCER})
    producer.list_topics(topic, 30)
    began = time.perf_counter()
    for index in range(count):
        key = None if keys is None else keys[index % KEYS]
        while True:
            try:
                if index % 1000:
                    producer.produce(topic, values[index % VALUES], key)
                else:
                    producer.produce(
                        topic, values[index % VALUES], key, on_delivery=lambda error, _: failures.append(error)
                    )
                    producer.poll(0)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(RUN_TIMEOUT_SECONDS)
    taken = time.perf_counter() - began
    if left or any(failures):
        raise RuntimeError(f"{left} messages were not answered: {[error for error in failures if error][:1]}")
    return taken


def _values(value_bytes: int) -> list[bytes]:
    return [text(value_bytes, seed) for seed in range(VALUES)]


def _keys() -> list[bytes]:
    return [b"user-%06d" % number for number in range(KEYS)]


def _table(values: list[bytes], keys: list[bytes] | None, count: int) -> pa.Table:
    columns = {"value": pa.array([values[index % VALUES] for index in range(count)], pa.binary())}
    if keys is not None:
        columns["key"] = pa.array([keys[index % KEYS] for index in range(count)], pa.binary())
    return pa.table(columns)


def warm_up(system: System, scale: float) -> None:
    """Work that is not timed."""
    Write(100, 400_000).run(system, scale)
    Read(100, 400_000).run(system, scale)


CELLS: list[Cell] = [
    Cell("read-100B", "penstock.read and consume(), 100 B, 2 partitions", Read(100, 2_000_000).run),
    Cell("read-1KB", "penstock.read and consume(), 1 KB, 2 partitions", Read(1024, 500_000).run),
    Cell("write-100B", "penstock.write and produce(), 100 B, no keys, 2 partitions", Write(100, 2_000_000).run),
    Cell("write-1KB", "penstock.write and produce(), 1 KB, no keys, 2 partitions", Write(1024, 500_000).run),
    Cell("write-100B-keys", "the same with keys", Write(100, 2_000_000, has_keys=True).run),
    Cell("write-1KB-keys", "the same with keys", Write(1024, 500_000, has_keys=True).run),
    Cell("write-100B-lz4", "the same with lz4, no keys", Write(100, 2_000_000, compression="lz4").run),
]
