"""upsert: a topic with one JSON object per message into a table of SQLite or PostgreSQL, by primary key.

The last message of a key wins. A message with no value (a tombstone) deletes the row of its key, if the table's key is
the message's key.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, from_json

BOOTSTRAP = "127.0.0.1:9092"
TOPIC = "orders"
DATABASE = "sqlite:////data/orders.db"  # or postgresql://user@host/database
TABLE = "orders"  # it exists, with KEY as its primary key
KEY = "id"
COLUMNS = "id STRING, item STRING, amount DOUBLE"  # of the JSON and of the table, as Spark types
BATCH = "100000"  # messages that a batch takes at most

spark = SparkSession.active()

dp.create_sink("upsert", "upsert", {"url": DATABASE, "table": TABLE, "key": KEY, "delete": "is_deleted"})


@dp.append_flow(target="upsert", name="upsert")
def flow() -> DataFrame:
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", BOOTSTRAP)
    reader = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest")
    messages = reader.option("maxOffsetsPerTrigger", BATCH).option("kafka.group.id", f"{TOPIC}-upsert").load()
    parsed = messages.select(
        col("key").cast("string").alias("message_key"),
        from_json(col("value").cast("string"), COLUMNS).alias("row"),
        col("value").isNull().alias("is_deleted"),
    )
    key_type = dict(parsed.select("row.*").dtypes)[KEY]
    keyed = coalesce(col(f"row.{KEY}"), col("message_key").cast(key_type)).alias(KEY)
    others = [col(f"row.{name}") for name in parsed.select("row.*").columns if name != KEY]
    return parsed.select(keyed, *others, "is_deleted")
