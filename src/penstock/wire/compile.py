"""From a declaration to an encoder and a decoder for one version, written out as Python source and compiled once.

The decoder is one flat function: nested structs are loops inside it, runs of fixed-size fields are one `struct` call,
objects are filled slot by slot. That is several times faster than a walk over the declaration, and the broker
decodes every request with it.

What a hostile message can make it do is bounded: an array's count is checked against the bytes that remain divided by
the least size of an element, every array spends from one budget of objects, nothing is allocated from a declared
length before the bytes are known to be there. Anything wrong is a `MalformedError`.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from penstock.errors import MalformedError
from penstock.types import Bytes
from penstock.wire import primitives
from penstock.wire.schema import Field, Kind, Struct, layout_of

REQUEST_OBJECT_BUDGET = 10_000
"""How many array elements and unknown tags one request may hold unless its handler says otherwise."""

RESPONSE_OBJECT_BUDGET = 10_000_000
"""The same for a response: the broker that sent it is trusted more, but not without end."""


class Codec(NamedTuple):
    """One version of one message."""

    encode: Callable[[Any, bytearray, list[tuple[int, Any]]], None]
    """(message, out, splices): appends to `out`; a `records` field that is not bytes is noted in `splices` as
    (position in `out`, value) and only its length is written."""
    decode: Callable[[Bytes, int, int], tuple[Any, int]]
    """(buffer that ends where the message does, position, object budget) -> (message, position after it)."""
    is_flexible: bool


_codecs: dict[tuple[type[Struct], int], Codec] = {}


def codec(cls: type[Struct], version: int) -> Codec:
    """The codec of a message's version, compiled at first use."""
    known = _codecs.get((cls, version))
    if known is None:
        known = _codecs[cls, version] = _compile(cls, version)
    return known


def _compile(cls: type[Struct], version: int) -> Codec:
    layout = layout_of(cls)
    if version not in layout.versions:
        raise ValueError(f"{cls.__name__} has no version {version}")
    is_flexible = version in layout.flexible
    return Codec(_Encoder(cls, version, is_flexible).build(), _Decoder(cls, version, is_flexible).build(), is_flexible)


def encode(message: Struct, version: int) -> bytearray:
    """A message as bytes, where no splices are expected."""
    out = bytearray()
    splices: list[tuple[int, Any]] = []
    codec(type(message), version).encode(message, out, splices)
    assert not splices, "a message with file slices is encoded by frame.encode_response"
    return out


def decode(cls: type[Struct], version: int, data: Bytes, budget: int = RESPONSE_OBJECT_BUDGET) -> Any:
    """A message from bytes; what follows it is ignored, as Kafka does."""
    return codec(cls, version).decode(data, 0, budget)[0]


def least_size(field: Field, version: int, is_flexible: bool) -> int:
    """The fewest bytes that the field's value can take."""
    if field.is_array or field.kind in (Kind.STRING, Kind.BYTES, Kind.RECORDS):
        if is_flexible:
            return 1
        return 2 if field.kind is Kind.STRING and not field.is_array else 4
    if isinstance(field.kind, Kind):
        return struct.calcsize(">" + field.kind.value)
    return 1 if version in field.nullable else least_struct_size(field.kind, version, is_flexible)


def least_struct_size(cls: type[Struct], version: int, is_flexible: bool) -> int:
    plain = (field for field in layout_of(cls).fields if version in field.versions and version not in field.tagged)
    return sum(least_size(field, version, is_flexible) for field in plain) + is_flexible


class _Source:
    """A function in the making: its lines, and the names that its text refers to."""

    def __init__(self, version: int, is_flexible: bool) -> None:
        self.version = version
        self.is_flexible = is_flexible
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "uvarint_tail": primitives.read_uvarint_tail,
            "put_uvarint": primitives.append_uvarint,
            "put_tags": primitives.append_tags,
            "short": primitives.raise_short,
            "null": primitives.raise_null,
            "count": primitives.raise_count,
            "spent": primitives.raise_budget,
            "unpack_from": struct.unpack_from,
            "pack": struct.pack,
            "new": object.__new__,
            "Malformed": MalformedError,
            "BAD": (IndexError, struct.error, UnicodeDecodeError),
            "BYTES": (bytes, bytearray, memoryview),
        }
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

    def fixed(self, codes: str) -> struct.Struct:
        return _struct(">" + codes)

    def carried(self, cls: type[Struct]) -> tuple[list[Field], list[Field], list[Field]]:
        """(fields in the body, fields that are tags, fields that this version lacks)."""
        fields = layout_of(cls).fields
        tags = [field for field in fields if self.is_flexible and self.version in field.tagged]
        body = [field for field in fields if self.version in field.versions and self.version not in field.tagged]
        absent = [field for field in fields if field not in body and field not in tags]
        return body, sorted(tags, key=lambda field: field.tag or 0), absent

    def compile(self, head: str, name: str) -> Any:
        text = head + "\n" + "\n".join(self.lines) + "\n"
        exec(compile(text, f"<{name} v{self.version}>", "exec"), self.names)
        return self.names["run"]


@cache
def _struct(codes: str) -> struct.Struct:
    return struct.Struct(codes)


def _runs(fields: list[Field]) -> list[list[Field]]:
    """Neighbours of fixed size together; every other field alone."""
    runs: list[list[Field]] = []
    for field in fields:
        if _is_fixed(field) and runs and _is_fixed(runs[-1][-1]):
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


def _is_fixed(field: Field) -> bool:
    return not field.is_array and isinstance(field.kind, Kind) and field.kind.is_fixed


def _codes(fields: list[Field]) -> str:
    return "".join(field.kind.value for field in fields if isinstance(field.kind, Kind))


class _Decoder(_Source):
    def __init__(self, cls: type[Struct], version: int, is_flexible: bool) -> None:
        super().__init__(version, is_flexible)
        self.cls = cls

    def build(self) -> Any:
        self.add(1, "end = len(buf)")
        self.add(1, "try:")
        self.struct(2, self.cls, "message")
        self.add(2, "return message, pos")
        self.add(1, "except BAD as error:")
        self.add(2, f"raise Malformed('{self.cls.__name__} v{self.version}: ' + str(error)) from None")
        return self.compile("def run(buf, pos, budget):", self.cls.__name__)

    def struct(self, depth: int, cls: type[Struct], target: str) -> None:
        """Lines that leave a filled `cls` in the variable `target`."""
        body, tags, absent = self.carried(cls)
        self.add(depth, f"{target} = new({self.bind('T', cls)})")
        for run in _runs(body):
            if _is_fixed(run[0]):
                self.fixed_run(depth, run, target)
            else:
                self.value(depth, run[0], f"{target}.{run[0].name}", f"{cls.__name__}.{run[0].name}")
        for field in (*absent, *tags):
            self.add(depth, f"{target}.{field.name} = {self.default(field)}")
        self.add(depth, f"{target}.unknown_tags = None")
        if self.is_flexible:
            self.tags(depth, cls, tags, target)

    def default(self, field: Field) -> str:
        if isinstance(field.default, type):
            return f"{self.bind('T', field.default)}()"
        if field.default is None or isinstance(field.default, bool | int | float | str | bytes):
            return repr(field.default)
        return "[]"

    def fixed_run(self, depth: int, run: list[Field], target: str) -> None:
        layout = self.fixed(_codes(run))
        unpack = self.bind("unpack", layout.unpack_from)
        targets = ", ".join(f"{target}.{field.name}" for field in run)
        self.add(depth, f"{targets}, = {unpack}(buf, pos)" if len(run) == 1 else f"{targets} = {unpack}(buf, pos)")
        self.add(depth, f"pos += {layout.size}")

    def value(self, depth: int, field: Field, target: str, what: str) -> None:
        if field.is_array:
            self.array(depth, field, target, what)
        elif not isinstance(field.kind, Kind):
            self.nested(depth, field, field.kind, target)
        elif field.kind.is_fixed:
            layout = self.fixed(field.kind.value)
            self.add(depth, f"{target}, = {self.bind('unpack', layout.unpack_from)}(buf, pos)")
            self.add(depth, f"pos += {layout.size}")
        else:
            self.sized(depth, field.kind, self.version in field.nullable, target, what)

    def length(self, depth: int, code: str, name: str) -> None:
        """Lines that leave a length in `name`, -1 for null."""
        if self.is_flexible:
            self.add(depth, f"{name} = buf[pos]")
            self.add(depth, "pos += 1")
            self.add(depth, f"if {name} > 127: {name}, pos = uvarint_tail(buf, pos, {name})")
            self.add(depth, f"{name} -= 1")
        else:
            layout = self.fixed(code)
            self.add(depth, f"{name}, = {self.bind('unpack', layout.unpack_from)}(buf, pos)")
            self.add(depth, f"pos += {layout.size}")

    def sized(self, depth: int, kind: Kind, nullable: bool, target: str, what: str) -> None:
        self.length(depth, "h" if kind is Kind.STRING else "i", "n")
        self.add(depth, "if n < 0:")
        null_allowed = nullable or kind is Kind.RECORDS
        self.add(depth + 1, f"{target} = None" if null_allowed else f"null({what!r})")
        self.add(depth, "else:")
        self.add(depth + 1, "stop = pos + n")
        self.add(depth + 1, f"if stop > end: short({what!r})")
        piece = {Kind.STRING: "str(buf[pos:stop], 'utf-8')", Kind.BYTES: "bytes(buf[pos:stop])"}
        self.add(depth + 1, f"{target} = {piece.get(kind, 'buf[pos:stop]')}")
        self.add(depth + 1, "pos = stop")

    def array(self, depth: int, field: Field, target: str, what: str) -> None:
        number, items = self.fresh("n"), self.fresh("items")
        self.length(depth, "i", number)
        self.add(depth, f"if {number} < 0:")
        self.add(depth + 1, f"{target} = None" if self.version in field.nullable else f"null({what!r})")
        self.add(depth, "else:")
        element = Field(
            field.name,
            field.kind,
            False,
            field.versions,
            field.nullable.__class__(1, 0),
            None,
            field.tagged,
            None,
            False,
        )
        least = max(1, least_size(element, self.version, self.is_flexible))
        self.add(depth + 1, f"if {number} * {least} > end - pos: count({what!r}, {number})")
        self.add(depth + 1, f"budget -= {number}")
        self.add(depth + 1, f"if budget < 0: spent({what!r})")
        if _is_fixed(element) and isinstance(field.kind, Kind) and field.kind is not Kind.UUID:
            self.add(depth + 1, f"{target} = list(unpack_from(f'>{{{number}}}{field.kind.value}', buf, pos))")
            self.add(depth + 1, f"pos += {number} * {least}")
            return
        self.add(depth + 1, f"{target} = {items} = []")
        self.add(depth + 1, f"for _ in range({number}):")
        item = self.fresh("item")
        if isinstance(field.kind, Kind):
            self.value(depth + 2, element, item, what)
        else:
            self.struct(depth + 2, field.kind, item)
        self.add(depth + 2, f"{items}.append({item})")

    def nested(self, depth: int, field: Field, cls: type[Struct], target: str) -> None:
        name = self.fresh("part")
        if self.version not in field.nullable:
            self.struct(depth, cls, name)
            self.add(depth, f"{target} = {name}")
            return
        self.add(depth, "present = buf[pos]")
        self.add(depth, "pos += 1")
        self.add(depth, "if present > 127:")
        self.add(depth + 1, f"{target} = None")
        self.add(depth, "else:")
        self.struct(depth + 1, cls, name)
        self.add(depth + 1, f"{target} = {name}")

    def tags(self, depth: int, cls: type[Struct], tags: list[Field], target: str) -> None:
        number, tag, stop = self.fresh("n"), self.fresh("tag"), self.fresh("stop")
        self.add(depth, f"{number} = buf[pos]")
        self.add(depth, "pos += 1")
        self.add(depth, f"if {number}:")
        inner = depth + 1
        what = f"the tags of {cls.__name__}"
        self.add(inner, f"if {number} > 127: {number}, pos = uvarint_tail(buf, pos, {number})")
        self.add(inner, f"if {number} * 2 > end - pos: count({what!r}, {number})")
        self.add(inner, f"budget -= {number}")
        self.add(inner, f"if budget < 0: spent({what!r})")
        self.add(inner, f"for _ in range({number}):")
        for name in (tag, "n"):
            self.add(inner + 1, f"{name} = buf[pos]")
            self.add(inner + 1, "pos += 1")
            self.add(inner + 1, f"if {name} > 127: {name}, pos = uvarint_tail(buf, pos, {name})")
        self.add(inner + 1, f"{stop} = pos + n")
        self.add(inner + 1, f"if {stop} > end: short({what!r})")
        word = "if"
        for field in tags:
            self.add(inner + 1, f"{word} {tag} == {field.tag}:")
            self.value(inner + 2, field, f"{target}.{field.name}", f"{cls.__name__}.{field.name}")
            self.add(inner + 2, f"if pos != {stop}: short({cls.__name__ + '.' + field.name!r})")
            word = "elif"
        self.add(inner + 1, "else:" if tags else "if True:")
        self.add(inner + 2, f"if {target}.unknown_tags is None: {target}.unknown_tags = {{}}")
        self.add(inner + 2, f"{target}.unknown_tags[{tag}] = bytes(buf[pos:{stop}])")
        self.add(inner + 2, f"pos = {stop}")


class _Encoder(_Source):
    def __init__(self, cls: type[Struct], version: int, is_flexible: bool) -> None:
        super().__init__(version, is_flexible)
        self.cls = cls

    def build(self) -> Any:
        self.struct(1, self.cls, "message", "out")
        return self.compile("def run(message, out, splices):", self.cls.__name__)

    def struct(self, depth: int, cls: type[Struct], source: str, out: str) -> None:
        body, tags, _ = self.carried(cls)
        for run in _runs(body):
            if _is_fixed(run[0]):
                packer = self.bind("pack", self.fixed(_codes(run)).pack)
                values = ", ".join(f"{source}.{field.name}" for field in run)
                self.add(depth, f"{out} += {packer}({values})")
            else:
                self.value(depth, run[0], f"{source}.{run[0].name}", out)
        if self.is_flexible:
            self.tags(depth, tags, source, out)
        elif not body:
            self.add(depth, "pass")

    def value(self, depth: int, field: Field, source: str, out: str) -> None:
        name = self.fresh("v")
        self.add(depth, f"{name} = {source}")
        if field.is_array:
            self.array(depth, field, name, out)
        elif not isinstance(field.kind, Kind):
            self.nested(depth, field, field.kind, name, out)
        elif field.kind.is_fixed:
            self.add(depth, f"{out} += {self.bind('pack', self.fixed(field.kind.value).pack)}({name})")
        else:
            self.sized(depth, field.kind, name, out)

    def length(self, depth: int, code: str, value: str, out: str) -> None:
        if self.is_flexible:
            self.add(depth, f"n = {value} + 1")
            self.add(depth, f"if n < 128: {out}.append(n)")
            self.add(depth, f"else: put_uvarint({out}, n)")
        else:
            self.add(depth, f"{out} += {self.bind('pack', self.fixed(code).pack)}({value})")

    def sized(self, depth: int, kind: Kind, name: str, out: str) -> None:
        code = "h" if kind is Kind.STRING else "i"
        self.add(depth, f"if {name} is None:")
        self.length(depth + 1, code, "-1", out)
        if kind is Kind.RECORDS:
            self.add(depth, f"elif not isinstance({name}, BYTES):")
            self.length(depth + 1, code, f"{name}.size", out)
            self.add(depth + 1, f"splices.append((len({out}), {name}))")
        self.add(depth, "else:")
        if kind is Kind.STRING:
            self.add(depth + 1, f"{name} = {name}.encode()")
        self.length(depth + 1, code, f"len({name})", out)
        self.add(depth + 1, f"{out} += {name}")

    def array(self, depth: int, field: Field, name: str, out: str) -> None:
        self.add(depth, f"if {name} is None:")
        self.length(depth + 1, "i", "-1", out)
        self.add(depth, "else:")
        self.length(depth + 1, "i", f"len({name})", out)
        kind = field.kind
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
            self.sized(depth + 2, kind, item, out)

    def nested(self, depth: int, field: Field, cls: type[Struct], name: str, out: str) -> None:
        if self.version not in field.nullable:
            if field.tag is None:
                self.add(depth, f"if {name} is None: {name} = {self.bind('T', cls)}()")
            self.struct(depth, cls, name, out)
            return
        self.add(depth, f"if {name} is None:")
        self.add(depth + 1, f"{out} += b'\\xff'")
        self.add(depth, "else:")
        self.add(depth + 1, f"{out} += b'\\x01'")
        self.struct(depth + 1, cls, name, out)

    def tags(self, depth: int, tags: list[Field], source: str, out: str) -> None:
        if not tags:
            self.add(depth, f"if {source}.unknown_tags: put_tags({out}, {source}.unknown_tags)")
            self.add(depth, f"else: {out}.append(0)")
            return
        found = self.fresh("found")
        self.add(depth, f"{found} = {source}.unknown_tags")
        for field in tags:
            value, body = f"{source}.{field.name}", self.fresh("tag")
            self.add(depth, f"if {self.differs(field, value)}:")
            self.add(depth + 1, f"{body} = bytearray()")
            self.value(depth + 1, field, value, body)
            self.add(depth + 1, f"{found} = {{**({found} or {{}}), {field.tag}: {body}}}")
        self.add(depth, f"if {found}: put_tags({out}, {found})")
        self.add(depth, f"else: {out}.append(0)")

    def differs(self, field: Field, value: str) -> str:
        """A tag is written only when its value is not the default."""
        if field.is_array and field.default is not None:
            return f"{value} is None or {value}"
        if field.default is None:
            return f"{value} is not None"
        return f"{value} != {field.default!r}"
