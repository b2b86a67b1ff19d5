"""All checks of a history, and a verdict in sentences.

`PROPERTIES` are the checks by name. Some of them are fair only when everything was healed and some reader then read
every partition to its end: `check(history, is_healed=False)` leaves those out. `notes` are told and not forbidden.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from penstock.testing.history.cycles import G1C, WITH_WRITES, Dependency, cycles
from penstock.testing.history.history import History
from penstock.testing.history.offsets import duplicates, inconsistent_offsets, lost_writes, unseen, write_order
from penstock.testing.history.processing import never_processed, processed_twice
from penstock.testing.history.transaction import Outcome
from penstock.testing.history.visibility import (
    aborted_reads,
    contiguity,
    half_seen,
    intermediate_reads,
    precommitted_reads,
)

Check = Callable[[History], Iterator[str]]

PROPERTIES: Mapping[str, Check] = {
    "aborted read": aborted_reads,
    "inconsistent offsets": inconsistent_offsets,
    "lost write": lost_writes,
    "read contiguity": contiguity,
    "write order": write_order,
    "precommitted read": precommitted_reads,
    "duplicate": duplicates,
    "processed twice": processed_twice,
    "never processed": never_processed,
    "unseen": unseen,
    "half seen": half_seen,
}
"""And cycles, which can be told what they are made of."""

WHEN_HEALED = ("unseen", "half seen")
NOTES: Mapping[str, Check] = {
    "intermediate read": intermediate_reads,
    "cycle": partial(cycles, kinds=WITH_WRITES),
}
MAX_TOLD = 5
"""Sentences of one property in a verdict; one broken rule is often broken a thousand times."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule, at one place."""

    rule: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, what is worth knowing, and how much was looked at."""

    violations: tuple[Violation, ...]
    notes: tuple[Violation, ...]
    summary: str

    @property
    def is_good(self) -> bool:
        return not self.violations

    @property
    def broken_rules(self) -> set[str]:
        return {each.rule for each in self.violations}

    def __str__(self) -> str:
        return "\n".join([self.summary, *_told("VIOLATION", self.violations), *_told("note", self.notes)])


def check(history: History, *, is_healed: bool = True, forbidden_cycles: Collection[Dependency] = G1C) -> Verdict:
    """Everything that must hold. Cycles of other kinds than the forbidden ones are noted."""
    rules: dict[str, Check] = {name: rule for name, rule in PROPERTIES.items() if is_healed or name not in WHEN_HEALED}
    rules["cycle"] = partial(cycles, kinds=forbidden_cycles)
    violations = [Violation(name, sentence) for name, rule in rules.items() for sentence in rule(history)]
    broken = {each.rule for each in violations}
    notes = [Violation(name, each) for name, rule in NOTES.items() if name not in broken for each in rule(history)]
    return Verdict(tuple(violations), tuple(notes), summary_of(history))


def summary_of(history: History) -> str:
    outcomes = Counter(each.outcome for each in history.transactions.values() if not each.is_single)
    singles = sum(each.is_single for each in history.transactions.values())
    ended = ", ".join(f"{outcomes[outcome]} {outcome}" for outcome in Outcome)
    return (
        f"{sum(outcomes.values())} transactions ({ended}), {singles} single sends, {len(history.writes)} writes, "
        f"{len(history.reads)} reads."
    )


def _told(label: str, found: tuple[Violation, ...]) -> Iterator[str]:
    counts = Counter(each.rule for each in found)
    told: Counter[str] = Counter()
    for each in found:
        told[each.rule] += 1
        if told[each.rule] <= MAX_TOLD:
            yield f"{label}, {each.rule}: {each.sentence}"
        elif told[each.rule] == counts[each.rule]:
            yield f"{label}, {each.rule}: and {counts[each.rule] - MAX_TOLD} more."
