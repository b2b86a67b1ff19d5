"""The records that the group coordinator keeps in `__consumer_offsets`, one file for each kind of thing they describe.

A key is its record type (int16) and the type's key message; a value is its version (int16) and that version of the
type's value message. A null value (a tombstone) says that the thing is gone. A key of a type that this version does not
know is passed over, so that newer brokers can write to the same log.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from penstock.types import Bytes
from penstock.wire.compile import codec
from penstock.wire.schema import Struct, layout_of

INT16 = struct.Struct(">h")

VALUE_OBJECT_BUDGET = 1_000_000
"""How many members, protocols and partitions one record may hold."""


@dataclass(frozen=True, slots=True)
class RecordType:
    """One type of record: its number, its key and its value."""

    number: int
    key: type[Struct]
    value: type[Struct]

    def encode_key(self, key: Struct) -> bytes:
        return _encode(self.number, key, 0)

    def encode_value(self, value: Struct, version: int) -> bytes:
        return _encode(version, value, version)

    def decode_key(self, data: Bytes) -> Struct:
        """MalformedError when the bytes are not such a key."""
        key: Struct = codec(self.key, 0).decode(memoryview(data), INT16.size, VALUE_OBJECT_BUDGET)[0]
        return key

    def decode_value(self, data: Bytes) -> Struct:
        """A version newer than ours is read as ours: since KIP-915 versions only add tags."""
        (version,) = INT16.unpack_from(data)
        known = min(version, layout_of(self.value).versions.high)
        value: Struct = codec(self.value, known).decode(memoryview(data), INT16.size, VALUE_OBJECT_BUDGET)[0]
        return value


def record_type_number(key: Bytes) -> int:
    """Which type a key is of; -1 for bytes that are too few."""
    if len(key) < INT16.size:
        return -1
    number: int = INT16.unpack_from(key)[0]
    return number


def _encode(number: int, message: Struct, version: int) -> bytes:
    out = bytearray(INT16.pack(number))
    codec(type(message), version).encode(message, out, [])
    return bytes(out)
