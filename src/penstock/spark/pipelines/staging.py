"""A query's result as Parquet files, written once: what a table is made into before it goes into a topic.

Spark's files are complete when `_SUCCESS` is there, which it writes last; DuckDB's when their directory has its name,
which it is given last. What a killed attempt left is replaced.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

ROWS_PER_FILE = 1_000_000
_SUCCESS = "_SUCCESS"


def stage_jdbc(spark: SparkSession, url: str, query: str, staging: str) -> StructType:
    """Stage a query of a database that Spark reaches by JDBC; its driver's jar is set with `spark.jars`."""
    if not _is_staged(spark, staging):
        rows = spark.read.format("jdbc").option("url", url).option("query", query).load()
        rows.write.mode("overwrite").option("maxRecordsPerFile", ROWS_PER_FILE).parquet(staging)
    return spark.read.parquet(staging).schema


def stage_duckdb(spark: SparkSession, database: str, query: str, staging: str) -> StructType:
    """Stage a query of a DuckDB file. DuckDB writes the files itself, on the driver's machine."""
    try:
        import duckdb
    except ImportError:
        raise ConfigError("A load from DuckDB needs the package duckdb: pip install duckdb.") from None
    directory = Path(staging.removeprefix("file://"))
    if "://" in str(directory):
        raise ConfigError(f"DuckDB stages on the driver's machine: {staging!r} is no local path.")
    if not directory.exists():
        part = directory.with_name(f".{directory.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        with duckdb.connect(database, read_only=True) as connection:
            target = str(part).replace("'", "''")
            connection.execute(f"COPY ({query}) TO '{target}' (FORMAT parquet, PER_THREAD_OUTPUT, OVERWRITE_OR_IGNORE)")
        part.rename(directory)
    return spark.read.parquet(str(directory)).schema


def _is_staged(spark: SparkSession, staging: str) -> bool:
    """Asked through Hadoop, which knows every place that Spark can write to."""
    assert spark._jvm is not None, "this needs a session of its own, not a connection to one"
    java = spark._jvm.org.apache.hadoop.fs.Path(f"{staging}/{_SUCCESS}")
    return bool(java.getFileSystem(spark._jsc.hadoopConfiguration()).exists(java))
