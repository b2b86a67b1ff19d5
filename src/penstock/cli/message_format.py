"""How `penstock consume` writes a message: by a name, or by a pattern like "%p:%o %k %v".

    value       the value                       key-value   the key, a tab, the value
    json        one object on each line (see `message_json`)

    %t topic        %p partition    %o offset      %k key      %v value       %h headers
    %T time in ms   %d date, time   %% a percent   \\n an end of line   \\t a tab

Rules:
- in a pipe keys and values are the bytes that they are; every message ends with a line feed;
- on a terminal bytes are shown as UTF-8 and control characters are escaped: a message must not steer the terminal;
- no key and no value (a tombstone) are written as `null`, as Kafka's own tool does; JSON tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from penstock.cli.message_json import to_json
from penstock.cli.output import escape_control
from penstock.types import TopicPartition
from penstock.wire.record import Record

NAMES = {"value": "%v", "key-value": "%k\\t%v"}
HEADERS_PREFIX = "%h\\t"

Write = Callable[[TopicPartition, Record], bytes]
"""A message as it is written, with the end of its line."""

_TOKEN = re.compile(r"%(.)|\\([nt\\])", re.DOTALL)

_Piece = Callable[[TopicPartition, Record], bytes]


def message_format(text: str, *, with_headers: bool, is_terminal: bool) -> Write:
    """The writer for a format; ValueError when it is none."""
    if text == "json":
        return lambda where, record: to_json(where, record).encode() + b"\n"
    pattern = NAMES.get(text, text)
    if text not in NAMES and "%" not in text:
        raise ValueError(f"{text!r} is no format: write value, key-value, json, or a pattern like '%k %v'.")
    pieces = _compile((HEADERS_PREFIX if with_headers else "") + pattern, is_terminal)
    return lambda where, record: b"".join([piece(where, record) for piece in pieces]) + b"\n"


def _compile(pattern: str, is_terminal: bool) -> list[_Piece]:
    show = _shown if is_terminal else _raw
    fields: dict[str, _Piece] = {
        "t": lambda where, record: where.topic.encode(),
        "p": lambda where, record: b"%d" % where.partition,
        "o": lambda where, record: b"%d" % record.offset,
        "k": lambda where, record: show(record.key),
        "v": lambda where, record: show(record.value),
        "h": lambda where, record: b",".join(show(key.encode()) + b"=" + show(v) for key, v in record.headers),
        "T": lambda where, record: b"%d" % record.timestamp,
        "d": lambda where, record: _date(record.timestamp).encode(),
        "%": lambda where, record: b"%",
    }
    pieces: list[_Piece] = []
    position = 0
    for token in _TOKEN.finditer(pattern):
        if token.start() > position:
            pieces.append(_literal(pattern[position : token.start()]))
        if token[2]:
            pieces.append(_literal({"n": "\n", "t": "\t", "\\": "\\"}[token[2]]))
        elif token[1] in fields:
            pieces.append(fields[token[1]])
        else:
            raise ValueError(f"%{token[1]} means nothing in a format; there are %{' %'.join(fields)}.")
        position = token.end()
    if position < len(pattern):
        pieces.append(_literal(pattern[position:]))
    return pieces


def _literal(text: str) -> _Piece:
    data = text.encode()
    return lambda where, record: data


def _raw(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _shown(data: bytes | None) -> bytes:
    return b"null" if data is None else escape_control(data.decode("utf-8", "backslashreplace")).encode()


def _date(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # a timestamp may be any number
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
