"""Lines from a file or from standard input, as bytes, and the moments when no more are there for now.

Whoever sends what comes from a pipe must not wait for a full batch while the pipe is quiet, as in
`tail -f x | penstock produce t`. So a pause in the input is given out too, as None.

A line ends at a line feed, which is not part of it; nothing else is taken away. The last line needs no end.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Iterator
from typing import IO

from penstock.errors import ConfigError

CHUNK_BYTES = 256 * 1024
PAUSE_SECONDS = 0.05
"""How long the input is quiet before that counts as a pause."""

MAX_LINE_BYTES = 100 * 1024 * 1024
"""More than any broker takes as one message."""


def read_lines(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Each line; None when the input pauses."""
    rest = b""
    for chunk in _chunks(stream):
        if chunk is None:
            yield None
            continue
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        if len(rest) > MAX_LINE_BYTES:
            raise ConfigError(f"A line has more than {MAX_LINE_BYTES} bytes; no message is that large.")
    if rest:
        yield rest


def _chunks(stream: IO[bytes]) -> Iterator[bytes | None]:
    try:
        descriptor = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):  # not a file of the system: it never pauses
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
        return
    while True:
        if not select.select([descriptor], [], [], PAUSE_SECONDS)[0]:
            yield None
            select.select([descriptor], [], [])
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            return
        yield chunk
