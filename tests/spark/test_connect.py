"""The source through Spark Connect: the client has no JVM, and nothing is registered anywhere."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from pyspark.sql import SparkSession

_, port, bootstrap, topic, checkpoint = sys.argv
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
print(spark.read.format("penstock").options(**options).load().count())
writer = spark.readStream.format("penstock").options(**options).load().writeStream.format("noop")
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
query.awaitTermination()
print(sum(progress.numInputRows for progress in query.recentProgress))
"""


def test_spark_connect_finds_the_source_by_itself(spark, cluster, write, tmp_path):
    topic = cluster.create_topic()
    write(topic, ["a", "b", "c"])
    port = spark.conf.get("spark.connect.grpc.binding.port")
    command = [sys.executable, "-c", PROGRAM, port, cluster.bootstrap, topic, str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "3"]
