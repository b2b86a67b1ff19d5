"""lake: a topic into Parquet files by date, for DuckDB, pyarrow, Spark and whatever else reads Parquet.

A stream, unless END or END_TIME is given: then it is a load of that range, done once and in parallel.
"""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

BOOTSTRAP = "127.0.0.1:9092"
TOPIC = "orders"
PATH = "/data/lake/orders"  # on a cluster: a place that every machine reaches
START = "earliest"  # or "latest", or offsets as JSON: {"orders": {"0": 100}}
START_TIME = ""  # milliseconds since 1970; wins over START
END = ""  # offsets as JSON; ends the load there
END_TIME = ""  # milliseconds since 1970
BATCH = "1000000"  # messages that a batch of the stream takes at most

spark = SparkSession.active()

dp.create_sink("lake", "lake", {"path": PATH})


@dp.append_flow(target="lake", name="lake")
def flow() -> DataFrame:
    is_bounded = bool(END or END_TIME)
    reader = (spark.read if is_bounded else spark.readStream).format("penstock")
    options = {
        "kafka.bootstrap.servers": BOOTSTRAP,
        "subscribe": TOPIC,
        "startingOffsets": START,
        "startingTimestamp": START_TIME,
        "endingOffsets": END,
        "endingTimestamp": END_TIME,
        "maxOffsetsPerTrigger": "" if is_bounded else BATCH,
        "minPartitions": "16" if is_bounded else "",
        "kafka.group.id": f"{TOPIC}-lake",  # its lag: penstock group describe
        "includeHeaders": "true",
    }
    return reader.options(**{name: text for name, text in options.items() if text}).load()
