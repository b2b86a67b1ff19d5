"""mirror: topics copied to another cluster, message by message: key, value, headers, time and partition are kept.

The order of a partition is kept, each message is there once, and the map of offsets says where it is, so that a group
can go on there: `penstock pipeline move-group`. Topics that the target has not are made.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from penstock.spark.pipelines.sinks.mirror import MirrorDataSource

SOURCE = "127.0.0.1:9092"
TARGET = "127.0.0.1:9192"
TOPICS = "orders"  # names with commas between, or a pattern after a ~: "~shop[.].*"
BATCH = "500000"  # messages that a batch takes at most

spark = SparkSession.active()
spark.dataSource.register(MirrorDataSource)

dp.create_sink("mirror", "penstock_mirror", {"kafka.bootstrap.servers": TARGET, "source": SOURCE, "topics": TOPICS})


@dp.append_flow(target="mirror", name="mirror")
def flow() -> DataFrame:
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", SOURCE)
    wanted = ("subscribePattern", TOPICS[1:]) if TOPICS.startswith("~") else ("subscribe", TOPICS)
    reader = reader.option(*wanted).option("startingOffsets", "earliest").option("includeHeaders", "true")
    return reader.option("maxOffsetsPerTrigger", BATCH).option("kafka.group.id", "penstock-mirror").load()
