"""Where a group is to go on: the new offset of each partition for a target that a person named.

    target                      new offset
    EARLIEST, LATEST            where the log starts, where it ends
    offset N                    N
    time T                      the first record at or after T; the end where none is that late
    shift N                     the committed offset plus N, back or forth

An offset outside of the log is moved to its nearer end, as Kafka's own tool does: nobody could read it. A shift needs
something to shift from: a partition of which the group remembers nothing is an error. Nothing is committed here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.client.cluster import Cluster
from penstock.client.offsets import EARLIEST, LATEST, NO_OFFSET, list_offsets
from penstock.errors import ConfigError
from penstock.types import TopicPartition

Offsets = Mapping[TopicPartition, int]


class TargetKind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"
    SHIFT = "shift"


@dataclass(frozen=True, slots=True)
class Target:
    """Where to go; the amount is an offset, milliseconds since 1970, or a number of messages."""

    kind: TargetKind
    amount: int = 0


def new_offsets(
    cluster: Cluster, partitions: Collection[TopicPartition], committed: Offsets, target: Target
) -> dict[TopicPartition, int]:
    """The offset that each partition is to have."""
    first = _found(cluster, partitions, EARLIEST)
    last = _found(cluster, partitions, LATEST)
    match target.kind:
        case TargetKind.EARLIEST:
            wanted = first
        case TargetKind.LATEST:
            wanted = last
        case TargetKind.OFFSET:
            wanted = dict.fromkeys(partitions, target.amount)
        case TargetKind.TIME:
            at = _found(cluster, partitions, target.amount)
            wanted = {where: last[where] if offset == NO_OFFSET else offset for where, offset in at.items()}
        case TargetKind.SHIFT:
            wanted = {where: _shifted(where, committed, target.amount) for where in partitions}
    return {where: min(max(wanted[where], first[where]), last[where]) for where in partitions}


def _found(cluster: Cluster, partitions: Collection[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    found = list_offsets(cluster, dict.fromkeys(partitions, timestamp))
    return {where: at.offset for where, at in found.items()}


def _shifted(where: TopicPartition, committed: Offsets, amount: int) -> int:
    if where not in committed:
        raise ConfigError(
            f"The group has no committed offset in {where}, so there is nothing to shift from. "
            "Use --to-earliest, --to-latest, --to-offset or --to-datetime there."
        )
    return committed[where] + amount
