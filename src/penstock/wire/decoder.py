"""Writes the decoder of one version of one message.

The decoder is flat: nested structs are loops inside it, objects are filled slot by slot, and fields of fixed size are
read together with the length that follows them in one `struct` call. That is several times faster than a walk over the
declaration, and the broker decodes every request with it.

What a hostile message can make it do is bounded: an array's count is checked against the bytes that remain divided by
the least size of an element, every array spends from one budget of objects, nothing is allocated from a declared
length before the bytes are known to be there. Anything wrong is a `MalformedError`.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

from penstock.errors import MalformedError
from penstock.wire import primitives
from penstock.wire.schema import NO_VERSIONS, Field, Kind, Struct, layout_of
from penstock.wire.source import Source, codes, is_fixed, packed, runs

_NAMES = {
    "uvarint_tail": primitives.read_uvarint_tail,
    "string_tail": primitives.read_string_tail,
    "read_tags": primitives.read_tags,
    "short": primitives.raise_short,
    "null": primitives.raise_null,
    "count": primitives.raise_count,
    "spent": primitives.raise_budget,
    "unpack_from": struct.unpack_from,
    "new": object.__new__,
    "Malformed": MalformedError,
    "BAD": (IndexError, struct.error, UnicodeDecodeError),
}

_PIECES = {
    Kind.STRING: "str(buf[pos:stop], 'utf-8')",
    Kind.BYTES: "bytes(buf[pos:stop])",
    Kind.RECORDS: "buf[pos:stop]",
}


class Decoder(Source):
    """`build` returns run(buf, pos, budget) -> (message, position after it)."""

    def build(self) -> Any:
        self.names.update(_NAMES)
        self.add(1, "end = len(buf)")
        self.add(1, "try:")
        self.struct(2, self.cls, "message")
        self.add(2, "return message, pos")
        self.add(1, "except BAD as error:")
        self.add(2, f"raise Malformed('{self.cls.__name__} v{self.version}: ' + str(error)) from None")
        return self.compile("def run(buf, pos, budget):")

    def struct(self, depth: int, cls: type[Struct], target: str) -> None:
        """Lines that leave a filled `cls` in the variable `target`."""
        body, tags, absent = self.carried(cls)
        self.add(depth, f"{target} = new({self.bind('T', cls)})")
        for unread in (*absent, *tags):
            self.add(depth, f"{target}.{unread.name} = {self.default(unread)}")
        self.add(depth, f"{target}.unknown_tags = None")
        for fixed, field in runs(body):
            places = [f"{target}.{one.name}" for one in fixed]
            if field is not None:
                what = f"{cls.__name__}.{field.name}"
                self.value(depth, field, f"{target}.{field.name}", what, codes(fixed), places)
            elif self.is_flexible:
                self.tags(depth, cls, tags, target, codes(fixed), places)
            else:
                self.unpack(depth, codes(fixed), places)

    def default(self, field: Field) -> str:
        if isinstance(field.default, type):
            return f"{self.bind('T', field.default)}()"
        if field.default is None or isinstance(field.default, bool | int | float | str | bytes):
            return repr(field.default)
        return "[]"

    def unpack(self, depth: int, codes: str, places: list[str]) -> None:
        """Lines that fill the places with what `codes` stand for."""
        if codes == "B":
            self.add(depth, f"{places[0]} = buf[pos]")
            self.add(depth, "pos += 1")
        elif codes:
            layout = packed(codes)
            method = self.bind("unpack", layout.unpack_from)
            self.add(depth, f"{', '.join(places)}{',' * (len(places) == 1)} = {method}(buf, pos)")
            self.add(depth, f"pos += {layout.size}")

    def value(self, depth: int, field: Field, target: str, what: str, codes: str, places: list[str]) -> None:
        """Lines that fill the places, which stand before the field, and then the field."""
        nullable = self.version in field.nullable
        if field.is_array:
            self.array(depth, field, nullable, target, what, codes, places)
        elif not isinstance(field.kind, Kind):
            self.nested(depth, field.kind, nullable, target, codes, places)
        elif field.kind.is_fixed:
            self.unpack(depth, codes + field.kind.value, [*places, target])
        else:
            self.sized(depth, field.kind, nullable, target, what, codes, places)

    def length(self, depth: int, kind: Kind | None, number: str, codes: str, places: list[str]) -> None:
        """Lines that fill the places and leave a length in `number`, negative for null."""
        if self.is_flexible:
            tail = "string_tail" if kind is Kind.STRING else "uvarint_tail"
            self.unpack(depth, codes + "B", [*places, number])
            self.add(depth, f"if {number} > 127:")
            if kind is Kind.RECORDS:  # two bytes hold most lengths of a batch, and a call costs more than both
                self.add(depth + 1, "more = buf[pos]")
                self.add(depth + 1, f"if more < 128: {number} += (more << 7) - 128; pos += 1")
                self.add(depth + 1, f"else: {number}, pos = {tail}(buf, pos, {number})")
            else:
                self.add(depth + 1, f"{number}, pos = {tail}(buf, pos, {number})")
            self.add(depth, f"{number} -= 1")
        else:
            self.unpack(depth, codes + ("h" if kind is Kind.STRING else "i"), [*places, number])

    def sized(
        self, depth: int, kind: Kind, nullable: bool, target: str, what: str, codes: str, places: list[str]
    ) -> None:
        self.length(depth, kind, "n", codes, places)
        self.add(depth, "if n < 0:")
        self.add(depth + 1, f"{target} = None" if nullable else f"null({what!r})")
        self.add(depth, "else:")
        self.add(depth + 1, "stop = pos + n")
        self.add(depth + 1, f"if stop > end: short({what!r})")
        self.add(depth + 1, f"{target} = {_PIECES[kind]}")
        self.add(depth + 1, "pos = stop")

    def array(
        self, depth: int, field: Field, nullable: bool, target: str, what: str, codes: str, places: list[str]
    ) -> None:
        element = replace(field, is_array=False, nullable=NO_VERSIONS)
        least = max(1, least_size(element, self.version, self.is_flexible))
        number = self.fresh("n")
        self.length(depth, None, number, codes, places)
        self.add(depth, f"if {number} < 0:")
        self.add(depth + 1, f"{target} = None" if nullable else f"null({what!r})")
        self.add(depth, "else:")
        self.add(depth + 1, f"if {number} * {least} > end - pos: count({what!r}, {number})")
        self.add(depth + 1, f"budget -= {number}")
        self.add(depth + 1, f"if budget < 0: spent({what!r})")
        if is_fixed(element) and field.kind is not Kind.UUID:
            assert isinstance(field.kind, Kind)
            self.add(depth + 1, f"{target} = list(unpack_from(f'>{{{number}}}{field.kind.value}', buf, pos))")
            self.add(depth + 1, f"pos += {number} * {least}")
        else:
            self.elements(depth + 1, element, number, target, what)

    def elements(self, depth: int, element: Field, number: str, target: str, what: str) -> None:
        items, item = self.fresh("items"), self.fresh("item")
        self.add(depth, f"{target} = {items} = []")
        self.add(depth, f"for _ in range({number}):")
        if isinstance(element.kind, Kind):
            self.value(depth + 1, element, item, what, "", [])
        else:
            self.struct(depth + 1, element.kind, item)
        self.add(depth + 1, f"{items}.append({item})")

    def nested(self, depth: int, cls: type[Struct], nullable: bool, target: str, codes: str, places: list[str]) -> None:
        part = self.fresh("part")
        if not nullable:
            self.unpack(depth, codes, places)
            self.struct(depth, cls, part)
            self.add(depth, f"{target} = {part}")
            return
        self.unpack(depth, codes + "b", [*places, "present"])
        self.add(depth, "if present < 0:")
        self.add(depth + 1, f"{target} = None")
        self.add(depth, "else:")
        self.struct(depth + 1, cls, part)
        self.add(depth + 1, f"{target} = {part}")

    def tags(
        self, depth: int, cls: type[Struct], tags: list[Field], target: str, codes: str, places: list[str]
    ) -> None:
        """Lines that fill the places and read the tags at the end of a struct."""
        number, what = self.fresh("n"), f"the tags of {cls.__name__}"
        self.unpack(depth, codes + "B", [*places, number])
        self.add(depth, f"if {number}:")
        if not tags:
            read = f"read_tags(buf, pos, {number}, budget, {what!r})"
            self.add(depth + 1, f"{target}.unknown_tags, pos, budget = {read}")
            return
        tag, stop = self.fresh("tag"), self.fresh("stop")
        self.add(depth + 1, f"if {number} > 127: {number}, pos = uvarint_tail(buf, pos, {number})")
        self.add(depth + 1, f"if {number} * 2 > end - pos: count({what!r}, {number})")
        self.add(depth + 1, f"budget -= {number}")
        self.add(depth + 1, f"if budget < 0: spent({what!r})")
        self.add(depth + 1, f"for _ in range({number}):")
        for name in (tag, "n"):
            self.unpack(depth + 2, "B", [name])
            self.add(depth + 2, f"if {name} > 127: {name}, pos = uvarint_tail(buf, pos, {name})")
        self.add(depth + 2, f"{stop} = pos + n")
        self.add(depth + 2, f"if {stop} > end: short({what!r})")
        self.known_tags(depth + 2, cls, tags, target, tag, stop)

    def known_tags(self, depth: int, cls: type[Struct], tags: list[Field], target: str, tag: str, stop: str) -> None:
        word = "if"
        for field in tags:
            what = f"{cls.__name__}.{field.name}"
            self.add(depth, f"{word} {tag} == {field.tag}:")
            self.value(depth + 1, field, f"{target}.{field.name}", what, "", [])
            self.add(depth + 1, f"if pos != {stop}: short({what!r})")
            word = "elif"
        self.add(depth, "else:")
        self.add(depth + 1, f"if {target}.unknown_tags is None: {target}.unknown_tags = {{}}")
        self.add(depth + 1, f"{target}.unknown_tags[{tag}] = bytes(buf[pos:{stop}])")
        self.add(depth + 1, f"pos = {stop}")


def least_size(field: Field, version: int, is_flexible: bool) -> int:
    """The fewest bytes that the field's value can take."""
    if field.is_array or field.kind in (Kind.STRING, Kind.BYTES, Kind.RECORDS):
        if is_flexible:
            return 1
        return 2 if field.kind is Kind.STRING and not field.is_array else 4
    if isinstance(field.kind, Kind):
        return packed(field.kind.value).size
    return 1 if version in field.nullable else least_struct_size(field.kind, version, is_flexible)


def least_struct_size(cls: type[Struct], version: int, is_flexible: bool) -> int:
    plain = (field for field in layout_of(cls).fields if version in field.versions and version not in field.tagged)
    return sum(least_size(field, version, is_flexible) for field in plain) + is_flexible
