"""A driver of Spark that copies a topic into another, and dies where it is told to.

    python tests/spark_copier.py BOOTSTRAP SOURCE SINK CHECKPOINT [DEATH BATCH]

It leads a process group of its own, and its JVM is in it. DEATH is a point of the batch's commit on the driver, when
all of its tasks have ended their transactions and Spark has not committed the batch:

    before-summary    nobody but the tasks' markers knows
    after-summary     the sink knows that the batch is done, Spark does not
"""

from __future__ import annotations

import os
import signal
import sys

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.spark.java import spark_session
from penstock.spark.source import PenstockDataSource
from penstock.spark.writer import TopicStreamWriter

ROWS_PER_BATCH = 40
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""The last one: it lives a few seconds, and shall not spend them on compiling itself."""


class DyingWriter(TopicStreamWriter):
    """Takes the driver with it, JVM and Python, by SIGKILL."""

    death: tuple[str, int, int]
    """The point, the batch, the process group."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        point, batch, group = self.death
        if (point, batch) == ("before-summary", batchId):
            os.killpg(group, signal.SIGKILL)
        super().commit(messages, batchId)
        if (point, batch) == ("after-summary", batchId):
            os.killpg(group, signal.SIGKILL)


class DyingSource(PenstockDataSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DyingWriter:
        given = {name: value for name, value in self.options.items() if not name.startswith("death.")}
        writer = DyingWriter(given, schema)
        writer.death = (
            self.options["death.point"],
            int(self.options["death.batch"]),
            int(self.options["death.group"]),
        )
        return writer


def main(bootstrap: str, source: str, sink: str, checkpoint: str, point: str = "never", batch: str = "-1") -> None:
    spark = spark_session("copier", master="local[2,4]", settings=SETTINGS)
    spark.dataSource.register(DyingSource)
    stream = (
        spark.readStream.format("penstock")
        .option("bootstrap", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(ROWS_PER_BATCH))
        .load()
    )
    query = (
        stream.select("key", "value", "partition")
        .writeStream.format("dying")
        .option("bootstrap", bootstrap)
        .option("topic", sink)
        .option("checkpointLocation", checkpoint)
        .options(**{"death.point": point, "death.batch": batch, "death.group": str(os.getpgrp())})
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
