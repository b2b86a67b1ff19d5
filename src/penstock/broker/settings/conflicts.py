"""Settings that do not go together: each pair that Kafka checks, with a sentence.

A single value is checked by its row; this is what takes two rows, or a value in another row's words. `conflicts` gives
the setting to change and the sentence, for all that it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.broker.settings.layers import RETENTION, ROLL, ROLL_JITTER
from penstock.broker.settings.setting import Value
from penstock.broker.settings.units import to_ms

MIN_DEDUPE_BUFFER_BYTES = 1 << 20
"""Kafka's own bound for one cleaner thread's memory of keys."""


class Conflict(NamedTuple):
    name: str
    sentence: str


def first_ms(values: Mapping[str, Value], names: tuple[str, ...]) -> tuple[str, int]:
    """The first of the settings that has a value, and that value in milliseconds."""
    for name in names:
        value = values[name]
        if value is not None:
            assert isinstance(value, int)
            return name, to_ms(name, value)
    raise AssertionError(f"none of {names} has a default")


def conflicts(values: Mapping[str, Value]) -> Iterator[Conflict]:
    """Everything that is wrong between the settings."""
    yield from _times(values)
    yield from _not_above(values, "replica.fetch.wait.max.ms", "replica.lag.time.max.ms")
    yield from _not_above(values, "group.min.session.timeout.ms", "group.max.session.timeout.ms")
    yield from _cleaner(values)
    yield from _queued_bytes(values)
    yield from _directories(values)
    yield from _roles(values)
    yield from _authorizer(values)


def _times(values: Mapping[str, Value]) -> Iterator[Conflict]:
    name, retention_ms = first_ms(values, RETENTION)
    if retention_ms == 0:
        yield Conflict(name, f"{name} must be at least 1, or -1 to keep records for ever, not 0.")
    name, roll_ms = first_ms(values, ROLL)
    if roll_ms < 1:
        yield Conflict(name, f"{name} must be at least 1, not {values[name]}.")
    name, jitter_ms = first_ms(values, ROLL_JITTER)
    if jitter_ms < 0:
        yield Conflict(name, f"{name} must be at least 0, not {values[name]}.")


def _not_above(values: Mapping[str, Value], small: str, large: str) -> Iterator[Conflict]:
    low, high = values[small], values[large]
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        yield Conflict(small, f"{small} is {low}, above {large}, which is {high}.")


def _cleaner(values: Mapping[str, Value]) -> Iterator[Conflict]:
    size, threads = values["log.cleaner.dedupe.buffer.size"], values["log.cleaner.threads"]
    assert isinstance(size, int)
    assert isinstance(threads, int)
    if threads and size / threads <= MIN_DEDUPE_BUFFER_BYTES:
        needed = threads * MIN_DEDUPE_BUFFER_BYTES
        yield Conflict(
            "log.cleaner.dedupe.buffer.size",
            f"log.cleaner.dedupe.buffer.size must be above {needed} bytes for {threads} cleaner threads, not {size}.",
        )


def _queued_bytes(values: Mapping[str, Value]) -> Iterator[Conflict]:
    queued, request = values["queued.max.request.bytes"], values["socket.request.max.bytes"]
    assert isinstance(queued, int)
    assert isinstance(request, int)
    if queued > 0 and queued < request:
        yield Conflict(
            "queued.max.request.bytes",
            f"queued.max.request.bytes is {queued}, below socket.request.max.bytes, which is {request}.",
        )


def _directories(values: Mapping[str, Value]) -> Iterator[Conflict]:
    directories = values["log.dirs"] or values["log.dir"]
    if not directories:
        yield Conflict("log.dirs", "log.dirs is empty. Name at least one directory.")
        return
    cordoned = values["cordoned.log.dirs"]
    assert isinstance(cordoned, tuple)
    assert isinstance(directories, tuple)
    strangers = [directory for directory in cordoned if directory not in directories]
    if strangers:
        yield Conflict(
            "cordoned.log.dirs", f"cordoned.log.dirs has {', '.join(strangers)}, which is not one of log.dirs."
        )


def _roles(values: Mapping[str, Value]) -> Iterator[Conflict]:
    roles = values["process.roles"]
    if roles and "broker" not in (roles if isinstance(roles, tuple) else ()):
        yield Conflict(
            "process.roles",
            "process.roles has no broker, and Penstock is nothing else. Start it with the settings of a broker.",
        )


def _authorizer(values: Mapping[str, Value]) -> Iterator[Conflict]:
    """A broker that was told to guard its topics, and cannot, does not start."""
    if values["authorizer.class.name"]:
        yield Conflict(
            "authorizer.class.name",
            "authorizer.class.name asks for an authorizer, and Penstock has none yet: everybody could do everything. "
            "Remove the setting if that is what you want.",
        )
