"""How a flow is doing: rows, rate, lag, time of a batch; read from what Spark reports of each batch.

Spark reports, per batch, how many rows came in and, per source, from which offset to which, and the newest offset that
the source knew. The lag is what lies between the last two. Of a bounded run the first report also tells how much there
is to do in all: from the first start to the newest offset.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.spark.pipelines.checkpoints import partition_offsets


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    """It failed, and is started again in a moment."""
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(slots=True)
class FlowProgress:
    """Of one flow in this run."""

    flow: str
    state: State = State.STARTING
    batch_id: int | None = None
    batch_count: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    lag: int | None = None
    """Messages that are in the topics and not read; None where the source does not tell."""
    done: int = 0
    total: int | None = None
    """Of a bounded run: steps that are done and that there are, in messages or tasks."""
    error: str | None = None

    def take(self, report: Mapping[str, Any]) -> None:
        """Count a batch as Spark reports it."""
        rows, batch_ms = int(report.get("numInputRows") or 0), _duration_ms(report)
        self.state, self.batch_id = State.RUNNING, int(report["batchId"])
        self.batch_count += 1
        self.rows += rows
        self.batch_ms = batch_ms
        self.rows_per_second = 1000 * rows / batch_ms if batch_ms else 0.0
        span = _span(report.get("sources") or [])
        if span is not None:
            self.done += span.read
            self.lag = span.left
            if self.total is None:
                self.total = span.read + span.left

    def take_load(self, rows: int, duration_ms: int) -> None:
        """Count a load that is no stream, when it is done."""
        self.batch_id, self.batch_count, self.rows, self.batch_ms = 0, 1, rows, duration_ms
        self.rows_per_second = 1000 * rows / duration_ms if duration_ms else 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "state": str(self.state),
            "batch_id": self.batch_id,
            "batches": self.batch_count,
            "rows": self.rows,
            "rows_per_second": round(self.rows_per_second, 1),
            "batch_ms": self.batch_ms,
            "lag": self.lag,
            "error": self.error,
        }


Watcher = Callable[[FlowProgress], None]
"""Is told whenever something changed: a batch is done, a state is another."""


def unwatched(progress: FlowProgress) -> None:
    """Nobody looks."""


@dataclass(frozen=True, slots=True)
class _Span:
    read: int
    left: int


def _span(sources: Sequence[Mapping[str, Any]]) -> _Span | None:
    """What a batch has read of the topics and what it has left; None where no source is a topic."""
    read = left = 0
    has_topics = False
    for source in sources:
        start, end, latest = (partition_offsets(_parsed(source.get(name))) for name in _OFFSETS)
        has_topics = has_topics or bool(end)
        # The first batch has no start: then rows are as good, where offsets have no holes.
        known = sum(offset - start.get(where, offset) for where, offset in end.items())
        read += known if start else int(source.get("numInputRows") or 0)
        left += sum(max(0, latest.get(where, offset) - offset) for where, offset in end.items())
    return _Span(read, left) if has_topics else None


_OFFSETS = ("startOffset", "endOffset", "latestOffset")


def _parsed(offset: Any) -> Any:
    """Spark writes an offset as JSON, or as text that holds JSON."""
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return None


def _duration_ms(report: Mapping[str, Any]) -> int:
    durations = report.get("durationMs") or {}
    return int(report.get("batchDuration") or durations.get("triggerExecution") or 0)
