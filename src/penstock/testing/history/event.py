"""One line of a history: a client did something, or saw something.

    {"at": 12, "process": "w1", "happening": "send", "transaction": "w1/3", "value": "7"}

`at` is in nanoseconds of the machine's monotonic clock. A line has the fields that its happening needs, and no others:

    begin      transaction
    send       value, maybe transaction         before it is sent
    ack        value, partition, offset         the broker has it
    fail       value                            it was refused and is nowhere; its transaction may go on without it
    poll       records, maybe transaction       what a reader got, in its order
    place      partitions, or none for all      the reader begins anew there: assigned, sought, rewound
    positions  transaction, group, positions    what a group will have done when the transaction commits
    commit     transaction                      before it is asked
    committed  transaction
    aborted    transaction

A partition is its text, `orders-0`; a value is text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Happening(StrEnum):
    BEGIN = "begin"
    SEND = "send"
    ACK = "ack"
    FAIL = "fail"
    POLL = "poll"
    PLACE = "place"
    POSITIONS = "positions"
    COMMIT = "commit"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Record(NamedTuple):
    """A message as a reader got it."""

    partition: str
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Event:
    """One line."""

    at: int
    process: str
    happening: Happening
    transaction: str | None = None
    value: str | None = None
    partition: str | None = None
    offset: int | None = None
    records: tuple[Record, ...] = ()
    partitions: tuple[str, ...] | None = None
    group: str | None = None
    positions: Mapping[str, int] = field(default_factory=dict)

    def line(self) -> str:
        """As JSON, without what is not there."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        absent: tuple[object, ...] = (None, (), {})
        return json.dumps({name: value for name, value in fields.items() if value not in absent})

    @classmethod
    def parse(cls, line: str) -> Event:
        """ValueError when the line is no event."""
        try:
            fields: dict[str, Any] = json.loads(line)
            fields["happening"] = Happening(fields["happening"])
            fields["records"] = tuple(Record(*each) for each in fields.get("records", ()))
            if fields.get("partitions") is not None:
                fields["partitions"] = tuple(fields["partitions"])
            return cls(**fields)
        except (KeyError, TypeError, ValueError) as failure:
            raise ValueError(f"This is not a line of a history: {line[:200]!r} ({failure})") from None
