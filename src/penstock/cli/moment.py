"""A moment on the command line: "2024-05-01T12:00", "1h ago", "now", or milliseconds since 1970; and a length of time.

A date without a zone means local time, as people do who type it. The result is what Kafka counts in: milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
MAX_MS = 253_402_300_799_999
"""The end of the year 9999: a date cannot be later, and a mistyped number soon is."""

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)[a-z]*(?:\s+ago)?", re.IGNORECASE)
_ISO_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)


class Moment(click.ParamType[int]):
    """A point in time, as milliseconds since 1970."""

    name = "time"

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_moment(value, self._now_ms())
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_moment(text: str, now_ms: int) -> int:
    """ValueError with a sentence when it is no moment, or none that a message could have."""
    text = text.strip()
    try:
        moment = _moment(text, now_ms)
    except (ValueError, OverflowError):
        moment = -1
    if not 0 <= moment <= MAX_MS:
        examples = "Write 2024-05-01T12:00, '1h ago', or milliseconds since 1970."
        raise ValueError(f"{text!r} is no time between 1970 and 9999. {examples}")
    return moment


def _moment(text: str, now_ms: int) -> int:
    if text.lower() == "now":
        return now_ms
    if text.isascii() and text.isdigit():
        return int(text)
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now_ms - int(float(ago[1]) * _UNITS_MS[ago[2].lower()])
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def parse_duration(text: str) -> int:
    """Milliseconds of "90m", "2h", "1d", or "P1DT2H30M" as in Kafka's tools; ValueError when it is none."""
    text = text.strip()
    parts = _duration_parts(text)
    length = sum(float(number) * _UNITS_MS[unit] for unit, number in parts.items())
    if not parts or length > MAX_MS:
        raise ValueError(f"{text!r} is no length of time. Write 90m, 2h, 1d, or PT1H30M.")
    return int(length)


def _duration_parts(text: str) -> dict[str, str]:
    """Units and how many of each; none when it is no length of time."""
    plain = _AGO.fullmatch(text)
    if plain is not None and not text.lower().endswith("ago"):
        return {plain[2].lower(): plain[1]}
    iso = _ISO_DURATION.fullmatch(text)
    return {unit: number for unit, number in iso.groupdict().items() if number} if iso else {}
