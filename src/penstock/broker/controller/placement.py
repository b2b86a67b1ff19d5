"""Placement: on which brokers the replicas of new partitions go, chosen by us or checked when the user chose.

Chosen: brokers are lined up so that neighbours are in different racks. Partition after partition leads on the next
broker of the line, from a random start, so leaders are spread evenly. Followers are the next ones along the line, first
those in racks not used yet; each time the line was walked once, the followers start one further on, so that one
broker's failure spreads its load over many.

The first replica is the preferred leader. Brokers that are not alive get nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.records import BrokerRecord

Replicas = tuple[int, ...]


def place(
    brokers: Mapping[int, BrokerRecord], partition_count: int, replication_factor: int, chance: random.Random
) -> list[Replicas]:
    """The replicas of each new partition; INVALID_REPLICATION_FACTOR when there are too few brokers."""
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"A replication factor of {replication_factor} cannot be reached: {_alive(len(brokers))}.",
        )
    line = _line_up(brokers, chance)
    start = chance.randrange(len(line))
    return [
        _replicas(brokers, line, start + index, index // len(line), replication_factor)
        for index in range(partition_count)
    ]


def check_assignments(brokers: Mapping[int, BrokerRecord], assignments: Iterable[Sequence[int]]) -> list[Replicas]:
    """What the user chose, when every broker is known and all partitions have equally many; else the error."""
    checked: list[Replicas] = []
    for replicas in assignments:
        _check_replicas(brokers, replicas)
        if checked and len(replicas) != len(checked[0]):
            raise _invalid(
                f"A partition has {len(replicas)} replicas where an earlier one has {len(checked[0])}; "
                "every partition of a topic has the same number"
            )
        checked.append(tuple(replicas))
    return checked


def _check_replicas(brokers: Mapping[int, BrokerRecord], replicas: Sequence[int]) -> None:
    if not replicas:
        raise _invalid("The assignment has an empty list of replicas")
    for broker_id in sorted(replicas):
        if replicas.count(broker_id) > 1:
            raise _invalid(f"The assignment names broker {broker_id} more than once for one partition")
        if broker_id not in brokers:
            raise _invalid(f"The assignment names broker {broker_id}, which is not registered")


def _line_up(brokers: Mapping[int, BrokerRecord], chance: random.Random) -> list[int]:
    """The brokers, one of each rack in turn; within a rack in random order. Brokers without a rack are one rack."""
    racks: dict[str, list[int]] = {}
    for broker_id in sorted(brokers):
        racks.setdefault(brokers[broker_id].rack or "", []).append(broker_id)
    for members in racks.values():
        chance.shuffle(members)
    line: list[int] = []
    depth = max(len(members) for members in racks.values())
    for turn in range(depth):
        line += [members[turn] for _, members in sorted(racks.items()) if turn < len(members)]
    return line


def _replicas(
    brokers: Mapping[int, BrokerRecord], line: Sequence[int], leader: int, shift: int, replication_factor: int
) -> Replicas:
    leader %= len(line)
    others = list(line[leader + 1 :]) + list(line[:leader])
    if others:
        shift %= len(others)
        others = others[shift:] + others[:shift]
    replicas = [line[leader]]
    used_racks = {brokers[line[leader]].rack}
    for broker_id in others:
        if len(replicas) < replication_factor and brokers[broker_id].rack not in used_racks:
            replicas.append(broker_id)
            used_racks.add(brokers[broker_id].rack)
    # Every rack has one now, or there are enough; the rest goes in the order of the line.
    replicas += [broker_id for broker_id in others if broker_id not in replicas][: replication_factor - len(replicas)]
    return tuple(replicas)


def _alive(count: int) -> str:
    return "only 1 broker is alive" if count == 1 else f"only {count} brokers are alive"


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{reason}.")
