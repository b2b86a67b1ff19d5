"""What one task of Spark writes: its rows in one transaction, once, however often Spark runs the task.

    take the transactional id     whoever had it, an older attempt or a zombie, is shut out from here on
    read the marker               it is at this batch: the rows are there, nothing is written
    write the rows, the marker    one transaction
    commit                        both count from here on

Why this is exact: a batch of a query has a number, and Spark runs a batch that it is not sure of again, with the same
rows. Whether they are in the topic is known from the marker, which is there exactly when they are. From the taking of
the id on nobody else can commit, so what is read stays true. A commit whose outcome is not known is looked up in the
same way.

Rules:
- the rows are read to the end even when they are there already: operators before the sink keep state, and commit it
  only at the end of their rows;
- a task without rows does nothing;
- a task that is run again must have as many rows as the marker says. When it has not, the batch was cut in the middle
  and is now divided in another way: some of its rows are written, and which is not known. That is an error;
- Spark runs only its last batch again. A marker that is past the next batch means that the checkpoint is older than the
  sink, and then batches may have other rows than those that were written under their number: an error too.

It does not know Spark: what it needs of it is in `Unit`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.client.arrow.writer import ArrowWriter
from penstock.client.cluster import Cluster
from penstock.client.transactional import (
    FENCED,
    CommitUnknownError,
    ProducerFencedError,
    Transaction,
    TransactionalSession,
)
from penstock.errors import KafkaError
from penstock.spark.brokers import connect_from_task
from penstock.spark.sink_marker import Marker, marker_partition, note_text, read_marker
from penstock.spark.sink_options import SinkOptions
from penstock.types import TopicPartition


class ReplayError(Exception):
    """A batch that was partly written is run again in a way that cannot be put together with what is there."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What is written once: the rows of one task of one batch of one query."""

    sink_id: str
    batch_id: int
    task: int

    @property
    def name(self) -> str:
        """The transactional id, and the group that has the marker."""
        return task_name(self.sink_id, self.task)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task: how many rows it had, a topic that they are in, and whether an earlier run wrote them."""

    row_count: int = 0
    topic: str | None = None
    was_done: bool = False


def task_name(sink_id: str, task: int) -> str:
    return f"{sink_id}-{task}"


def connect(options: SinkOptions) -> Cluster:
    """A cluster that answers. A broker that is away, also at the first word, is waited for."""
    return connect_from_task(options.connecting, options.connecting.timeout_ms)


def write_plainly(cluster: Cluster, options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Outcome:
    """Rows without a transaction: a task that is run again writes them again."""
    row_count = 0
    with _writer(cluster, options) as writer:
        for batch in batches:
            writer.write(batch)
            row_count += batch.num_rows
    return _outcome(row_count, writer)


def write_once(cluster: Cluster, options: SinkOptions, unit: Unit, batches: Iterator[pa.RecordBatch]) -> Outcome:
    """The rows in one transaction, unless an earlier run has written them."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return Outcome()
    rows = itertools.chain([first], batches)
    session = TransactionalSession(cluster, unit.name, options.transaction_timeout_ms)
    session.take_id()
    done = _done(cluster, unit)
    if done is not None:
        return _skip(unit, done, rows)
    try:
        return _write(session, options, unit, rows)
    except CommitUnknownError:
        session.take_id()
        done = _done(cluster, unit)
        if done is None:
            raise
        return Outcome(done.note.get("rows", 0), options.topic, was_done=True)
    except KafkaError as error:
        if error.code in FENCED:
            raise ProducerFencedError(unit.name, error.code) from error
        raise


def _done(cluster: Cluster, unit: Unit) -> Marker | None:
    """The marker that says that this unit is written: the batch's, or its own."""
    for group in (unit.sink_id, unit.name):
        found = read_marker(cluster, group)
        if found.next_batch_id > unit.batch_id:
            return found
    return None


def _skip(unit: Unit, done: Marker, rows: Iterator[pa.RecordBatch]) -> Outcome:
    if done.next_batch_id > unit.batch_id + 1:
        raise ReplayError(
            f"The sink has written batch {done.next_batch_id - 1} of this query, and Spark runs batch {unit.batch_id}: "
            "the checkpoint is older than the sink. Go on from the newest checkpoint. To write everything after this "
            "one a second time, set another transactionalIdPrefix."
        )
    row_count = sum(batch.num_rows for batch in rows)
    written = done.note.get("rows", row_count)
    if written != row_count:
        raise ReplayError(
            f"Batch {unit.batch_id} was interrupted when task {unit.task} had written {written} rows. Now it is run "
            f"again, and the task has {row_count}: its rows are divided in another way. Run the query with as many "
            "partitions as before until this batch is done. This task has written nothing; others may have written "
            "rows that are in the topic already."
        )
    return Outcome(row_count, was_done=True)


def _write(session: TransactionalSession, options: SinkOptions, unit: Unit, rows: Iterator[pa.RecordBatch]) -> Outcome:
    row_count = 0
    with session.begin() as transaction:
        with _writer(session.cluster, options, transaction) as writer:
            for batch in rows:
                writer.write(batch)
                row_count += batch.num_rows
        where = _marked(writer)
        transaction.send_offsets(unit.name, {where: unit.batch_id + 1}, note_text({"rows": row_count}))
    return _outcome(row_count, writer)


def _writer(cluster: Cluster, options: SinkOptions, transaction: Transaction | None = None) -> ArrowWriter:
    return ArrowWriter(
        cluster,
        options.topic,
        codec=options.codec,
        acks=options.acks,
        idempotent=options.is_idempotent,
        transaction=transaction,
        partitioner=options.partitioner,
        delivery_timeout_ms=options.connecting.timeout_ms,
    )


def _marked(writer: ArrowWriter) -> TopicPartition:
    return marker_partition({where.topic for where in writer.written})


def _outcome(row_count: int, writer: ArrowWriter) -> Outcome:
    return Outcome(row_count, _marked(writer).topic if row_count else None)
