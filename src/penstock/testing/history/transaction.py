"""A transaction as its client knew it: what it wrote, what it read, and how it ended.

A send outside of transactions is a transaction of one write. How it ended:

    committed   the broker said so, or somebody read one of its values: then it was, whatever its client heard
    aborted     the broker said so, or the commit was never asked for, or the only write was refused
    unknown     the commit was asked for and the answer never came: either may be

A value's offset is what the broker acknowledged, or where somebody read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Write:
    """One value, written once."""

    value: str
    transaction: Transaction
    partition: str | None = None
    offset: int | None = None
    is_acknowledged: bool = False
    is_refused: bool = False
    """It is nowhere, whatever became of its transaction: nobody need read it, and nobody may."""
    reads: list[Read] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.value!r} at offset {self.offset} of {self.partition}"


@dataclass(frozen=True, slots=True)
class Read:
    """One value at one place, as one reader got it."""

    partition: str
    offset: int
    value: str
    process: str
    at: int
    place: int
    """Counts the reader's beginnings: within one of them offsets must go on."""
    transaction: Transaction | None


@dataclass(slots=True, eq=False)
class Transaction:
    """What one client did in one."""

    name: str
    process: str
    began_at: int
    is_single: bool = False
    """One send outside of transactions."""
    commit_asked_at: int | None = None
    outcome: Outcome = Outcome.ABORTED
    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    group: str | None = None
    positions: Mapping[str, int] = field(default_factory=dict)

    @property
    def taken_writes(self) -> list[Write]:
        """Those that were not refused."""
        return [write for write in self.writes if not write.is_refused]

    @property
    def is_committed(self) -> bool:
        return self.outcome is Outcome.COMMITTED

    @property
    def is_aborted(self) -> bool:
        return self.outcome is Outcome.ABORTED

    def __str__(self) -> str:
        return f"the send of {self.writes[0].value!r}" if self.is_single else f"transaction {self.name}"
