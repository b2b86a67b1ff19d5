"""A record batch of keys and values and nothing else, built fast: for the topics that the broker itself writes.

All records have the batch's timestamp, there are no headers and no compression, and offsets begin at 0 until the log
assigns them. `batch_builder` builds everything else; a test holds the two to the same bytes. A batch may be part of a
producer's transaction; its sequence is 0 then, as in Kafka, and nobody looks at it: the broker sends nothing twice.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from penstock.wire.crc32c import crc32c
from penstock.wire.records import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
)
from penstock.wire.varint import append_varint

CRC_AT = 17
_CRC = struct.Struct(">I")
_NO_HEADERS = b"\x00"
_NULL_VALUE = b"\x01"
_RECORD_HEAD = b"\x00\x00"
"""Attributes, and a timestamp delta of 0."""


def _varint(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


_SMALL = tuple(_varint(value) for value in range(1024))
"""Lengths and offset deltas are almost always small."""


def build_key_values(
    pairs: Sequence[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
) -> bytearray:
    """The batch, to be appended by a leader. A value of None is a tombstone. With a producer it is transactional."""
    parts = [bytes(HEADER_SIZE)]
    for delta, (key, value) in enumerate(pairs):
        head = (_RECORD_HEAD, _length(delta), _length(len(key)))
        tail = (_NULL_VALUE,) if value is None else (_length(len(value)), value)
        body = b"".join((*head, key, *tail, _NO_HEADERS))
        parts.append(_length(len(body)))
        parts.append(body)
    batch = bytearray().join(parts)
    last = len(pairs) - 1
    attributes = 0 if producer_id == NO_PRODUCER_ID else TRANSACTIONAL_BIT
    HEADER.pack_into(
        batch, 0, 0, len(batch) - LOG_OVERHEAD, NO_LEADER_EPOCH, MAGIC, 0, attributes, last, timestamp_ms, timestamp_ms,
        producer_id, producer_epoch, 0 if attributes else NO_SEQUENCE, last + 1,
    )  # fmt: skip
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return batch


def _length(value: int) -> bytes:
    return _SMALL[value] if value < 1024 else _varint(value)
