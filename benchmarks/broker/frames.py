"""Requests that are encoded once and sent many times.

A frame is a whole request with its length. kafka-python encodes it (through `tests/raw.py`); what must differ from
request to request is patched in place: sequence and CRC of an idempotent producer's batch, the offset of a fetch.
Records are of about 1 KB, so a batch of 16 KB holds 16; every batch has exactly the size that is asked for.

    batch:  base_offset 8, length 4, leader_epoch 4, magic 1, crc 4 at 17, attributes 2 at 21 (the CRC begins here),
            ..., base_sequence 4 at 53, count 4 at 57, records
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

import raw

RECORD_BYTES = 1024
PRODUCE_VERSION = 10
"""What librdkafka sends."""
FETCH_VERSION = 11
"""The last one with lengths of fixed size, so that the answer's fields stand at known places."""
CRC_AT = 17
CRC_FROM = 21
SEQUENCE_AT = 53
OFFSET_MARK = 0x0123456789ABCDEF
NO_PRODUCER = raw.NO_PRODUCER


@dataclass(frozen=True, slots=True)
class Batch:
    """An encoded record batch and how many records it holds."""

    data: bytes
    records: int


def make_batch(size_bytes: int, producer: tuple[int, int, int] = NO_PRODUCER) -> Batch:
    """A batch of exactly `size_bytes`, with records of about 1 KB."""
    records = max(1, size_bytes // RECORD_BYTES)
    value_bytes = max(1, size_bytes // records - 100)
    values = [text(value_bytes) for _ in range(records)]
    timestamp = time.time_ns() // 1_000_000
    for _ in range(3):
        # A longer value can make its length prefixes longer: two more tries settle it.
        data = raw.batch(values, producer, timestamp)
        if len(data) == size_bytes:
            return Batch(data, records)
        values[-1] = text(len(values[-1]) + size_bytes - len(data))
    raise AssertionError(f"no batch of {size_bytes} bytes with {records} records")


def produce_frame(topic: str, partitions: Sequence[int], batch: Batch) -> bytes:
    """One request with the same batch for each of the partitions."""
    entries = [{"index": partition, "records": batch.data} for partition in partitions]
    fields = {"acks": -1, "timeout_ms": 30_000, "topic_data": [{"name": topic, "partition_data": entries}]}
    return raw.encode_request("Produce", PRODUCE_VERSION, 1, fields)


def produce_error_at(topic: str, partitions: int) -> int:
    """Where the first partition's error code stands in the answer, length included."""
    length, correlation_id, tags, topics, name, index = 4, 4, 1, 1, 1 + len(topic), 4
    count = 1 if partitions + 1 < 128 else 2
    return length + correlation_id + tags + topics + name + count + index


def sequenced_frames(topic: str, partition: int, size_bytes: int, producer: tuple[int, int], count: int) -> bytearray:
    """`count` requests of one idempotent producer, back to back, with the sequences 0, 1, 2, ... and right CRCs."""
    batch = make_batch(size_bytes, (*producer, 0))
    frame = produce_frame(topic, [partition], batch)
    at = frame.index(batch.data)
    end = at + len(batch.data)
    frames = bytearray(frame * count)
    view = memoryview(frames)
    for index in range(count):
        start = index * len(frame)
        struct.pack_into(">i", frames, start + at + SEQUENCE_AT, index * batch.records)
        crc = crc32c(view[start + at + CRC_FROM : start + end])
        struct.pack_into(">I", frames, start + at + CRC_AT, crc)
    return frames


@dataclass(slots=True)
class FetchFrame:
    """A fetch of one partition whose offset can be set."""

    data: bytearray
    offset_at: int

    def at(self, offset: int) -> bytearray:
        struct.pack_into(">q", self.data, self.offset_at, offset)
        return self.data


def fetch_frame(topic: str, partition: int, max_bytes: int, max_wait_ms: int, min_bytes: int) -> FetchFrame:
    fields = raw.fetch_fields(
        topic, OFFSET_MARK, partition, partition_max_bytes=max_bytes, max_wait_ms=max_wait_ms, min_bytes=min_bytes
    )
    data = bytearray(raw.encode_request("Fetch", FETCH_VERSION, 1, fields))
    return FetchFrame(data, data.index(struct.pack(">q", OFFSET_MARK)))


@dataclass(frozen=True, slots=True)
class FetchAnswer:
    """Where things stand in the answer to `fetch_frame`, length included.

    length 4, correlation id 4, throttle 4, error 2, session 4, topics 4, name 2 + n, partitions 4,
    index 4, error 2, high watermark 8, last stable offset 8, log start 8, aborted 4, preferred replica 4, records 4 + n
    """

    error_at: int
    records_length_at: int
    records_at: int

    @classmethod
    def of(cls, topic: str) -> FetchAnswer:
        error_at = 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4
        records_length_at = error_at + 2 + 8 + 8 + 8 + 4 + 4
        return cls(error_at, records_length_at, records_length_at + 4)


def text(size: int, seed: int = 0) -> bytes:
    """Bytes that compress about as well as JSON does."""
    words = (b'"name":', b'"value":', b"true,", b"null,", b'"2024-05-', b"}, {")
    chance = random.Random(seed)
    parts = bytearray()
    while len(parts) < size:
        parts += chance.choice(words) + b"%d," % chance.randrange(100_000)
    return bytes(parts[:size])
