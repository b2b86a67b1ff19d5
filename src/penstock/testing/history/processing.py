"""Read, process, write: every message that a group's position has passed was in exactly one committed transaction.

This is what "exactly once" means for a program that commits its position with its output. It needs `positions` lines;
transactions without them are not looked at. A message that only transactions of unknown outcome read is left open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from penstock.testing.history.history import History
from penstock.testing.history.transaction import Transaction

Place = tuple[str, str, int]
"""Group, partition, offset."""


def processed_twice(history: History) -> Iterator[str]:
    for (group, partition, offset), takers in _taken(history).items():
        if len(takers) > 1:
            told = " and ".join(each.name for each in takers)
            yield f"Group {group} processed offset {offset} of {partition} {len(takers)} times: in {told}."


def never_processed(history: History) -> Iterator[str]:
    """The group went past it."""
    ends: dict[tuple[str, str], int] = defaultdict(int)
    for transaction in history.committed:
        for partition, end in transaction.positions.items():
            key = str(transaction.group), partition
            ends[key] = max(end, ends[key])
    taken = _taken(history).keys() | set(_maybe_taken(history))
    partitions = history.by_partition()
    for (group, partition), end in ends.items():
        for write in partitions.get(partition, ()):
            if write.offset is not None and write.offset < end and (group, partition, write.offset) not in taken:
                yield f"Group {group} committed position {end} of {partition}, and never processed {write}."


def _taken(history: History) -> dict[Place, list[Transaction]]:
    taken: dict[Place, list[Transaction]] = defaultdict(list)
    for transaction in history.committed:
        for place in _places(transaction):
            taken[place].append(transaction)
    return taken


def _maybe_taken(history: History) -> Iterator[Place]:
    for transaction in history.transactions.values():
        if not transaction.is_aborted:
            yield from _places(transaction)


def _places(transaction: Transaction) -> Iterator[Place]:
    if transaction.group is not None:
        for read in transaction.reads:
            yield transaction.group, read.partition, read.offset
