"""How far the flows of a project have come: from Spark's checkpoints, and the ends of the topics.

The lag is counted from the checkpoint, which is what a flow goes on from. Rows and rates are what its last run noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.metadata import NO_LEADER
from penstock.client.offsets import LATEST, READ_COMMITTED, list_offsets
from penstock.spark.pipelines.checkpoints import Checkpoint, Storage
from penstock.spark.pipelines.project import Project
from penstock.types import TopicPartition


@dataclass(frozen=True, slots=True)
class FlowStatus:
    checkpoint: Checkpoint
    last_run: Mapping[str, Any]
    lag: int | None
    """None where the source is no topic, or one that this cluster does not have."""

    @property
    def state(self) -> str:
        return "in a batch" if self.checkpoint.is_batch_open else "between batches"

    def as_json(self) -> dict[str, Any]:
        checkpoint = self.checkpoint
        return {
            "flow": checkpoint.flow,
            "sink": checkpoint.sink,
            "query_id": checkpoint.query_id,
            "last_batch": checkpoint.last_batch,
            "batch_open": checkpoint.is_batch_open,
            "lag": self.lag,
            "offsets": _by_topic(checkpoint.offsets),
            "last_run": dict(self.last_run),
        }

    def as_row(self) -> tuple[object, ...]:
        checkpoint, run = self.checkpoint, self.last_run
        facts = [run.get(name, "-") for name in ("rows", "rows_per_second", "batch_ms")]
        batch = "-" if checkpoint.last_batch is None else checkpoint.last_batch
        return (checkpoint.flow, checkpoint.sink, batch, self.state, *facts, "-" if self.lag is None else self.lag)


def read_status(project: Project, cluster: Cluster) -> list[FlowStatus]:
    storage = Storage(project.storage)
    checkpoints = storage.checkpoints()
    runs = storage.read_progress()
    ends = _ends(cluster, {where for each in checkpoints for where in each.offsets})
    return [FlowStatus(each, runs.get(each.flow, {}), _lag(each.offsets, ends)) for each in checkpoints]


def _lag(offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int | None:
    known = [max(0, ends[where] - offset) for where, offset in offsets.items() if where in ends]
    return sum(known) if known else None


def _ends(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """What readers of committed messages can reach, of the partitions that are there."""
    wanted = set(partitions)
    if not wanted:
        return {}
    led = {
        TopicPartition(topic.name, info.partition)
        for topic in Admin(cluster).list_topics()
        for info in topic.partitions
        if info.leader != NO_LEADER
    }
    asked = dict.fromkeys(sorted(wanted & led), LATEST)
    found = list_offsets(cluster, asked, isolation_level=READ_COMMITTED) if asked else {}
    return {where: each.offset for where, each in found.items()}


def _by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    told: dict[str, dict[str, int]] = {}
    for where, offset in sorted(offsets.items()):
        told.setdefault(where.topic, {})[str(where.partition)] = offset
    return told
