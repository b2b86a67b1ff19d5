"""Messages with arbitrary content, made from their declarations: for round trips, cross-checks and as seeds to fuzz.

`any_message` draws from a `random.Random`, so Hypothesis (`st.randoms()`) and a plain seed both drive it. It picks the
values that codecs get wrong: empty, null, the ends of a range, strings whose length takes two bytes, unknown tags.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from penstock.wire import api
from penstock.wire.header import read_request_header, read_response_header, response_has_tags
from penstock.wire.schema import Field, Kind, Struct, layout_of

OWN_FRAMES = Path(__file__).parent / "golden" / "frames.jsonl"
SHARED_FRAMES = Path(__file__).resolve().parents[2] / "shared" / "golden" / "frames.jsonl"

INTEGERS = {
    Kind.INT8: (-(2**7), 2**7 - 1),
    Kind.INT16: (-(2**15), 2**15 - 1),
    Kind.INT32: (-(2**31), 2**31 - 1),
    Kind.INT64: (-(2**63), 2**63 - 1),
    Kind.UINT16: (0, 2**16 - 1),
    Kind.UINT32: (0, 2**32 - 1),
}
TEXTS = ("", "a", "orders", "Füllmaß", "\U0001f600", "x" * 126, "y" * 127, "z" * 300)
PIECES = (b"", b"\x00", b"abc", bytes(127), bytes(range(256)))
UNKNOWN_TAG = 1000
"""Far from any number that a declaration uses."""


def every_message() -> Iterator[tuple[type[Struct], int]]:
    """Each request and response of each API, in each version that it has had."""
    for key in api.MODULES:
        one = api.load(key)
        for cls in (one.request, one.response):
            for version in layout_of(cls).versions:
                yield cls, version


def name_of(case: Any) -> str:
    return case.__name__ if isinstance(case, type) else f"v{case}"


def any_message(chance: Random, cls: type[Struct], version: int, *, unknown_tags: bool = True) -> Any:
    """A message of this version; what the version does not carry has its default."""
    return _any_struct(chance, cls, version, unknown_tags and version in layout_of(cls).flexible)


def _any_struct(chance: Random, cls: type[Struct], version: int, unknown_tags: bool) -> Any:
    values = {
        field.name: _any_value(chance, field, version, unknown_tags)
        for field in layout_of(cls).fields
        if version in field.versions and not (version in field.tagged and chance.random() < 0.5)
    }
    if unknown_tags and chance.random() < 0.1:
        values["unknown_tags"] = {UNKNOWN_TAG + chance.randint(0, 5): chance.choice(PIECES) for _ in range(2)}
    return cls(**values)


def _any_value(chance: Random, field: Field, version: int, unknown_tags: bool) -> Any:
    if version in field.nullable and chance.random() < 0.25:
        return None
    if field.is_array:
        return [_any_element(chance, field, version, unknown_tags) for _ in range(chance.randint(0, 2))]
    return _any_element(chance, field, version, unknown_tags)


def _any_element(chance: Random, field: Field, version: int, unknown_tags: bool) -> Any:
    if not isinstance(field.kind, Kind):
        return _any_struct(chance, field.kind, version, unknown_tags)
    if field.kind in INTEGERS:
        low, high = INTEGERS[field.kind]
        return chance.choice((0, 1, low, high, chance.randint(low, high)))
    if field.kind is Kind.STRING:
        return chance.choice(TEXTS)
    if field.kind is Kind.UUID:
        return chance.choice((bytes(16), bytes(range(16)), b"\xff" * 16))
    if field.kind is Kind.BOOL:
        return chance.random() < 0.5
    if field.kind is Kind.FLOAT64:
        return chance.choice((0.0, -1.5, float("inf")))
    return chance.choice(PIECES)


def golden_frames(path: Path) -> list[dict[str, Any]]:
    """The recorded frames of the APIs that we have, as bytes."""
    frames = [json.loads(line) for line in path.read_text().splitlines()]
    return [frame | {"frame": bytes.fromhex(frame["frame"])} for frame in frames if frame["api"] in api.MODULES]


def body_of(frame: dict[str, Any]) -> tuple[type[Struct], int, int]:
    """(message class, version, position of the body) of a golden frame."""
    one, version, data = api.load(frame["api"]), frame["version"], frame["frame"]
    is_flexible = version in layout_of(one.request).flexible
    if frame["direction"] == "request":
        return one.request, version, read_request_header(data, 0, is_flexible)[2]
    return one.response, version, read_response_header(data, 0, response_has_tags(one.key, is_flexible))[1]
