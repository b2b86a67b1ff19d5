"""What `penstock log dump` prints: an entry of a file, or something that is wrong with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a file: its fields for JSON, and a line for a person."""

    kind: str
    fields: dict[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A sentence: what is wrong, and where in the file."""

    text: str


def date(timestamp_ms: int) -> str:
    """A timestamp for a person; a batch may carry any number as one."""
    if timestamp_ms < 0:
        return "none"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


def quoted(data: bytes | None) -> str:
    """Bytes in quotes, with everything escaped that is not plain text."""
    return "null" if data is None else json.dumps(data.decode("utf-8", "backslashreplace"))
