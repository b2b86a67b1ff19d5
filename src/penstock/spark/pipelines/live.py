"""live: messages per key and window of a topic, counted into another topic while they come.

A window is sent once, when it is over: when a message with a time after its end and LATENESS has come.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, struct, to_json, window

BOOTSTRAP = "127.0.0.1:9092"
TOPIC = "orders"
TARGET = "orders-per-minute"
START = "earliest"  # or "latest"
WINDOW = "1 minute"
LATENESS = "10 seconds"

spark = SparkSession.active()

dp.create_sink("live", "penstock", {"kafka.bootstrap.servers": BOOTSTRAP, "topic": TARGET})


@dp.append_flow(target="live", name="live")
def flow() -> DataFrame:
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", BOOTSTRAP)
    reader = reader.option("subscribe", TOPIC).option("startingOffsets", START)
    messages = reader.option("kafka.group.id", f"{TOPIC}-live").load()
    windows = messages.withWatermark("timestamp", LATENESS).groupBy(window("timestamp", WINDOW), "key")
    counted = windows.agg(count("*").alias("count"))
    value = struct(col("window.start").alias("start"), col("window.end").alias("end"), "count")
    return counted.select("key", to_json(value).alias("value"))
