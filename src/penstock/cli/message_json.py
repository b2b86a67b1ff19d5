"""A message as one line of JSON: what `consume --format json` writes and `produce --format json` reads.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1700000000000, "key": "k", "value": "v",
     "headers": [{"key": "h", "value": "x"}]}

Text is text. Bytes that are not UTF-8 are base64, and a field beside them says so: "value_encoding": "base64". So what
one writes the other reads back to the same bytes. When it is read every field but `value` may be absent, `topic` and
`offset` are not used, and headers may also be an object: {"h": "x"}. A field of another name is refused: it is more
likely misspelt than meant to be left out.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from penstock.types import TopicPartition
from penstock.wire.record import Headers, Record
from penstock.wire.records import MAX_INT32, NO_TIMESTAMP

BASE64 = "base64"
MAX_TIMESTAMP_MS = (1 << 62) - 1
"""Times have 64 bits, and so has the distance between any two of one batch."""

HEADER_FIELDS = ("key", "value", "value_encoding")
MESSAGE_FIELDS = ("key_encoding", "headers", "timestamp", "partition", "topic", "offset", *HEADER_FIELDS)


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send; None: the producer's choice."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


def to_json(where: TopicPartition, record: Record) -> str:
    """The line for a record, without its end. Characters that steer a terminal are escaped."""
    fields: dict[str, Any] = {
        "topic": where.topic,
        "partition": where.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_field("key", record.key),
        **_field("value", record.value),
        "headers": [{"key": key, **_field("value", value)} for key, value in record.headers],
    }
    text = json.dumps(fields, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(fields)


def from_json(line: bytes) -> Message:
    """The message on a line; ValueError with a sentence when it is none."""
    try:
        return _message(_parse(line))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except UnicodeDecodeError:
        raise ValueError("it is not JSON: it is not text in UTF-8") from None
    except ValueError:  # Python's limit for the digits of one number
        raise ValueError("it is not JSON that can be read: a number in it has too many digits") from None


def _message(fields: Any) -> Message:
    if not isinstance(fields, dict):
        raise ValueError('it is not an object; write {"value": "..."}')
    _check_names(fields, MESSAGE_FIELDS, "a message")
    if "value" not in fields:
        raise ValueError('it has no "value"; for a tombstone write null')
    return Message(
        _bytes(fields, "value"),
        _bytes(fields, "key"),
        _headers(fields.get("headers") or ()),
        _int(fields, "timestamp", NO_TIMESTAMP, MAX_TIMESTAMP_MS),
        _int(fields, "partition", 0, MAX_INT32),
    )


def _check_names(fields: Collection[str], known: Collection[str], what: str) -> None:
    for name in fields:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f'perhaps "{close[0]}" is meant' if close else f"there are {', '.join(known)}"
            raise ValueError(f"{what} has no field {json.dumps(name)}; {hint}")


def _field(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {name: base64.b64encode(value).decode(), f"{name}_encoding": BASE64}


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    value, encoding = fields.get(name), fields.get(f"{name}_encoding")
    if value is None:
        return None
    if not isinstance(value, str):  # an object is a message too: its JSON
        return _encode(json.dumps(value, ensure_ascii=False), name)
    if encoding is None:
        return _encode(value, name)
    if encoding != BASE64:
        raise ValueError(f'"{name}_encoding" is {encoding!r}; only "base64" is known')
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f'"{name}" is not base64: {error}') from None


def _encode(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        raise ValueError(f'"{name}" has {half}, one half of a character, without the other') from None


def _headers(given: Any) -> Headers:
    if isinstance(given, dict):
        given = [{"key": key, "value": value} for key, value in given.items()]
    if not isinstance(given, list | tuple):
        raise ValueError('"headers" is no list; a header is {"key": "...", "value": "..."}')
    headers = []
    for header in given:
        if not (isinstance(header, dict) and isinstance(header.get("key"), str)):
            raise ValueError('a header is not {"key": "...", "value": "..."}')
        _check_names(header, HEADER_FIELDS, "a header")
        _encode(header["key"], "key")
        headers.append((header["key"], _bytes(header, "value")))
    return tuple(headers)


def _int(fields: dict[str, Any], name: str, least: int, most: int) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f'"{name}" is not a whole number')
    if not least <= value <= most:
        raise ValueError(f'"{name}" is not between {least} and {most}')
    return value
