"""delta: a topic into a Delta table, partitioned by date, with delta-rs: no jar and no catalog."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import to_date

BOOTSTRAP = "127.0.0.1:9092"
TOPIC = "orders"
PATH = "/data/delta/orders"
BATCH = "500000"  # messages that a batch takes at most

spark = SparkSession.active()

dp.create_sink("delta", "delta", {"path": PATH, "partition": "date"})


@dp.append_flow(target="delta", name="delta")
def flow() -> DataFrame:
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", BOOTSTRAP)
    reader = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest")
    messages = reader.option("maxOffsetsPerTrigger", BATCH).option("kafka.group.id", f"{TOPIC}-delta").load()
    return messages.withColumn("date", to_date("timestamp"))
