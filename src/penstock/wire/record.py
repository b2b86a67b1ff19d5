"""One record inside a batch: reading the records of a batch one by one, as plain Python objects.

Bytes of a record, lengths and deltas as zigzag varints:

    length, attributes (int8, unused), timestamp delta, offset delta,
    key size or -1, key, value size or -1, value, header count, then per header: key size, key, value size or -1, value

For the few records that the broker itself must understand (offsets of groups, transactions, markers), for validation
and for tools. Many records go through `columns.py`. Nothing is allocated for a count that a batch merely declares, and
the output of a codec is bounded. What is wrong is CORRUPT_MESSAGE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.types import Bytes
from penstock.wire.compression import decompress
from penstock.wire.records import HEADER_SIZE, BatchHeader, Codec, TimestampType, batch_size, corrupt, read_header
from penstock.wire.varint import read_varint

DEFAULT_LIMIT = 16 << 20
"""What the records of a compressed batch may grow to: 16 times Kafka's default for `message.max.bytes`."""

MAX_INT64 = 0x7FFFFFFFFFFFFFFF
MIN_RECORD_SIZE = 7
MIN_HEADER_SIZE = 2

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record with its offset and timestamp in full."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iterate_records(buf: Bytes, pos: int = 0, limit: int = DEFAULT_LIMIT) -> Iterator[Record]:
    """The records of the batch at `pos`, control records too; its checksum is not looked at (see `check_batch`)."""
    size = batch_size(buf, pos, len(buf))
    if size is None or pos + size > len(buf):
        raise corrupt("A batch is cut.")
    header = read_header(buf, pos)
    return _iterate(header, record_section(buf, pos, header, limit))


def record_section(buf: Bytes, pos: int, header: BatchHeader, limit: int) -> memoryview:
    """The bytes of a whole batch's records, decompressed; `limit` is for what a codec makes of them.

    Whoever reads these can trust the header's offsets and count to be possible.
    """
    section = memoryview(buf)[pos + HEADER_SIZE : pos + header.size_bytes]
    codec = header.compression
    if codec is not Codec.NONE:
        section = memoryview(decompress(codec, section, limit))
    if header.base_offset < 0 or header.last_offset_delta < 0 or header.last_offset > MAX_INT64:
        raise corrupt(f"A batch cannot go from offset {header.base_offset} by {header.last_offset_delta}.")
    if not 0 <= header.record_count <= len(section) // MIN_RECORD_SIZE:
        raise corrupt(f"{len(section)} bytes cannot hold {header.record_count} records.")
    return section


def _iterate(header: BatchHeader, section: memoryview) -> Iterator[Record]:
    pos, end = 0, len(section)
    for _ in range(header.record_count):
        record, pos = _read_record(section, pos, end, header)
        yield record
    if pos != end:
        raise corrupt(f"{end - pos} bytes are left behind the last record of a batch.")


def _read_record(buf: memoryview, pos: int, end: int, header: BatchHeader) -> tuple[Record, int]:
    size, pos = read_varint(buf, pos, end)
    if not MIN_RECORD_SIZE - 1 <= size <= end - pos:
        raise corrupt(f"A record of {size} bytes does not fit its batch.")
    end = pos + size
    timestamp_delta, pos = read_varint(buf, pos + 1, end)
    timestamp = header.base_timestamp + timestamp_delta
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    if not -MAX_INT64 - 1 <= timestamp <= MAX_INT64:
        raise corrupt(f"A record's timestamp {timestamp} is out of range.")
    offset_delta, pos = read_varint(buf, pos, end)
    if not 0 <= offset_delta <= header.last_offset_delta:
        raise corrupt(f"A record's offset delta of {offset_delta} is not in its batch.")
    key, pos = _read_bytes(buf, pos, end)
    value, pos = _read_bytes(buf, pos, end)
    headers, pos = _read_headers(buf, pos, end)
    if pos != end:
        raise corrupt(f"A record has {end - pos} bytes too many.")
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _read_bytes(buf: memoryview, pos: int, end: int) -> tuple[bytes | None, int]:
    size, pos = read_varint(buf, pos, end)
    if size == -1:
        return None, pos
    if not 0 <= size <= end - pos:
        raise corrupt(f"A field of {size} bytes does not fit its record.")
    return bytes(buf[pos : pos + size]), pos + size


def _read_headers(buf: memoryview, pos: int, end: int) -> tuple[Headers, int]:
    count, pos = read_varint(buf, pos, end)
    if not 0 <= count <= (end - pos) // MIN_HEADER_SIZE:
        raise corrupt(f"A record cannot have {count} headers.")
    if count == 0:
        return (), pos
    headers = []
    for _ in range(count):
        key, pos = _read_bytes(buf, pos, end)
        value, pos = _read_bytes(buf, pos, end)
        if key is None:
            raise corrupt("A header's key is null.")
        headers.append((header_key(key), value))
    return tuple(headers), pos


def header_key(raw: Bytes) -> str:
    """Kafka's clients read what is not UTF-8 with replacement characters, so such a record can still be consumed."""
    return str(raw, "utf-8", "replace")
