"""A message as one line of JSON: what `consume --format json` writes and `produce --format json` reads.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1700000000000, "key": "k", "value": "v",
     "headers": [{"key": "h", "value": "x"}]}

Text is text. Bytes that are not UTF-8 are base64, and a field beside them says so: "value_encoding": "base64". So what
one writes the other reads back to the same bytes. When it is read every field but `value` may be absent, `topic` and
`offset` are not used, and headers may also be an object: {"h": "x"}.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any

from penstock.types import TopicPartition
from penstock.wire.record import Headers, Record

BASE64 = "base64"


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
        fields = json.loads(line)
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError('it is not an object; write {"value": "..."}')
    if "value" not in fields:
        raise ValueError('it has no "value"; for a tombstone write null')
    return Message(
        _bytes(fields, "value"),
        _bytes(fields, "key"),
        _headers(fields.get("headers") or ()),
        _int(fields, "timestamp"),
        _int(fields, "partition"),
    )


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
        return json.dumps(value, ensure_ascii=False).encode()
    if encoding is None:
        return value.encode()
    if encoding != BASE64:
        raise ValueError(f'"{name}_encoding" is {encoding!r}; only "base64" is known')
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise ValueError(f'"{name}" is not base64: {error}') from None


def _headers(given: Any) -> Headers:
    if isinstance(given, dict):
        given = [{"key": key, "value": value} for key, value in given.items()]
    if not isinstance(given, list | tuple):
        raise ValueError('"headers" is no list; a header is {"key": "...", "value": "..."}')
    headers = []
    for header in given:
        if not (isinstance(header, dict) and isinstance(header.get("key"), str)):
            raise ValueError('a header is not {"key": "...", "value": "..."}')
        headers.append((header["key"], _bytes(header, "value")))
    return tuple(headers)


def _int(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f'"{name}" is not a whole number')
    return value
