"""Zigzag varints, the integers inside records: 0, -1, 1, -2 become 0, 1, 2, 3, seven bits to a byte, lowest first."""

from __future__ import annotations

from penstock.types import Bytes
from penstock.wire.records import corrupt

MAX_VARINT_BYTES = 10
"""Enough for 64 bits."""


def read_varint(buf: Bytes, pos: int, end: int) -> tuple[int, int]:
    """The number at `pos` and the position behind it; CORRUPT_MESSAGE when it does not end before `end` or 64 bits."""
    raw = shift = 0
    for at in range(pos, min(end, pos + MAX_VARINT_BYTES)):
        byte = buf[at]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> 64:
                break
            return (raw >> 1) ^ -(raw & 1), at + 1
        shift += 7
    raise corrupt("A number in a record is cut or has more than 64 bits.")


def append_varint(out: bytearray, value: int) -> None:
    assert -(1 << 63) <= value < 1 << 63, "varints have 64 bits"
    raw = (value << 1) ^ (value >> 63)
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
