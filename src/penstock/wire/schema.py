"""How a message is declared: a class of named fields, each with its type and the versions that carry it.

    @struct
    class Topic(Struct):
        name: str = string("0-12")
        topic_id: bytes = uuid("13+")

    @message("0-13", flexible="9+")
    class ExampleRequest(Struct):
        timeout_ms: int = int32()
        topics: list[Topic] = array(Topic)
        cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None)

Versions read as in Kafka's own definitions: "3+", "0-12", "5". A flexible version has compact lengths and a tag section
at the end of every struct. `compile` turns a declaration into an encoder and a decoder per version at first use.

Rules:
- every field has a default, so a message is made by naming only what matters;
- a field that a version does not carry is skipped by the encoder and has its default after decoding;
- a tagged struct is None when it is absent; unknown tags are kept in `unknown_tags` and written back;
- `records` are never copied: decoded they are a view of the received bytes, and an encoder takes bytes or anything with
  a `size` (a slice of a file), which it leaves to the sender (see `frame`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

LATEST = 32_767
"""The open end of "3+"."""


@dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions; empty when low > high."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))


NO_VERSIONS = Versions(1, 0)


def versions(text: str) -> Versions:
    """Kafka's notation: "3+", "0-12", "7", "none"."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), LATEST)
    low, _, high = text.partition("-")
    return Versions(int(low), int(high or low))


class Kind(enum.Enum):
    """A primitive type; the value is its `struct` code, or None when its size varies."""

    BOOL = "?"
    INT8 = "b"
    INT16 = "h"
    INT32 = "i"
    INT64 = "q"
    UINT16 = "H"
    UINT32 = "I"
    FLOAT64 = "d"
    UUID = "16s"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"

    @property
    def is_fixed(self) -> bool:
        return self not in (Kind.STRING, Kind.BYTES, Kind.RECORDS)


class Struct:
    """What every message and every part of one is."""

    __slots__: tuple[str, ...] = ()

    unknown_tags: dict[int, bytes] | None

    def __init__(self, *values: Any, **fields: Any) -> None:
        """Replaced by `struct` with one that takes the fields by name or in their order."""
        raise TypeError(f"{type(self).__name__} is not declared with @struct or @message")


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field. `kind` is a primitive or a struct class; `is_array` makes it a list of those."""

    name: str
    kind: Kind | type[Struct]
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: Any
    ignorable: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """What `compile` reads: a class's fields and, for a whole message, its versions."""

    fields: tuple[Field, ...]
    versions: Versions
    flexible: Versions


_EMPTY = object()
"""Default of a plain array: a new list each time."""

S = TypeVar("S", bound=type[Struct])
_layouts: dict[type[Struct], Layout] = {}


def layout_of(cls: type[Struct]) -> Layout:
    return _layouts[cls]


def message(versions_: str, *, flexible: str = "none") -> Callable[[S], S]:
    """Declare a whole message with the versions it has had."""

    def declare(cls: S) -> S:
        return _declare(cls, versions(versions_), versions(flexible))

    return declare


def struct(cls: S) -> S:
    """Declare a part of a message."""
    return _declare(cls, Versions(0, LATEST), NO_VERSIONS)


def _declare(cls: S, versions_: Versions, flexible: Versions) -> S:
    fields = tuple(
        Field(name=name, **vars(cls)[name].__dict__)
        for name in cls.__annotations__
        if isinstance(vars(cls).get(name), _Declared)
    )
    names = [field.name for field in fields]
    body = {key: value for key, value in vars(cls).items() if key not in (*names, "__dict__", "__weakref__")}
    body["__slots__"] = (*names, "unknown_tags")
    body["__init__"] = _first_init(fields)
    body["__eq__"] = _equals
    body["__repr__"] = _show
    body["__hash__"] = None
    made: S = type(cls.__name__, cls.__bases__, body)  # type: ignore[assignment]
    _layouts[made] = Layout(fields, versions_, flexible)
    return made


def _first_init(fields: tuple[Field, ...]) -> Any:
    """Writes the class's own `__init__` when the first one is made: most of what is declared is never made."""

    def __init__(self: Struct, *args: Any, **values: Any) -> None:  # noqa: N807
        cls = type(self)
        cls.__init__ = _make_init(fields)  # type: ignore[method-assign]
        cls.__init__(self, *args, **values)

    return __init__


def _make_init(fields: tuple[Field, ...]) -> Any:
    """`def __init__(self, a=..., b=EMPTY, unknown_tags=None)`, written out so that it costs no more than by hand."""
    namespace: dict[str, Any] = {"EMPTY": _EMPTY}
    parameters, lines = ["self"], []
    for field in fields:
        namespace[f"d_{field.name}"] = field.default
        value = field.name
        if field.default is _EMPTY:
            value = f"[] if {field.name} is EMPTY else {field.name}"
        elif isinstance(field.default, type):
            value = f"d_{field.name}() if {field.name} is d_{field.name} else {field.name}"
        parameters.append(f"{field.name}=d_{field.name}")
        lines.append(f"    self.{field.name} = {value}")
    lines.append("    self.unknown_tags = unknown_tags")
    exec(f"def __init__({', '.join(parameters)}, unknown_tags=None):\n" + "\n".join(lines), namespace)
    return namespace["__init__"]


def _equals(self: Struct, other: object) -> bool:
    if type(other) is not type(self):
        return False
    return all(getattr(self, name) == getattr(other, name) for name in type(self).__slots__)


def _show(self: Struct) -> str:
    parts = (f"{name}={_shorten(getattr(self, name))}" for name in type(self).__slots__ if name != "unknown_tags")
    return f"{type(self).__name__}({', '.join(parts)})"


def _shorten(value: object) -> str:
    if isinstance(value, bytes | bytearray | memoryview) and len(value) > 32:
        return f"<{len(value)} bytes>"
    return repr(value)


class _Declared:
    """A field before it knows its name."""

    def __init__(
        self,
        kind: Kind | type[Struct],
        versions_: str,
        nullable: str,
        tag: int | None,
        tagged: str | None,
        default: Any,
        ignorable: bool,
        is_array: bool = False,
    ) -> None:
        self.kind = kind
        self.is_array = is_array
        self.versions = versions(versions_)
        self.nullable = versions(nullable)
        self.tag = tag
        self.tagged = NO_VERSIONS if tag is None else versions(tagged or versions_)
        self.default = default
        self.ignorable = ignorable


def _primitive(kind: Kind, zero: Any) -> Callable[..., Any]:
    def declare(
        versions_: str = "0+",
        *,
        nullable: str = "none",
        tag: int | None = None,
        tagged: str | None = None,
        default: Any = zero,
        ignorable: bool = False,
    ) -> Any:
        return _Declared(kind, versions_, nullable, tag, tagged, default, ignorable)

    declare.__name__ = kind.name.lower()
    return declare


boolean = _primitive(Kind.BOOL, False)
int8 = _primitive(Kind.INT8, 0)
int16 = _primitive(Kind.INT16, 0)
int32 = _primitive(Kind.INT32, 0)
int64 = _primitive(Kind.INT64, 0)
uint16 = _primitive(Kind.UINT16, 0)
uint32 = _primitive(Kind.UINT32, 0)
float64 = _primitive(Kind.FLOAT64, 0.0)
string = _primitive(Kind.STRING, "")
uuid = _primitive(Kind.UUID, bytes(16))
binary = _primitive(Kind.BYTES, b"")
records = _primitive(Kind.RECORDS, None)


def array(
    element: Kind | type[Struct],
    versions_: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    default: Any = _EMPTY,
    ignorable: bool = False,
) -> Any:
    """A list of primitives or structs; `default=None` where Kafka's default is null."""
    return _Declared(element, versions_, nullable, tag, tagged, default, ignorable, is_array=True)


def nested(
    cls: type[Struct],
    versions_: str = "0+",
    *,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
) -> Any:
    """One struct inside another. Tagged or nullable, its default is None: absent."""
    optional = tag is not None or nullable != "none"
    return _Declared(cls, versions_, nullable, tag, tagged, None if optional else cls, ignorable)
