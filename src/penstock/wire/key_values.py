"""A record batch of keys and values and nothing else, built fast: for the topics that the broker itself writes.

All records have the batch's timestamp, there are no headers and no compression. Offsets begin at `base_offset`: at
the log's end when the log itself builds the batch, at 0 when it is to assign them. `batch_builder` builds everything
else; a test holds the two to the same bytes. A batch may be part of a producer's transaction; its sequence is 0 then,
as in Kafka, and nobody looks at it: the broker sends nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from penstock.wire.crc32c import crc32c
from penstock.wire.records import (
    ATTRIBUTES_AT,
    CRC,
    CRC_AT,
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

KeyValues = Sequence[tuple[bytes, bytes | None]]

_BLANK_HEADER = bytes(HEADER_SIZE)
_NO_HEADERS = b"\x00"
_NULL_TAIL = b"\x01" + _NO_HEADERS
MAX_REMEMBERED_HEADS = 4096
"""Of the first record in a batch, mostly the only one: the same keys are written again and again."""


def _varint(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


_SMALL = tuple(_varint(value) for value in range(1024))
"""Lengths and offset deltas are almost always small."""


def build_key_values(
    pairs: KeyValues,
    timestamp_ms: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The batch, to be appended by a leader. A value of None is a tombstone. With a producer it is transactional."""
    parts = [_BLANK_HEADER]
    last = -1
    for key, value in pairs:
        last += 1
        head = _head(last, key) if last else _first_head(key)
        tail = _NULL_TAIL if value is None else _varint_of(len(value)) + value + _NO_HEADERS
        parts += (_varint_of(len(head) + len(tail)), head, tail)
    batch = bytearray().join(parts)
    attributes = 0 if producer_id == NO_PRODUCER_ID else TRANSACTIONAL_BIT
    HEADER.pack_into(
        batch, 0, base_offset, len(batch) - LOG_OVERHEAD, leader_epoch, MAGIC, 0, attributes, last, timestamp_ms,
        timestamp_ms, producer_id, producer_epoch, 0 if attributes else NO_SEQUENCE, last + 1,
    )  # fmt: skip
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return batch


def _head(number: int, key: bytes) -> bytes:
    """What stands before a record's value: attributes and a timestamp delta of 0, its offset delta, its key."""
    return b"".join((b"\x00\x00", _varint_of(number), _varint_of(len(key)), key))


@lru_cache(maxsize=MAX_REMEMBERED_HEADS)
def _first_head(key: bytes) -> bytes:
    return _head(0, key)


def _varint_of(value: int) -> bytes:
    return _SMALL[value] if value < 1024 else _varint(value)
