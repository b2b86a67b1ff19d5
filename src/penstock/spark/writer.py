"""The sink: `df.write.format("penstock")` and `df.writeStream.format("penstock")`.

    (df.selectExpr("id as key", "to_json(struct(*)) as value")
       .writeStream.format("penstock")
       .option("kafka.bootstrap.servers", "127.0.0.1:9092").option("topic", "orders")
       .option("checkpointLocation", "...").start())

Columns, as Spark's own Kafka sink has them, and `timestamp`: value (binary or string; must be there), key, headers,
topic, partition, timestamp. Others are left alone.

    where                       what runs there
    driver, once per batch      __init__: options and columns are checked; the object is pickled
    executors, for each task    write: the rows, see `sink_task`
    driver, after all tasks     commit: a summary of the batch, and a last check; then Spark commits the batch itself

A stream is exact by itself: each task is a transaction with a marker. Its name is made of the prefix, the id that the
checkpoint gives the query, and the task's number: no two queries meet unless one has a copy of the other's checkpoint.
A batch write is idempotent: each row once, unless Spark runs a task again. With `exactlyOnce` a task that is run again
within the job writes nothing twice; a job that failed and is started anew is another job.

After a crash at any point: rows of tasks that did not commit are aborted, rows of tasks that did are found by their
markers when Spark runs the batch again. A batch with a summary is never written again, however it is divided then.

It does not create topics, and there is nothing that could be overwritten.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from pyspark.taskcontext import TaskContext

from penstock.client.arrow.rows import check_schema
from penstock.errors import ConfigError
from penstock.spark.sink_batch import finish_batch
from penstock.spark.sink_options import SinkOptions, parse_sink_options
from penstock.spark.sink_task import Outcome, Unit, connect, write_once, write_plainly

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties that Spark sets for the tasks of a stream."""

ONLY_BATCH = 0
"""The batch id of a job that has one batch."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    outcome: Outcome
    sink_id: str | None = None
    """Where markers are; the driver does not know the query."""


class TopicWriter(DataSourceArrowWriter):
    """A batch write."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool = False) -> None:
        self._options = parse_sink_options(options, exactly_once_by_default=False)
        check_columns(schema, self._options)
        if overwrite:
            raise ConfigError("A topic cannot be overwritten, only appended to: use mode('append').")
        self._sink_id = f"{self._options.id_prefix}-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        with connect(self._options) as cluster:
            if not self._options.is_exactly_once:
                return Written(write_plainly(cluster, self._options, iterator))
            unit = Unit(self._sink_id, ONLY_BATCH, _task_context().partitionId())
            return Written(write_once(cluster, self._options, unit, iterator))


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """A stream write, in any output mode: with `complete` each batch has the whole result, and it is appended."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = parse_sink_options(options, exactly_once_by_default=True)
        check_columns(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        with connect(self._options) as cluster:
            if not self._options.is_exactly_once:
                return Written(write_plainly(cluster, self._options, iterator))
            unit = self._unit()
            return Written(write_once(cluster, self._options, unit, iterator), unit.sink_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """All tasks are done; Spark's own commit comes after this."""
        marked = [each for each in messages if isinstance(each, Written) and each.sink_id and each.outcome.row_count]
        topic = self._options.topic or next((each.outcome.topic for each in marked if each.outcome.topic), None)
        if not marked or topic is None:
            return  # nothing was written, or an earlier run did it: the tasks' markers say what there is to say
        sink_id = marked[0].sink_id
        assert sink_id is not None
        with connect(self._options) as cluster:
            finish_batch(cluster, sink_id, batchId, len(messages), topic)

    def _unit(self) -> Unit:
        context = _task_context()
        query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if not query_id or not batch_id:
            raise ConfigError(
                f"Spark did not say which batch of which query this is: the local properties {QUERY_ID} and {BATCH_ID} "
                "are missing. Without them nothing can be written exactly once; exactlyOnce=false does without."
            )
        return Unit(f"{self._options.id_prefix}-{query_id}", int(batch_id), context.partitionId())


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """SchemaError, with what is expected, when the rows cannot be written."""
    check_schema(to_arrow_schema(schema, timezone="UTC"), has_topic=options.topic is not None)


def _task_context() -> TaskContext:
    found = TaskContext.get()
    if found is None:
        raise ConfigError("The sink writes in tasks of Spark, and this is none.")
    return found
