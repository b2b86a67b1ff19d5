"""The few pieces that Kafka's messages are made of and that a codec calls instead of spelling out.

An unsigned varint carries seven bits a byte, lowest first, the high bit says that more follow; lengths in flexible
versions are such a varint of the length plus one, zero meaning null. A tag section is a count, then for each tag its
number, its size and its bytes, ascending.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from penstock.errors import MalformedError
from penstock.types import Bytes

MAX_VARINT_BYTES = 5
"""Enough for 32 bits; a longer one is hostile."""

MAX_STRING_BYTES = 32_767
"""What fits in the length of a plain string; Kafka holds flexible ones to it too."""


def read_uvarint_tail(buf: Bytes, pos: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte (already taken, high bit set) is `first`: (value, position after it)."""
    second = buf[pos]
    pos += 1
    if second < 0x80:  # most lengths beyond 127 take two bytes
        return first & 0x7F | second << 7, pos
    value = first & 0x7F | (second & 0x7F) << 7
    shift = 14
    while shift < 7 * MAX_VARINT_BYTES:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                raise MalformedError("a varint is larger than 32 bits")
            return value, pos
        shift += 7
    raise MalformedError("a varint has more than five bytes")


def read_string_tail(buf: Bytes, pos: int, first: int) -> tuple[int, int]:
    """The same for the length of a string."""
    value, pos = read_uvarint_tail(buf, pos, first)
    if value - 1 > MAX_STRING_BYTES:
        raise MalformedError(f"a string declares {value - 1} bytes; it may have {MAX_STRING_BYTES}")
    return value, pos


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


def read_tags(buf: Bytes, pos: int, count: int, budget: int, what: str) -> tuple[dict[int, bytes] | None, int, int]:
    """A tag section of which no tag is known; the first byte of its count is taken. (tags, position, budget left)."""
    if count > 127:
        count, pos = read_uvarint_tail(buf, pos, count)
    if count * 2 > len(buf) - pos:
        raise_count(what, count)
    if count > budget:
        raise_budget(what)
    tags: dict[int, bytes] = {}
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        stop = pos + size
        if stop > len(buf):
            raise_short(what)
        tags[tag] = bytes(buf[pos:stop])
        pos = stop
    return tags or None, pos, budget - count


def append_tags(out: bytearray, tags: Mapping[int, Bytes]) -> None:
    """A tag section: known tags that differ from their default, and unknown ones kept from decoding."""
    append_uvarint(out, len(tags))
    for tag in sorted(tags):
        append_uvarint(out, tag)
        append_uvarint(out, len(tags[tag]))
        out += tags[tag]


def raise_short(what: str) -> NoReturn:
    raise MalformedError(f"{what} does not end where the message says")


def raise_null(what: str) -> NoReturn:
    raise MalformedError(f"{what} must not be null")


def raise_count(what: str, count: int) -> NoReturn:
    raise MalformedError(f"{what} declares {count} elements, more than the message can hold")


def raise_budget(what: str) -> NoReturn:
    raise MalformedError(f"the message holds too many objects (at {what})")
