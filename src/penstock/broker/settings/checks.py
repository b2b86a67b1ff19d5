"""What a value must be beyond its type: bounds and choices, each with the words that say so.

`problem` gives None when the value is fine, else the middle of a sentence: "must be at least 1". A check sees the typed
value; null is never checked, because a setting without a value has none to be wrong.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Protocol


class Check(Protocol):
    def problem(self, value: object) -> str | None:
        """What is wrong with the value, as the middle of a sentence."""
        ...


@dataclass(frozen=True, slots=True)
class AtLeast:
    low: int

    def problem(self, value: object) -> str | None:
        assert isinstance(value, int | float)
        return None if value >= self.low else f"must be at least {self.low}"


@dataclass(frozen=True, slots=True)
class Between:
    """Bounds, both allowed; `also` is one more value that is."""

    low: float
    high: float
    also: int | None = None

    def problem(self, value: object) -> str | None:
        assert isinstance(value, int | float)
        if self.low <= value <= self.high or (self.also is not None and value == self.also):
            return None
        other = "" if self.also is None else f", or {self.also}"
        return f"must be between {self.low} and {self.high}{other}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """A string of a small set, or a list whose members are of it; an empty list is fine unless `needed`."""

    choices: tuple[str, ...]
    any_case: bool = False
    needed: bool = False

    def problem(self, value: object) -> str | None:
        if value == ():
            return f"must have one of {', '.join(self.choices)}" if self.needed else None
        members = value if isinstance(value, tuple) else (value,)
        if all(self._allows(member) for member in members):
            return None
        return f"must be {'made of ' if isinstance(value, tuple) else ''}{' or '.join(self.choices)}"

    def _allows(self, member: object) -> bool:
        assert isinstance(member, str)
        return (member.lower() if self.any_case else member) in self.choices


@dataclass(frozen=True, slots=True)
class NotEmpty:
    def problem(self, value: object) -> str | None:
        return None if value else "must not be empty"


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """`*`, or partition:broker pairs."""

    def problem(self, value: object) -> str | None:
        assert isinstance(value, tuple)
        if value == ("*",) or all(re.fullmatch(r"\d+:\d+", pair) for pair in value):
            return None
        return "must be * alone or a list of PARTITION:BROKER pairs"


@dataclass(frozen=True, slots=True)
class HostCounts:
    """HOST:COUNT pairs; a host is an address or a name, and an IPv6 address may stand in brackets."""

    def problem(self, value: object) -> str | None:
        assert isinstance(value, str)
        try:
            host_counts(value)
        except ValueError:
            return "must be HOST:COUNT pairs, such as 127.0.0.1:100"
        return None


def host_counts(text: str) -> dict[str, int]:
    """The pairs of max.connections.per.ip.overrides; addresses in their usual form, so that they can be compared."""
    counts: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, separator, count = pair.rpartition(":")
        if not separator or not host or not re.fullmatch(r"[0-9]+", count):
            raise ValueError(pair)
        counts[_usual_form(host.strip().strip("[]"))] = int(count)
    return counts


def _usual_form(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


PERIOD = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?")


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where a share group begins."""

    def problem(self, value: object) -> str | None:
        assert isinstance(value, str)
        if value in ("earliest", "latest") or PERIOD.fullmatch(value):
            return None
        return "must be earliest, latest or by_duration: with a period such as PT1H"
