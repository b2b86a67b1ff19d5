"""One Spark, of either kind, in a process of its own: takes orders as lines of JSON, answers each with one.

    python worker.py '{"kind": "penstock", "bootstrap": "127.0.0.1:9092", "jars": "", "directory": "/..."}'
    {"do": "read", "topic": "events", "count": 2000000}
    {"seconds": 1.7}

The query is the same for both kinds but for one word, the format. It runs under pyspark 4.0 and 4.3, and imports
nothing of Penstock, so that neither has more to load. Rows to be written are in Spark's memory before the clock starts.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CORES = 2
HEAP = "3g"


class Worker:
    """A session, and what it can be told to do."""

    def __init__(self, kind: str, bootstrap: str, jars: str, directory: str) -> None:
        from pyspark.sql import SparkSession

        self._kind = kind
        self._bootstrap = bootstrap
        self._directory = Path(directory)
        builder = SparkSession.builder.master(f"local[{CORES},4]").appName(f"benchmark-{kind}")
        builder = builder.config("spark.driver.memory", HEAP).config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.shuffle.partitions", str(CORES)).config("spark.log.level", "ERROR")
        if jars:
            builder = builder.config("spark.jars", jars)
        self._spark = builder.getOrCreate()

    def read(self, topic: str) -> dict[str, float]:
        """All of a topic into nothing: every column of every row is made."""
        return _timed(lambda: self._source(self._spark.read, topic).write.format("noop").mode("overwrite").save())

    def parquet(self, topic: str) -> dict[str, float]:
        """All of a topic into Parquet files."""
        target = self._directory / "parquet"
        shutil.rmtree(target, ignore_errors=True)
        taken = _timed(lambda: self._source(self._spark.read, topic).write.parquet(str(target)))
        taken["rows"] = self._spark.read.parquet(str(target)).count()
        return taken

    def write(self, topic: str, value_bytes: int, count: int) -> dict[str, float]:
        """Rows with a key and a value into a topic."""
        filler = "abcdefghijklmnopqrstuvwxyz" * (value_bytes // 26 + 1)
        rows = self._spark.range(0, count, 1, CORES).selectExpr(
            "cast(id as string) as key", f"lpad(cast(id as string), {value_bytes}, '{filler[:value_bytes]}') as value"
        )
        rows.cache()
        rows.count()
        writer = rows.write.format(self._kind).option("kafka.bootstrap.servers", self._bootstrap)
        taken = _timed(lambda: writer.option("topic", topic).mode("append").save())
        rows.unpersist(blocking=True)
        return taken

    def stream(self, topic: str, batches: int, rows_per_batch: int) -> dict[str, float]:
        """Small micro-batches into nothing: what each costs besides its rows, in the middle of many."""
        checkpoint = self._directory / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        reader = self._spark.readStream.option("maxOffsetsPerTrigger", rows_per_batch)
        flow = self._source(reader, topic).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = flow.start()
        done: dict[int, float] = {}
        while len(done) < batches:
            if (failure := query.exception()) is not None:
                raise failure
            for progress in query.recentProgress:
                if progress["numInputRows"]:
                    done[progress["batchId"]] = progress["durationMs"]["triggerExecution"]
            time.sleep(0.05)
        query.stop()
        later = [done[batch] for batch in sorted(done)][batches // 2 :]
        return {"median_ms": statistics.median(later)}

    def _source(self, reader: Any, topic: str) -> Any:
        reader = reader.format(self._kind).option("kafka.bootstrap.servers", self._bootstrap)
        return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def _timed(work: Callable[[], None]) -> dict[str, float]:
    began = time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - began}


def main() -> None:
    # Spark and its children write to standard output too: the answers get it for themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(**json.loads(sys.argv[1]))
    for line in sys.stdin:
        order = json.loads(line)
        answer = getattr(worker, order.pop("do"))(**order)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
