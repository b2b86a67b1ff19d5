"""What must be true of offsets: one value at each, and every committed value at one, in order, for readers to find.

Each check gives a sentence for each violation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from penstock.testing.history.history import History
from penstock.testing.history.transaction import Write


def inconsistent_offsets(history: History) -> Iterator[str]:
    """Two values at one offset."""
    for (partition, offset), values in history.offsets.items():
        if len(values) > 1:
            told = " and ".join(f"{value!r} by {who}" for value, who in values.items())
            yield f"Offset {offset} of {partition} has {len(values)} values: {told}."


def duplicates(history: History) -> Iterator[str]:
    """One value at two offsets."""
    places: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for (partition, offset), values in history.offsets.items():
        for value in values:
            places[value].add((partition, offset))
    for value, found in places.items():
        if len(found) > 1:
            told = " and ".join(f"offset {offset} of {partition}" for partition, offset in sorted(found))
            yield f"The value {value!r} was written once and is at {told}."


def lost_writes(history: History) -> Iterator[str]:
    """Acknowledged and committed, and readers went past it without seeing it."""
    highest = history.highest_read()
    for write in history.committed_writes:
        if not write.is_acknowledged or write.reads or write.partition is None or write.offset is None:
            continue
        end = highest.get(write.partition, -1)
        if write.offset <= end:
            yield f"{write} was acknowledged and committed, and never read, though offset {end} was."


def unseen(history: History) -> Iterator[str]:
    """Committed, and nobody ever read anything of it, although readers read to the end after all was healed."""
    for transaction in history.committed:
        writes = transaction.taken_writes
        if writes and not any(write.reads for write in writes):
            values = ", ".join(repr(write.value) for write in writes[:3])
            yield f"{transaction} of {transaction.process} was committed, and nobody ever read what it wrote: {values}."


def write_order(history: History) -> Iterator[str]:
    """A producer's transactional writes to a partition have rising offsets, in a transaction and from one to the next.

    Single sends are left out: a producer that is not idempotent may swap them.
    """
    last: dict[tuple[str, str], Write] = {}
    for transaction in history.transactions.values():
        for write in transaction.writes if not transaction.is_single else ():
            if write.partition is None or write.offset is None:
                continue
            before = last.get((transaction.process, write.partition))
            if before is not None and before.offset is not None and before.offset >= write.offset:
                yield f"{transaction.process} wrote {before} before {write}, in {transaction}."
            last[transaction.process, write.partition] = write
