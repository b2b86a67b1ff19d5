"""What a setting's number counts, read from the end of its name, and what people write instead.

Kafka's numbers are bare: `log.retention.ms=7d` is wrong. The message then says what to write, so this module knows the
usual short forms of times and sizes. It never makes them valid: a file that works here works with Apache Kafka.
"""

from __future__ import annotations

import re
from enum import Enum


class Unit(Enum):
    MILLISECONDS = "milliseconds"
    SECONDS = "seconds"
    MINUTES = "minutes"
    HOURS = "hours"
    BYTES = "bytes"


ENDINGS = (
    ((".ms", ".millis"), Unit.MILLISECONDS),
    ((".seconds", ".secs"), Unit.SECONDS),
    ((".minutes",), Unit.MINUTES),
    ((".hours",), Unit.HOURS),
    ((".bytes", "buffer.size", "receive.size"), Unit.BYTES),
)

IN_MS = {Unit.MILLISECONDS: 1, Unit.SECONDS: 1000, Unit.MINUTES: 60_000, Unit.HOURS: 3_600_000}

SHORT_TIMES = {"ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
SHORT_SIZES = {"k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30}
"""As powers of two: in Kafka's world a megabyte of a segment is 1048576 bytes."""

AMOUNT = re.compile(r"(-?\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]{1,4})")


def unit_of(name: str) -> Unit | None:
    """What the setting of this name counts; None when the name does not say."""
    for endings, unit in ENDINGS:
        if name.endswith(endings):
            return unit
    return None


def to_ms(name: str, amount: int) -> int:
    """A time of the setting `name` in milliseconds: log.retention.hours=2 is 7200000."""
    return amount * IN_MS.get(unit_of(name) or Unit.MILLISECONDS, 1)


def in_unit(text: str, unit: Unit) -> int | None:
    """'7d' in milliseconds, '1GB' in bytes; None when the text is no such amount."""
    match = AMOUNT.fullmatch(text)
    if not match:
        return None
    number, suffix = float(match[1]), match[2].lower()
    if unit is Unit.BYTES:
        return round(number * (1 << SHORT_SIZES[suffix])) if suffix in SHORT_SIZES else None
    if suffix not in SHORT_TIMES:
        return None
    return round(number * SHORT_TIMES[suffix] / IN_MS[unit])
