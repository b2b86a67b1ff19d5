"""Where a query starts and ends in each partition: everywhere at one end of the log, at given offsets, or at a time.

    Everywhere(EARLIEST), Everywhere(LATEST)
    AtOffsets       an offset for each partition, or EARLIEST (-2) and LATEST (-1)
    AtTime          the first record at or after a time; where there is none, an error or the end

Offsets that a person gave name all partitions, as Spark asks for: one that is left out was most likely forgotten. An
offset outside of the log is an error, or with failOnDataLoss=false moved to the nearer end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.cluster import Cluster
from penstock.client.offsets import EARLIEST, LATEST, NO_OFFSET, list_offsets
from penstock.errors import ConfigError
from penstock.spark.loss import report_loss
from penstock.spark.snapshot import Snapshot
from penstock.types import TopicPartition

Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Everywhere:
    """At EARLIEST or LATEST."""

    position: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """By partition; `option` is where the user said so."""

    option: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """Milliseconds since 1970, for all partitions or for each; `or_latest`: where no record is that late."""

    option: str
    timestamp: int | None
    timestamps: Mapping[TopicPartition, int]
    or_latest: bool


Bound = Everywhere | AtOffsets | AtTime


def names_latest(bound: Bound) -> bool:
    """Whether it means another offset each time it is looked up, as the log grows."""
    if isinstance(bound, Everywhere):
        return bound.position == LATEST
    if isinstance(bound, AtOffsets):
        return LATEST in bound.offsets.values()
    return bound.or_latest


def find_offsets(
    cluster: Cluster, bound: Bound, snapshot: Snapshot, *, isolation_level: int, is_loss_fatal: bool
) -> Offsets:
    """An offset within the snapshot for each of its partitions."""
    if isinstance(bound, Everywhere):
        return dict(snapshot.earliest if bound.position == EARLIEST else snapshot.latest)
    if isinstance(bound, AtOffsets):
        _check_complete(bound.option, bound.offsets, snapshot.latest)
        return {
            where: _within(bound.option, where, offset, snapshot, is_loss_fatal)
            for where, offset in sorted(bound.offsets.items())
        }
    if bound.timestamp is None:
        _check_complete(bound.option, bound.timestamps, snapshot.latest)
    wanted = {where: bound.timestamps.get(where, bound.timestamp or 0) for where in snapshot.latest}
    found = list_offsets(cluster, wanted, isolation_level=isolation_level)
    return {where: _at_time(bound, where, wanted[where], found[where].offset, snapshot) for where in wanted}


def _within(option: str, where: TopicPartition, offset: int, snapshot: Snapshot, is_loss_fatal: bool) -> int:
    earliest, latest = snapshot.earliest[where], snapshot.latest[where]
    if offset == EARLIEST:
        return earliest
    if offset == LATEST:
        return latest
    if not earliest <= offset <= latest:
        words = f"The option {option} asks for offset {offset} of partition {where}, whose log goes from {earliest}"
        report_loss(f"{words} to before {latest}.", is_fatal=is_loss_fatal)
    return min(max(offset, earliest), latest)


def _at_time(bound: AtTime, where: TopicPartition, timestamp: int, offset: int, snapshot: Snapshot) -> int:
    latest = snapshot.latest[where]
    if offset == NO_OFFSET and not bound.or_latest:
        raise ConfigError(
            f"The option {bound.option} asks for time {timestamp} ms in partition {where}, but no record is that late. "
            'Set startingOffsetsByTimestampStrategy to "latest" to start at the end of such partitions.'
        )
    return latest if offset == NO_OFFSET else min(offset, latest)


def _check_complete(option: str, given: Iterable[TopicPartition], partitions: Iterable[TopicPartition]) -> None:
    missing, unknown = sorted(set(partitions) - set(given)), sorted(set(given) - set(partitions))
    if missing:
        words = ", ".join(map(str, missing))
        raise ConfigError(f"The option {option} leaves out {words}. Name every partition: -2 is its start.")
    if unknown:
        words = ", ".join(map(str, unknown))
        raise ConfigError(f"The option {option} names {words}, which this query does not read.")
