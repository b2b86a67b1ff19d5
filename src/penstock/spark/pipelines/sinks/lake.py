"""`lake`: a flow into Parquet files, partitioned by date, that every reader of Parquet reads: DuckDB, pyarrow, Spark.

    <path>/date=2024-05-01/batch=6d1f0a3c-7/part-00000-....zstd.parquet

Options: `path` (any that Spark reaches), `date` (the name of the partition, from the column `timestamp` in UTC unless
the flow has such a column), `compression` (zstd).

Exactly once for every reader: a batch has a directory of its own in each date, named by the query and the batch id, and
is put there by replacing that directory. A repeated batch has the same rows, so it replaces what a killed one left.
Spark's own Parquet sink keeps a list of good files beside the data instead, which only Spark heeds: others would read
what a killed batch left too.

What is being written is in a directory with a dot before its name, and so is what a killed driver leaves of it. Spark
and pyarrow do not look into such; DuckDB does when it is told `**`, so its readers name the levels: `*/*/*.parquet`.
A load of a range that is no stream is one batch, named by its flow: done again, it replaces itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.spark.pipelines.sinks import Batch, BatchWriter, check_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        labelled = frame.withColumn("batch", functions.lit(f"{batch.query_id[:SHORT_ID]}-{batch.batch_id}"))
        writer = labelled.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy(date, "batch").option("compression", compression).parquet(path)

    return write
