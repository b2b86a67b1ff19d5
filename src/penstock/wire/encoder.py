"""Writes the encoder of one version of one message.

Fields of fixed size that stand together are packed in one `struct` call. A field that the version does not carry is
left out; null where the version has none is a ValueError, for the bytes would not be the message.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

from penstock.wire import primitives
from penstock.wire.schema import Field, Kind, Struct
from penstock.wire.source import Source, codes, packed, runs


def _raise_null(what: str) -> NoReturn:
    raise ValueError(f"{what} must not be null in this version")


_NAMES = {
    "put_uvarint": primitives.append_uvarint,
    "put_tags": primitives.append_tags,
    "null": _raise_null,
    "pack": struct.pack,
    "BYTES": (bytes, bytearray, memoryview),
}


class Encoder(Source):
    """`build` returns run(message, out, splices), which appends to `out` and notes slices of files in `splices`."""

    def build(self) -> Any:
        self.names.update(_NAMES)
        self.struct(1, self.cls, "message", "out")
        self.add(1, "return")
        return self.compile("def run(message, out, splices):")

    def struct(self, depth: int, cls: type[Struct], source: str, out: str) -> None:
        """Lines that append the struct in the variable `source` to `out`."""
        body, tags, _ = self.carried(cls)
        for fixed, field in runs(body):
            if fixed:
                method = self.bind("pack", packed(codes(fixed)).pack)
                values = ", ".join(f"{source}.{one.name}" for one in fixed)
                self.add(depth, f"{out} += {method}({values})")
            if field is not None:
                self.value(depth, field, f"{source}.{field.name}", out, f"{cls.__name__}.{field.name}")
        if self.is_flexible:
            self.tags(depth, cls, tags, source, out)
        elif not body:
            self.add(depth, "pass")

    def value(self, depth: int, field: Field, source: str, out: str, what: str) -> None:
        name, nullable = self.fresh("v"), self.version in field.nullable
        self.add(depth, f"{name} = {source}")
        if field.is_array:
            self.array(depth, field.kind, nullable, name, out, what)
        elif not isinstance(field.kind, Kind):
            self.nested(depth, field.kind, nullable, name, out, what)
        elif field.kind.is_fixed:
            self.add(depth, f"{out} += {self.bind('pack', packed(field.kind.value).pack)}({name})")
        else:
            self.sized(depth, field.kind, nullable, name, out, what)

    def null(self, depth: int, kind: Kind | None, nullable: bool, name: str, out: str, what: str) -> None:
        """Lines for a value that is None; what follows them is indented under `else`."""
        null = b"\x00" if self.is_flexible else packed(_length_code(kind)).pack(-1)
        self.add(depth, f"if {name} is None:")
        self.add(depth + 1, f"{out} += {null!r}" if nullable else f"null({what!r})")

    def length(self, depth: int, kind: Kind | None, value: str, out: str) -> None:
        if self.is_flexible:
            self.add(depth, f"n = {value} + 1")
            self.add(depth, f"if n < 128: {out}.append(n)")
            self.add(depth, f"else: put_uvarint({out}, n)")
        else:
            self.add(depth, f"{out} += {self.bind('pack', packed(_length_code(kind)).pack)}({value})")

    def sized(self, depth: int, kind: Kind, nullable: bool, name: str, out: str, what: str) -> None:
        self.null(depth, kind, nullable, name, out, what)
        if kind is Kind.RECORDS:
            self.add(depth, f"elif not isinstance({name}, BYTES):")
            self.length(depth + 1, kind, f"{name}.size", out)
            self.add(depth + 1, f"splices.append((len({out}), {name}))")
        self.add(depth, "else:")
        if kind is Kind.STRING:
            self.add(depth + 1, f"{name} = {name}.encode()")
        self.length(depth + 1, kind, f"len({name})", out)
        self.add(depth + 1, f"{out} += {name}")

    def array(self, depth: int, kind: Kind | type[Struct], nullable: bool, name: str, out: str, what: str) -> None:
        self.null(depth, None, nullable, name, out, what)
        self.add(depth, "else:")
        self.length(depth + 1, None, f"len({name})", out)
        if isinstance(kind, Kind) and kind.is_fixed and kind is not Kind.UUID:
            self.add(depth + 1, f"{out} += pack(f'>{{len({name})}}{kind.value}', *{name})")
            return
        item = self.fresh("item")
        self.add(depth + 1, f"for {item} in {name}:")
        if not isinstance(kind, Kind):
            self.struct(depth + 2, kind, item, out)
        elif kind is Kind.UUID:
            self.add(depth + 2, f"{out} += {item}")
        else:
            self.sized(depth + 2, kind, False, item, out, what)

    def nested(self, depth: int, cls: type[Struct], nullable: bool, name: str, out: str, what: str) -> None:
        self.add(depth, f"if {name} is None:")
        if not nullable:
            self.add(depth + 1, f"null({what!r})")
            self.struct(depth, cls, name, out)
            return
        self.add(depth + 1, f"{out}.append(255)")
        self.add(depth, "else:")
        self.add(depth + 1, f"{out}.append(1)")
        self.struct(depth + 1, cls, name, out)

    def tags(self, depth: int, cls: type[Struct], tags: list[Field], source: str, out: str) -> None:
        """Lines that append the tags that differ from their defaults, and the unknown ones."""
        found = f"{source}.unknown_tags"
        if tags:
            found = self.fresh("found")
            self.add(depth, f"{found} = {source}.unknown_tags")
        for field in tags:
            value, body = f"{source}.{field.name}", self.fresh("tag")
            self.add(depth, f"if {_differs(field, value)}:")
            self.add(depth + 1, f"{body} = bytearray()")
            self.value(depth + 1, field, value, body, f"{cls.__name__}.{field.name}")
            self.add(depth + 1, f"{found} = {{**({found} or {{}}), {field.tag}: {body}}}")
        self.add(depth, f"if {found}: put_tags({out}, {found})")
        self.add(depth, f"else: {out}.append(0)")


def _length_code(kind: Kind | None) -> str:
    return "h" if kind is Kind.STRING else "i"


def _differs(field: Field, value: str) -> str:
    """A tag is written only when its value is not the default."""
    if field.default is None:
        return f"{value} is not None"
    if field.is_array:
        return f"{value} is None or {value}"
    return f"{value} != {field.default!r}"
