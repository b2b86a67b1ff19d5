"""`penstock.read` and `penstock.write`: a topic as a table, for pandas, polars, DuckDB and whatever else takes Arrow.

    table = penstock.read("orders").read_all()
    frame = penstock.read("orders", start=datetime(2026, 1, 1, tzinfo=UTC), columns=["key", "value"]).read_pandas()
    penstock.write("orders", pyarrow.table({"key": ["a"], "value": ["1"]}))

Where to start and where to end is an offset for each partition:

    "earliest"          where the log starts; the default start
    "latest"            where it ends when `read` is called, for this reader; the default end
    12                  this offset, in every partition
    {0: 12, 3: 40}      partition -> offset; partitions that are not named are not read at all
    a datetime          the first record at or after that moment; the end where none is that late

Rules:
- `read` looks up its end once and reads up to there: it always comes to an end. An offset outside of the log that was
  named by number is moved to the nearer end, unless records were deleted there: then it is `DataLossError`;
- `read` gives records of committed transactions and of none; `isolation="read_uncommitted"` gives all;
- `write` returns when all is written and confirmed, exactly once, or raises. With a `transactional_id` all of it is
  visible at once or nothing is. A column that is not one of a topic's is an error here, and so is one misspelt;
- the async twins do the same in a thread of their own; `read_async` fetches on only as its batches are taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol

import pyarrow as pa

from penstock.client.arrow.reader import BATCH_BYTES, RangeReader
from penstock.client.arrow.rows import WRITABLE
from penstock.client.arrow.schema import FIELDS, SchemaError, topic_schema
from penstock.client.arrow.sender import Written
from penstock.client.arrow.writer import Acks, ArrowWriter
from penstock.client.cluster import Cluster
from penstock.client.offsets import (
    EARLIEST,
    LATEST,
    NO_OFFSET,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    list_offsets,
)
from penstock.client.transactional import TransactionalSession
from penstock.errors import ConfigError
from penstock.types import TopicPartition
from penstock.wire.records import Codec

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

READ_ROWS = 64 * 1024
"""Rows of one batch of `read`; readers of Arrow work best with about so many."""

EPOCH = datetime.fromtimestamp(0, UTC)

Position = Literal["earliest", "latest"] | int | Mapping[int, int] | datetime
Isolation = Literal["read_committed", "read_uncommitted"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class ArrowStream(Protocol):
    """Any table: pyarrow, polars, pandas, DuckDB and others give theirs by Arrow's C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowBatch(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...


Writable = ArrowStream | ArrowBatch | Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What `write` did: how many rows, and for each partition how many and at which offsets."""

    row_count: int
    partitions: Mapping[TopicPartition, Written]


def read(
    topic: str,
    start: Position | None = None,
    end: Position | None = None,
    columns: Sequence[str] | None = None,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    *,
    headers: bool = False,
    isolation: Isolation = "read_committed",
    batch_rows: int = READ_ROWS,
    timeout_ms: float | None = None,
    on_missing: Literal["error", "skip"] = "error",
) -> pa.RecordBatchReader:
    """The records of a topic that are there now, as batches that are fetched while they are taken.

    Columns are those of Spark's Kafka source; `headers=True`, or naming them, adds the headers.
    """
    schema = topic_schema(columns, with_headers=headers)
    level = _isolation_level(isolation)
    with Cluster(bootstrap, **_timeout(timeout_ms)) as cluster:
        ranges = _ranges(cluster, topic, start, end, level)
    reader = RangeReader(
        cluster,  # a twin of it reads, when and if somebody takes the first batch
        ranges,
        schema=schema,
        isolation_level=level,
        batch_rows=batch_rows,
        batch_bytes=BATCH_BYTES,
        timeout_ms=timeout_ms,
        on_missing=on_missing,
    )
    return pa.RecordBatchReader.from_batches(schema, reader.batches())


async def read_async(topic: str, *args: Any, **kwargs: Any) -> AsyncIterator[pa.RecordBatch]:
    """The batches of `read`, which see: `async for batch in penstock.read_async("orders"): ...`."""
    reader = await asyncio.to_thread(read, topic, *args, **kwargs)
    with closing(reader):
        while (batch := await asyncio.to_thread(_next, reader)) is not None:
            yield batch


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    """None at the end: StopIteration cannot pass through a coroutine."""
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def write(
    topic: str | None,
    data: Writable,
    bootstrap: str = DEFAULT_BOOTSTRAP,
    *,
    compression: Compression = "none",
    acks: Acks = "all",
    idempotent: bool | None = None,
    transactional_id: str | None = None,
    partitioner: str = "consistent_random",
    timeout_ms: float | None = None,
) -> WriteResult:
    """Write a table, or many batches, to a topic, or to those that a column `topic` names when `topic` is None."""
    reader = _record_batches(data)
    _check_columns(reader.schema)
    codec = _codec(compression)
    options: dict[str, Any] = {"codec": codec, "acks": acks, "idempotent": idempotent, "partitioner": partitioner}
    if timeout_ms is not None:
        options["delivery_timeout_ms"] = timeout_ms
    with Cluster(bootstrap, **_timeout(timeout_ms)) as cluster:
        if transactional_id is None:
            return _write(ArrowWriter(cluster, topic, **options), reader)
        with TransactionalSession(cluster, transactional_id).begin() as transaction:
            return _write(ArrowWriter(cluster, topic, transaction=transaction, **options), reader)


def _write(writer: ArrowWriter, batches: Iterable[pa.RecordBatch]) -> WriteResult:
    with writer:
        for batch in batches:
            writer.write(batch)
    written = writer.written
    return WriteResult(sum(each.row_count for each in written.values()), written)


async def write_async(topic: str | None, data: Writable, *args: Any, **kwargs: Any) -> WriteResult:
    """`write`, which see, in a thread of its own."""
    return await asyncio.to_thread(write, topic, data, *args, **kwargs)


# Where to read


def _ranges(
    cluster: Cluster, topic: str, start: Position | None, end: Position | None, level: int
) -> dict[TopicPartition, tuple[int, int]]:
    info = cluster.retry(lambda deadline: cluster.topic(topic, deadline=deadline))
    partitions = [TopicPartition(topic, each.partition) for each in info.partitions]
    for position in (start, end):
        if isinstance(position, Mapping):
            for partition in position:
                cluster.partition(TopicPartition(topic, partition))
            partitions = [where for where in partitions if where.partition in position]
    latest = _found(cluster, partitions, LATEST, level)
    starts = _offsets(cluster, partitions, "earliest" if start is None else start, latest, level)
    ends = _offsets(cluster, partitions, "latest" if end is None else end, latest, level)
    return {where: (starts[where], min(ends[where], latest[where])) for where in partitions}


def _offsets(
    cluster: Cluster,
    partitions: list[TopicPartition],
    position: Position,
    latest: dict[TopicPartition, int],
    level: int,
) -> dict[TopicPartition, int]:
    match position:
        case "earliest":
            return _found(cluster, partitions, EARLIEST, level)
        case "latest":
            return latest
        case datetime():
            found = _found(cluster, partitions, _milliseconds(position), level)
            return {where: latest[where] if offset == NO_OFFSET else offset for where, offset in found.items()}
        case bool():
            pass
        case int() if position >= 0:
            return dict.fromkeys(partitions, position)
        case Mapping() if all(offset >= 0 for offset in position.values()):
            return {where: position[where.partition] for where in partitions}
    raise ConfigError(
        f"{position!r} is not a place to start or to end: 'earliest', 'latest', an offset from 0 on, "
        "partition -> offset, or a datetime."
    )


def _milliseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ConfigError(f"{moment!r} has no time zone. Use for example moment.replace(tzinfo=UTC).")
    # Rounded up: a record of the millisecond before is not at or after the moment.
    return -((EPOCH - moment) // timedelta(milliseconds=1))


def _found(cluster: Cluster, partitions: list[TopicPartition], timestamp: int, level: int) -> dict[TopicPartition, int]:
    found = list_offsets(cluster, dict.fromkeys(partitions, timestamp), isolation_level=level)
    return {where: at.offset for where, at in found.items()}


# What people write


def _isolation_level(isolation: str) -> int:
    levels = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
    if isolation not in levels:
        raise ConfigError(f"isolation={isolation!r} is not known; {' and '.join(levels)} are.")
    return levels[isolation]


def _codec(compression: str) -> Codec:
    names = {codec.name.lower(): codec for codec in Codec}
    if compression not in names:
        raise ConfigError(f"compression={compression!r} is not known; {', '.join(names)} are.")
    return names[compression]


def _timeout(timeout_ms: float | None) -> dict[str, Any]:
    return {} if timeout_ms is None else {"timeout_ms": timeout_ms}


def _record_batches(data: Writable) -> pa.RecordBatchReader:
    """Any of the ways in which libraries give out Arrow."""
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    batches = iter(data)
    first = next(batches, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), [])
    return pa.RecordBatchReader.from_batches(first.schema, _chain(first, batches))


def _chain(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others


def _check_columns(schema: pa.Schema) -> None:
    """What the broker chooses by itself is left out without a word, so that what was read can be written."""
    for name in schema.names:
        if name not in FIELDS:
            raise SchemaError(f"A topic has no column {name!r}. What can be written is {', '.join(WRITABLE)}.")
