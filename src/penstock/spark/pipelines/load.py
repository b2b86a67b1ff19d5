"""load: files or a table into a topic: each row is a message, its value the row as JSON, its key the column KEY.

KIND is parquet, csv or json (PATH is a directory of such files, SCHEMA their columns), or jdbc or duckdb (PATH is the
database, QUERY what is read of it).

Files go in once each, also those that come later. A query is written to Parquet files in STAGING first, once, and goes
in from there: so a load that was killed goes on where it was, and nothing is in the topic twice.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, struct, to_json

from penstock.spark.pipelines.staging import stage_duckdb, stage_jdbc

BOOTSTRAP = "127.0.0.1:9092"
TOPIC = "orders"
KIND = "parquet"
PATH = "/data/in/orders"  # for jdbc and duckdb the database: jdbc:postgresql://host/name, or a file
SCHEMA = "id STRING, item STRING, amount DOUBLE"
KEY = "id"
QUERY = "SELECT * FROM orders"
STAGING = "/data/staging/orders"

spark = SparkSession.active()

dp.create_sink("load", "penstock", {"kafka.bootstrap.servers": BOOTSTRAP, "topic": TOPIC})


@dp.append_flow(target="load", name="load")
def flow() -> DataFrame:
    if KIND in ("jdbc", "duckdb"):
        schema = (stage_jdbc if KIND == "jdbc" else stage_duckdb)(spark, PATH, QUERY, STAGING)
        rows = spark.readStream.schema(schema).parquet(STAGING)
    else:
        reader = spark.readStream.format(KIND).schema(SCHEMA).option("maxFilesPerTrigger", "100")
        rows = reader.option("header", "true").load(PATH)
    return rows.select(col(KEY).cast("string").alias("key"), to_json(struct("*")).alias("value"))
