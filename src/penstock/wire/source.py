"""The text of a codec in the making: what `decoder` and `encoder` have in common.

A codec is one flat function, written out as Python source for one message and one version, then compiled. It refers to
values (classes, `struct` methods) by names that `bind` gives out.
"""

from __future__ import annotations

import itertools
import struct
from functools import cache
from typing import Any

from penstock.wire.schema import Field, Kind, Struct, layout_of


class Source:
    """Lines of a function, and the names that they refer to."""

    def __init__(self, cls: type[Struct], version: int, is_flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.is_flexible = is_flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._counter = itertools.count()

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def fresh(self, stem: str) -> str:
        return f"{stem}{next(self._counter)}"

    def bind(self, stem: str, value: Any) -> str:
        """A name for a value that the text refers to; the same value gets the same name."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def carried(self, cls: type[Struct]) -> tuple[list[Field], list[Field], list[Field]]:
        """(fields in the body, fields that are tags, fields that this version lacks)."""
        fields = layout_of(cls).fields
        tags = [field for field in fields if self.is_flexible and self.version in field.tagged]
        body = [field for field in fields if self.version in field.versions and self.version not in field.tagged]
        absent = [field for field in fields if field not in body and field not in tags]
        return body, sorted(tags, key=lambda field: field.tag or 0), absent

    def compile(self, head: str) -> Any:
        text = head + "\n" + "\n".join(self.lines) + "\n"
        exec(compile(text, f"<{self.cls.__name__} v{self.version}>", "exec"), self.names)
        return self.names["run"]


Run = tuple[list[Field], Field | None]
"""Neighbours of fixed size, and the field of another kind that follows them; None at the end of the struct."""


def runs(fields: list[Field]) -> list[Run]:
    found: list[Run] = []
    fixed: list[Field] = []
    for field in fields:
        if is_fixed(field):
            fixed.append(field)
        else:
            found.append((fixed, field))
            fixed = []
    found.append((fixed, None))
    return found


def is_fixed(field: Field) -> bool:
    return not field.is_array and isinstance(field.kind, Kind) and field.kind.is_fixed


def codes(fields: list[Field]) -> str:
    """The `struct` codes of fields of fixed size."""
    return "".join(field.kind.value for field in fields if isinstance(field.kind, Kind))


@cache
def packed(codes: str) -> struct.Struct:
    """Shared by all codecs, so that equal runs of fields are one object."""
    return struct.Struct(">" + codes)
