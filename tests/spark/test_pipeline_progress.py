"""What a flow has done: counted from Spark's reports, read from its checkpoints, shown in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.cli.pipeline_progress import line
from penstock.errors import ConfigError
from penstock.spark.pipelines.checkpoints import Storage
from penstock.spark.pipelines.progress import FlowProgress, State
from penstock.spark.pipelines.reasons import reason
from penstock.types import TopicPartition


def report(batch: int, rows: int, start: int | None, end: int, latest: int) -> dict:
    """As Spark reports a batch of one partition."""
    offsets = {"startOffset": start, "endOffset": end, "latestOffset": latest}
    source = {name: at if at is None else {"orders": {"0": at, "id": "x"}} for name, at in offsets.items()}
    source["numInputRows"] = rows
    return {"batchId": batch, "numInputRows": rows, "sources": [source], "durationMs": {"triggerExecution": 500}}


def test_rows_rate_lag_and_what_there_is_to_do_are_counted():
    progress = FlowProgress("lake")
    progress.take(report(0, 100, None, 100, 300))
    assert (progress.rows, progress.rows_per_second, progress.lag, progress.batch_ms) == (100, 200.0, 200, 500)
    assert (progress.done, progress.total) == (100, 300)
    progress.take(report(1, 199, 100, 300, 300))  # a marker is an offset and no row
    assert (progress.rows, progress.lag, progress.done, progress.total) == (299, 0, 300, 300)
    assert line(progress) == "lake  batch 1  299 rows  398 rows/s  lag 0  500 ms"
    progress.state = State.DONE
    assert line(progress) == "lake  done  299 rows in 2 batches"


def test_a_source_that_is_no_topic_has_no_lag():
    progress = FlowProgress("load")
    sources = [{"startOffset": None, "endOffset": json.dumps({"logOffset": 0}), "latestOffset": None}]
    progress.take({"batchId": 0, "numInputRows": 5, "sources": sources, "durationMs": {}})
    assert (progress.rows, progress.lag, progress.total) == (5, None, None)
    assert "lag -" in line(progress)


def test_checkpoints_tell_how_far_a_flow_has_come(tmp_path):
    storage = Storage(f"file://{tmp_path}")
    assert storage.checkpoints() == []
    assert storage.checkpoint_location("lake", "orders") == f"file://{tmp_path}/_checkpoints/lake/orders/0"
    write_checkpoint(tmp_path / "_checkpoints/lake/orders/0", offsets={0: 10}, commits=[0])
    current = tmp_path / "_checkpoints/lake/orders/2"  # after two full refreshes by Spark
    write_checkpoint(current, offsets={6: 70, 7: 80}, commits=[6])
    (found,) = storage.checkpoints()
    assert (found.sink, found.flow, found.query_id) == ("lake", "orders", "q")
    assert (found.last_batch, found.is_batch_open) == (6, True)
    assert found.offsets == {TopicPartition("orders", 0): 70}
    (current / "commits" / "7").write_text("v1\n{}")
    (found,) = storage.checkpoints()
    assert (found.last_batch, found.is_batch_open, found.offsets) == (7, False, {TopicPartition("orders", 0): 80})
    storage.write_progress("orders", {"rows": 1})
    assert storage.read_progress() == {"orders": {"rows": 1}}


def write_checkpoint(directory: Path, offsets: dict[int, int], commits: list[int]) -> None:
    for name in ("offsets", "commits"):
        (directory / name).mkdir(parents=True)
    (directory / "metadata").write_text('{"id":"q"}')
    (directory / "offsets" / ".6.crc").touch()  # Hadoop's files stand between
    for batch, end in offsets.items():
        told = ["v1", json.dumps({"batchTimestampMs": 1}), json.dumps({"orders": {"0": end, "id": "x"}})]
        (directory / "offsets" / str(batch)).write_text("\n".join(told))
    for batch in commits:
        (directory / "commits" / str(batch)).write_text("v1\n{}")


def test_a_storage_that_cannot_be_reached_is_said():
    with pytest.raises(ConfigError, match="cannot be reached"):
        Storage("nowhere://x/y")


def test_the_reason_of_a_failure_is_the_innermost_sentence():
    trace = ["Job aborted.", "Traceback:", "  File x", "penstock.errors.KafkaError: There is no topic.", "\tat org"]
    assert reason(Exception("\n".join(trace))) == "There is no topic."
    assert reason(Exception("Traceback\nValueError: no\nrest")) == "no"
    assert reason(Exception("[TABLE_NOT_FOUND] There is no table. SQLSTATE: 1")) == "There is no table. SQLSTATE: 1"
    assert reason(Exception("")) == "Exception"
    assert len(reason(Exception("x" * 5000))) < 600
