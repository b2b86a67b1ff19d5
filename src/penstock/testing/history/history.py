"""Everything that the clients recorded, put together.

Lines of many processes are sorted by their time. Outcomes are settled in the end: a transaction whose commit was asked
for and never answered counts as committed when one of its values was read.

A history that contradicts itself (a value sent twice, a transaction that nobody began) is a ValueError: then the test
is wrong, not the broker. So is one without a line: nothing recorded is nothing proved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from penstock.testing.history.event import Event, Happening
from penstock.testing.history.recorder import read_events
from penstock.testing.history.transaction import Outcome, Read, Transaction, Write

MAX_TOLD_FILES = 3


class History:
    """Transactions, writes by value, reads in the order of time."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.writes: dict[str, Write] = {}
        self.reads: list[Read] = []
        self.offsets: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
        """What was said to be at an offset: value -> who said so first."""
        self._places: dict[str, int] = defaultdict(int)
        self._partition_places: dict[tuple[str, str], int] = defaultdict(int)
        for event in sorted(events, key=lambda each: each.at):
            self._take(event)
        self._settle()

    @classmethod
    def load(cls, paths: Iterable[Path]) -> History:
        """ValueError when there is no file, or no line in any of them."""
        files = list(paths)
        if not files:
            raise ValueError("There are no files of a history; nothing can be said of what was not recorded.")
        events = [event for path in files for event in read_events(path)]
        if not events:
            told = ", ".join(map(str, files[:MAX_TOLD_FILES]))
            raise ValueError(f"No line was recorded in {told}; nothing can be said of an empty history.")
        return cls(events)

    # What checks ask

    @property
    def committed(self) -> Iterator[Transaction]:
        return (each for each in self.transactions.values() if each.is_committed)

    @property
    def committed_writes(self) -> Iterator[Write]:
        return (write for transaction in self.committed for write in transaction.taken_writes)

    def by_partition(self) -> Mapping[str, list[Write]]:
        """The committed writes whose offset is known, by offset."""
        found: dict[str, list[Write]] = defaultdict(list)
        for write in self.committed_writes:
            if write.partition is not None and write.offset is not None:
                found[write.partition].append(write)
        for writes in found.values():
            writes.sort(key=lambda each: each.offset or 0)
        return found

    def highest_read(self) -> Mapping[str, int]:
        """The highest offset that anyone read, by partition."""
        highest: dict[str, int] = {}
        for read in self.reads:
            highest[read.partition] = max(read.offset, highest.get(read.partition, -1))
        return highest

    # How lines become what they tell of

    def _take(self, event: Event) -> None:
        match event.happening:
            case Happening.BEGIN:
                self._begin(event, _named(event))
            case Happening.SEND:
                self._on_send(event)
            case Happening.ACK:
                self._on_ack(event)
            case Happening.FAIL:
                self._on_fail(event)
            case Happening.POLL:
                self._on_poll(event)
            case Happening.PLACE:
                self._on_place(event)
            case Happening.POSITIONS:
                transaction = self._known(event)
                transaction.group, transaction.positions = event.group, event.positions
            case Happening.COMMIT:
                transaction = self._known(event)
                transaction.commit_asked_at, transaction.outcome = event.at, Outcome.UNKNOWN
            case Happening.COMMITTED:
                self._known(event).outcome = Outcome.COMMITTED
            case Happening.ABORTED:
                self._known(event).outcome = Outcome.ABORTED

    def _begin(self, event: Event, name: str) -> Transaction:
        if name in self.transactions:
            raise ValueError(f"Transaction {name} was begun twice; give every process a name of its own.")
        self.transactions[name] = Transaction(name, event.process, event.at)
        return self.transactions[name]

    def _on_send(self, event: Event) -> None:
        value = _value(event)
        if value in self.writes:
            raise ValueError(f"The value {value!r} was sent twice; every value of a history is written once.")
        if event.transaction is not None:
            transaction = self._known(event)
        else:
            transaction = self._begin(event, f"send of {value}")
            transaction.is_single, transaction.outcome = True, Outcome.UNKNOWN
        self.writes[value] = Write(value, transaction)
        transaction.writes.append(self.writes[value])

    def _on_ack(self, event: Event) -> None:
        write = self._written(event)
        if event.partition is None or event.offset is None:
            raise ValueError(f"An acknowledgement without partition and offset: {event.line()}")
        self._found(event.partition, event.offset, write.value, f"the acknowledgement to {event.process}")
        write.partition, write.offset, write.is_acknowledged = event.partition, event.offset, True
        if write.transaction.is_single:
            write.transaction.outcome = Outcome.COMMITTED

    def _on_fail(self, event: Event) -> None:
        """It says nothing of the rest of its transaction, which may be committed without it."""
        write = self._written(event)
        write.is_refused = True
        if write.transaction.is_single:
            write.transaction.outcome = Outcome.ABORTED

    def _on_poll(self, event: Event) -> None:
        transaction = None if event.transaction is None else self._known(event)
        for partition, offset, value in event.records:
            place = self._places[event.process] + self._partition_places[event.process, partition]
            read = Read(partition, offset, value, event.process, event.at, place, transaction)
            self.reads.append(read)
            if transaction is not None:
                transaction.reads.append(read)
            self._found(partition, offset, value, f"a poll of {event.process}")

    def _on_place(self, event: Event) -> None:
        if event.partitions is None:
            self._places[event.process] += 1
        else:
            for partition in event.partitions:
                self._partition_places[event.process, partition] += 1

    def _found(self, partition: str, offset: int, value: str, by: str) -> None:
        self.offsets[partition, offset].setdefault(value, by)

    def _settle(self) -> None:
        """Reads find their writes, and tell what became of transactions that did not hear it."""
        for read in self.reads:
            write = self.writes.get(read.value)
            if write is None:
                continue
            write.reads.append(read)
            if write.partition is None:
                write.partition, write.offset = read.partition, read.offset
            if write.transaction.outcome is Outcome.UNKNOWN and not write.is_refused:
                write.transaction.outcome = Outcome.COMMITTED

    def _known(self, event: Event) -> Transaction:
        found = self.transactions.get(_named(event))
        if found is None:
            raise ValueError(f"Nobody began transaction {event.transaction}: {event.line()}")
        return found

    def _written(self, event: Event) -> Write:
        found = self.writes.get(_value(event))
        if found is None:
            raise ValueError(f"Nobody sent {event.value!r}: {event.line()}")
        return found


def _named(event: Event) -> str:
    if event.transaction is None:
        raise ValueError(f"This happening needs a transaction: {event.line()}")
    return event.transaction


def _value(event: Event) -> str:
    if event.value is None:
        raise ValueError(f"This happening needs a value: {event.line()}")
    return event.value
