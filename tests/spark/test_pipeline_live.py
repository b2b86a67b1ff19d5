"""live: windows of a topic, counted into another topic, each sent once when it is over."""

from __future__ import annotations

import json

import pyarrow as pa

import penstock
from pipelines import make_project, run

MINUTE_MS = 60_000


def test_windows_that_are_over_are_sent_once(spark, cluster, tmp_path):
    topic, target = cluster.create_topic(partitions=2, retention_ms=-1), cluster.create_topic()
    values = {"topic": topic, "target": target, "bootstrap": cluster.bootstrap, "lateness": "0 seconds"}
    project = make_project(tmp_path / "p", "live", **values)

    def send(*moments: tuple[str, float]) -> None:
        times = pa.array([int(minute * MINUTE_MS) for _, minute in moments], pa.timestamp("ms", "UTC"))
        rows = pa.table({"key": [key for key, _ in moments], "value": [b""] * len(moments), "timestamp": times})
        penstock.write(topic, rows, bootstrap=cluster.bootstrap)

    def sent() -> list[tuple[str, str, int]]:
        rows = penstock.read(target, columns=["key", "value"], bootstrap=cluster.bootstrap).read_all().to_pylist()
        told = [(row["key"].decode(), json.loads(row["value"])) for row in rows]
        return sorted((value["start"], key, value["count"]) for key, value in told)

    send(("a", 0.1), ("a", 0.9), ("b", 0.5), ("a", 1.5))
    run(spark, project)
    first = [("1970-01-01T00:00:00.000Z", "a", 2), ("1970-01-01T00:00:00.000Z", "b", 1)]
    assert sent() == first
    send(("b", 2.0))
    run(spark, project)
    assert sent() == [*first, ("1970-01-01T00:01:00.000Z", "a", 1)]
