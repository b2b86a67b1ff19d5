"""Record batches for the tests of the log, built by hand: uncompressed, with the fields a test wants to be wrong."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.wire.crc32c import crc32c
from penstock.wire.records import CRC, CRC_AT, HEADER, LOG_OVERHEAD

NOW_MS = 1_700_000_000_000


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def record(delta: int, value: bytes, key: bytes | None = b"k", timestamp_delta: int = 0) -> bytes:
    key_part = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(timestamp_delta) + varint(delta) + key_part + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(
    values: Sequence[bytes] = (b"v",),
    *,
    timestamp: int = NOW_MS,
    timestamps: Sequence[int] | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    key: bytes | None = b"k",
    offset: int = 0,
    epoch: int = -1,
    attributes: int = 0,
    magic: int = 2,
    count: int | None = None,
    last_delta: int | None = None,
) -> bytearray:
    """One batch with these values; `producer` is (id, epoch, base sequence)."""
    times = list(timestamps) if timestamps is not None else [timestamp] * len(values)
    body = b"".join(record(i, v, key, t - times[0]) for i, (v, t) in enumerate(zip(values, times, strict=True)))
    last = len(values) - 1 if last_delta is None else last_delta
    total = len(values) if count is None else count
    length = HEADER.size - LOG_OVERHEAD + len(body)
    header = HEADER.pack(offset, length, epoch, magic, 0, attributes, last, times[0], max(times), *producer, total)
    data = bytearray(header + body)
    CRC.pack_into(data, CRC_AT, crc32c(memoryview(data)[21:]))
    return data
