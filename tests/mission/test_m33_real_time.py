"""M33: a Structured Streaming query over topics, in real time: results come while messages do."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import penstock as library
from pipelines import Streaming, make_project

pytestmark = pytest.mark.slow
MINUTE_MS = 60_000


def test_windows_of_a_topic_are_counted_into_another_while_messages_come(spark, penstock, topic_on_penstock, tmp_path):
    topic, target = topic_on_penstock(2, **{"retention.ms": "-1"}), topic_on_penstock()
    values = {"topic": topic, "target": target, "bootstrap": penstock.bootstrap, "lateness": "0 seconds"}
    project = make_project(tmp_path / "p", "live", **values)

    def send(minute: int, count: int) -> None:
        times = pa.array([minute * MINUTE_MS] * count, pa.timestamp("ms", "UTC"))
        rows = pa.table({"key": ["shop"] * count, "value": ["sold"] * count, "timestamp": times})
        library.write(topic, rows, bootstrap=penstock.bootstrap)

    def counts() -> list[int]:
        rows = library.read(target, columns=["value"], bootstrap=penstock.bootstrap).read_all()
        return [json.loads(value)["count"] for value in rows["value"].to_pylist()]

    with Streaming(spark, project) as streaming:
        for minute in range(3):
            send(minute, minute + 1)
            streaming.wait_until(lambda told=list(range(1, minute + 1)): counts() == told)
    assert counts() == [1, 2]  # once each; the third window is not over
