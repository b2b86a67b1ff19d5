"""Writes a process's part of a history so that its `kill -9` loses no line that was written.

A line is one `os.write` to a file opened for appending: it is in the kernel when `record` returns. The machine's crash
is another matter; a history is for killed processes. A line that a kill cut in two is left out when it is read.

Safe from many threads: deliveries are told by the producer's thread.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from penstock.testing.history.event import Event, Happening, Record


class Recorder:
    """One process's part. A process that is started again is another process, with another name."""

    def __init__(self, path: Path, process: str, now: Callable[[], int] = time.monotonic_ns) -> None:
        self.process = process
        self._now = now
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._numbers = itertools.count(1)

    def begin(self) -> str:
        """A new transaction; gives its name."""
        transaction = f"{self.process}/{next(self._numbers)}"
        self.record(Happening.BEGIN, transaction=transaction)
        return transaction

    def send(self, value: str, transaction: str | None = None) -> None:
        """To be called before the value is sent."""
        self.record(Happening.SEND, value=value, transaction=transaction)

    def acknowledged(self, value: str, partition: object, offset: int) -> None:
        self.record(Happening.ACK, value=value, partition=str(partition), offset=offset)

    def failed(self, value: str) -> None:
        """Only where it is certain that the value is not in the log."""
        self.record(Happening.FAIL, value=value)

    def poll(self, records: Iterable[tuple[object, int, str]], transaction: str | None = None) -> None:
        """What a reader got: (partition, offset, value) in its order."""
        got = tuple(Record(str(partition), offset, value) for partition, offset, value in records)
        if got:
            self.record(Happening.POLL, records=got, transaction=transaction)

    def place(self, partitions: Iterable[object] | None = None) -> None:
        """The reader begins anew in these partitions, or in all: offsets may jump once."""
        named = None if partitions is None else tuple(map(str, partitions))
        self.record(Happening.PLACE, partitions=named)

    def positions(self, transaction: str, group: str, positions: Mapping[Any, int]) -> None:
        plain = {str(partition): offset for partition, offset in positions.items()}
        self.record(Happening.POSITIONS, transaction=transaction, group=group, positions=plain)

    def commit(self, transaction: str) -> None:
        """To be called before the commit is asked for."""
        self.record(Happening.COMMIT, transaction=transaction)

    def committed(self, transaction: str) -> None:
        self.record(Happening.COMMITTED, transaction=transaction)

    def aborted(self, transaction: str) -> None:
        self.record(Happening.ABORTED, transaction=transaction)

    def record(self, happening: Happening, **fields: Any) -> None:
        line = Event(self._now(), self.process, happening, **fields).line()
        os.write(self._file, f"{line}\n".encode())

    def close(self) -> None:
        os.close(self._file)


def read_events(path: Path) -> list[Event]:
    """The lines of a file; the last one may be half a line. ValueError names the file and the line that is no event."""
    events: list[Event] = []
    for number, line in enumerate(path.read_text().splitlines(keepends=True), start=1):
        if not line.endswith("\n"):
            continue
        try:
            events.append(Event.parse(line))
        except ValueError as failure:
            raise ValueError(f"{path}, line {number}: {failure}") from None
    return events
