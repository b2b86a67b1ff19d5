"""The few pieces that Kafka's messages are made of and that the compiled codec calls instead of spelling out.

An unsigned varint carries seven bits a byte, lowest first, the high bit says that more follow; lengths in flexible
versions are such a varint of the length plus one, zero meaning null. A tag section is a count, then for each tag its
number, its size and its bytes, ascending.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import MalformedError
from penstock.types import Bytes

MAX_VARINT_BYTES = 5
"""Enough for 32 bits; a longer one is hostile."""


def read_uvarint_tail(buf: Bytes, pos: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte (already taken, high bit set) is `first`: (value, position after it)."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                raise MalformedError("a varint is larger than 32 bits")
            return value, pos
        shift += 7
        if shift >= 7 * MAX_VARINT_BYTES:
            raise MalformedError("a varint has more than five bytes")


def read_uvarint(buf: Bytes, pos: int) -> tuple[int, int]:
    first = buf[pos]
    if first < 0x80:
        return first, pos + 1
    return read_uvarint_tail(buf, pos + 1, first)


def append_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def append_tags(out: bytearray, tags: Mapping[int, Bytes]) -> None:
    """A tag section: known tags that differ from their default, and unknown ones kept from decoding."""
    append_uvarint(out, len(tags))
    for tag in sorted(tags):
        append_uvarint(out, tag)
        append_uvarint(out, len(tags[tag]))
        out += tags[tag]


def raise_short(what: str) -> None:
    raise MalformedError(f"{what} runs past the end of the message")


def raise_null(what: str) -> None:
    raise MalformedError(f"{what} must not be null")


def raise_count(what: str, count: int) -> None:
    raise MalformedError(f"{what} declares {count} elements, more than the message can hold")


def raise_budget(what: str) -> None:
    raise MalformedError(f"the message holds too many objects (at {what})")
