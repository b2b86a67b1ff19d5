"""Java's `.properties` files, as Apache Kafka's server.properties is one.

A line is a name, a separator (`=`, `:` or white space, with white space around it) and a value to the line's end. Lines
that begin with `#` or `!` are comments. A line that ends in an odd number of backslashes goes on in the next one, whose
leading white space is dropped. `\\t \\n \\r \\f` and `\\uXXXX` are those characters; any other backslash is dropped.
White space at the end of a value belongs to it; the settings' own types ignore it. The last of two lines with
the same name wins.

A file is UTF-8. Java reads Latin-1 here, so a file that is not UTF-8 is read as that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.errors import ConfigError

MAX_FILE_BYTES = 1 << 20
"""A server.properties is a few kilobytes; a larger file is something else, given by mistake."""

BLANK = " \t\f"
LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
NAME_END = re.compile(r"(?:\\.|[^\\=: \t\f])*")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)")


class Property(NamedTuple):
    name: str
    value: str
    line: int
    """Where the property begins; the first line is 1."""


def read_properties(path: Path) -> list[Property]:
    """The file's properties in its order; ConfigError with a sentence when it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes: it is not a server.properties.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    try:
        return parse_properties(text)
    except ValueError as error:
        raise ConfigError(f"{path} {error}") from None


def parse_properties(text: str) -> list[Property]:
    """The properties of a file's text; ValueError that names the line when an escape is broken."""
    return [_property(line, number) for number, line in _logical_lines(text)]


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations joined, without comments and empty ones."""
    lines = iter(enumerate(re.split(r"\r\n|\r|\n", text), start=1))
    for number, natural in lines:
        line = natural.lstrip(BLANK)
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            line = line[:-1] + next(lines, (0, ""))[1].lstrip(BLANK)
        yield number, line


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _property(line: str, number: int) -> Property:
    match = NAME_END.match(line)
    assert match is not None
    rest = line[match.end() :].lstrip(BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(BLANK)
    return Property(_unescaped(match[0], number), _unescaped(rest, number), number)


def _unescaped(text: str, number: int) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        if escape == "u":
            raise ValueError(f"line {number}: \\u must be followed by four hexadecimal digits.")
        return chr(int(escape[1:], 16)) if len(escape) == 5 else LETTERS.get(escape, escape)

    return ESCAPE.sub(replace, text)
