"""`lake`: a flow into Parquet files, partitioned by date, that every reader of Parquet reads: DuckDB, pyarrow, Spark.

    <path>/date=2024-05-01/batch=6d1f0a3c-7/part-00000-....zstd.parquet

Options: `path` (any that Spark reaches), `date` (the name of the partition, from the column `timestamp` in UTC unless
the flow has such a column), `compression` (zstd).

Exactly once for every reader: a batch has a directory of its own in each date, named by the query and the batch id. It
is written beside the lake, and each directory is then moved to its place, whole. A repeated batch has the same rows, so
it replaces what a killed one left; whoever reads in the moment between may miss the repeated batch. Spark's own Parquet
sink keeps a list of good files beside the data instead, which only Spark heeds.

    <parent of path>/.<name of path>-staging/6d1f0a3c-7/date=2024-05-01/part-...       while a batch is being written

It is not inside the lake, because DuckDB looks into hidden directories too. What a killed driver leaves there is
overwritten when the batch is repeated, and removed when it is done. Where moving a directory is no single step (object
stores), a reader may see a part of a batch while it is moved.

A load of a range that is no stream is one batch, named by its flow: done again, it replaces itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigError
from penstock.spark.pipelines.sinks import Batch, BatchWriter, check_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHORT_ID = 8
"""Of a query's id: enough to tell queries into one path apart."""


def lake_writer(options: Mapping[str, str]) -> BatchWriter:
    check_options("lake", options, required=["path"], optional=["date", "compression"])
    path, date, compression = options["path"], options.get("date", "date"), options.get("compression", "zstd")

    def write(frame: DataFrame, batch: Batch) -> None:
        from pyspark.sql import functions

        if date not in frame.columns:
            if "timestamp" not in frame.columns:
                raise ConfigError(f"A flow into a lake needs a column {date!r}, or 'timestamp' to make it from.")
            frame = frame.withColumn(date, functions.to_date("timestamp"))
        lake = _Lake(frame.sparkSession, path)
        label = f"{batch.query_id[:SHORT_ID]}-{batch.batch_id}"
        writer = frame.write.mode("overwrite").partitionBy(date).option("compression", compression)
        writer.parquet(lake.staged(label))
        lake.put(label, date)

    return write


class _Lake:
    """The directories of a lake, through Hadoop, which knows every place that Spark can write to."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        assert spark._jvm is not None, "this needs a session of its own, not a connection to one"
        self._java_path = spark._jvm.org.apache.hadoop.fs.Path
        self._root: Any = self._java_path(path)
        self._files: Any = self._root.getFileSystem(spark._jsc.hadoopConfiguration())
        self._root = self._root.makeQualified(self._files.getUri(), self._files.getWorkingDirectory())
        if self._root.getParent() is None:
            raise ConfigError(f"The lake's path {path!r} has nothing above it; name a directory below.")

    def staged(self, label: str) -> str:
        return str(self._staging(label).toString())

    def put(self, label: str, date: str) -> None:
        """Move what is staged of a batch to its place in each date."""
        staging = self._staging(label)
        for found in self._files.listStatus(staging):
            directory = found.getPath()
            if directory.getName().startswith(f"{date}="):
                self._move(directory, self._java_path(self._root, directory.getName()), f"batch={label}")
        self._files.delete(staging, True)

    def _move(self, source: Any, parent: Any, name: str) -> None:
        target = self._java_path(parent, name)
        self._files.mkdirs(parent)
        self._files.delete(target, True)
        if not self._files.rename(source, target):
            raise OSError(f"{source.toString()} could not be moved to {target.toString()}.")

    def _staging(self, label: str) -> Any:
        beside = self._java_path(self._root.getParent(), f".{self._root.getName()}-staging")
        return self._java_path(beside, label)
