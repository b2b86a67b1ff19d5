"""The record batch, Kafka's unit of storage and transfer (magic 2): its header, its checks, and the leader's marks.

Bytes, all big-endian; the same on the wire and on disk:

    0  base_offset            int64   written by the leader
    8  batch_length           int32   bytes that follow this field
    12 partition_leader_epoch int32   written by the leader
    16 magic                  int8    2
    17 crc                    uint32  CRC-32C of everything from `attributes` to the end
    21 attributes             int16   bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
    23 last_offset_delta      int32
    27 base_timestamp         int64   or the delete horizon, when bit 6 is set
    35 max_timestamp          int64
    43 producer_id            int64   -1 when the producer is not idempotent
    51 producer_epoch         int16
    53 base_sequence          int32
    57 record_count           int32
    61 records                        compressed as one piece when a codec is set

Rules: the leader stamps offset and epoch in place, outside the checksum, so an append computes one checksum and copies
nothing. `base_offset`, `batch_length`, `partition_leader_epoch` and `magic` are therefore not protected: who reads a
file checks them against what it expects. The records stay untouched and unread here (see `record.py`).

A log's hot path calls `HEADER.unpack_from` and the small structs below by itself; `BatchHeader` is for everybody else.
Formats 0 and 1 are gone from Kafka since 4.0 and are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from penstock.errors import ErrorCode, KafkaError
from penstock.types import Bytes
from penstock.wire.crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE = HEADER.size
LOG_OVERHEAD = 12
"""base_offset and batch_length: what `batch_length` does not count."""

BASE_OFFSET_AT = 0
BATCH_LENGTH_AT = 8
PARTITION_LEADER_EPOCH_AT = 12
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
PRODUCER_EPOCH_AT = 51
BASE_SEQUENCE_AT = 53
RECORD_COUNT_AT = 57

MAGIC = 2
MIN_BATCH_LENGTH = 14
"""The smallest length that any format ever had; Kafka calls less than this corrupt before it looks at the magic."""

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

OFFSET = struct.Struct(">q")
LENGTH = struct.Struct(">i")
CRC = struct.Struct(">I")
ATTRIBUTES = struct.Struct(">h")
OFFSET_AND_LENGTH = struct.Struct(">qi")
TIMESTAMP = struct.Struct(">q")

MAX_INT32 = 0x7FFFFFFF


class Codec(IntEnum):
    """How the records of a batch are compressed; the numbers are bits 0-2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in their order on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec_id(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def compression(self) -> Codec:
        """The codec; UNSUPPORTED_COMPRESSION_TYPE for 5, 6 and 7, which mean nothing yet."""
        return codec_or_raise(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers wrap from 2,147,483,647 to 0, as Kafka's do; they never become negative."""
    return (sequence + increment) & MAX_INT32


def decrement_sequence(sequence: int, decrement: int) -> int:
    return (sequence - decrement) & MAX_INT32


def codec_or_raise(attributes: int) -> Codec:
    """Kafka fails with an unknown server error here; the peer's mistake deserves its own code."""
    codec_id = attributes & CODEC_MASK
    if codec_id > Codec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"No compression codec has the number {codec_id}.")
    return Codec(codec_id)


def read_header(buf: Bytes, pos: int = 0) -> BatchHeader:
    """The header at `pos`, unchecked but for its room; CORRUPT_MESSAGE when 61 bytes are not there."""
    if pos < 0 or len(buf) - pos < HEADER_SIZE:
        raise corrupt(f"A batch header needs {HEADER_SIZE} bytes; {max(0, len(buf) - pos)} are left.")
    return BatchHeader._make(HEADER.unpack_from(buf, pos))


def iterate_headers(buf: Bytes, pos: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in `buf`; a cut batch at the end is left out, as a fetch may send one.

    CORRUPT_MESSAGE when a length or a magic byte is nonsense. Checksums are not looked at.
    """
    end = len(buf) if end is None else end
    while (size := batch_size(buf, pos, end)) is not None and pos + size <= end:
        yield pos, BatchHeader._make(HEADER.unpack_from(buf, pos))
        pos += size


def batch_size(buf: Bytes, pos: int, end: int) -> int | None:
    """How many bytes the batch at `pos` takes, or None when too few are left to tell (those up to the magic byte).

    The batch may reach beyond `end`: the caller looks.
    """
    if end - pos < CRC_AT:
        return None
    (length,) = LENGTH.unpack_from(buf, pos + BATCH_LENGTH_AT)
    if length < MIN_BATCH_LENGTH:
        raise corrupt(f"A batch length of {length} is less than any batch has.")
    magic = buf[pos + MAGIC_AT]
    if magic > MAGIC:
        raise corrupt(f"A batch has the magic byte {magic}; {MAGIC} is the newest known.")
    if magic < MAGIC:
        # LogValidator and ProduceRequest.validateRecords: formats 0 and 1 are INVALID_RECORD since 4.0.
        raise invalid_record(f"Message format {magic} is not supported; the format must be {MAGIC}.")
    if length < HEADER_SIZE - LOG_OVERHEAD:
        raise corrupt(f"A batch length of {length} has no room for the batch header.")
    return LOG_OVERHEAD + int(length)


def is_crc_valid(buf: Bytes, pos: int, header: BatchHeader) -> bool:
    """Whether the stored checksum is that of the bytes; the whole batch must be in `buf`."""
    covered = memoryview(buf)[pos + ATTRIBUTES_AT : pos + header.size_bytes]
    return len(covered) == header.size_bytes - ATTRIBUTES_AT and crc32c(covered) == header.crc


def check_batch(buf: Bytes, pos: int, end: int) -> BatchHeader:
    """The header of a whole and intact batch at `pos`: length, magic and checksum are right. Any origin."""
    size = batch_size(buf, pos, end)
    if size is None or pos + size > end:
        raise corrupt(f"A batch is cut: {end - pos} bytes are there of {size or 'at least ' + str(HEADER_SIZE)}.")
    header = BatchHeader._make(HEADER.unpack_from(buf, pos))
    if not is_crc_valid(buf, pos, header):
        raise corrupt(f"The batch's checksum is not {header.crc:#010x}, as its header says.")
    return header


def check_produced(header: BatchHeader) -> None:
    """What a batch from a client must say of itself, or INVALID_RECORD: the rules of Kafka's LogValidator."""
    if header.base_offset != 0:
        raise invalid_record(f"A produced batch must have the base offset 0, not {header.base_offset}.")
    if header.is_control:
        raise invalid_record("Clients may not write control records.")
    if header.last_offset_delta < 0 or header.record_count <= 0:
        raise invalid_record(f"A batch of {header.record_count} records up to {header.last_offset_delta} is empty.")
    if header.last_offset_delta + 1 != header.record_count:
        raise invalid_record(
            f"A batch of {header.record_count} records cannot end at the offset delta {header.last_offset_delta}."
        )
    codec_or_raise(header.attributes)


def check_produce_request(buf: Bytes, pos: int, end: int) -> BatchHeader:
    """One partition's records in a Produce request: exactly one whole batch of magic 2, intact, and a client's to send.

    The order of the checks is Kafka's, so that the first thing wrong gets the same code. Bytes behind the batch that
    are too few to be another one are ignored, as Kafka trims them.
    """
    size = batch_size(buf, pos, end)
    if size is None or pos + size > end:
        raise invalid_record("A produce request must hold one whole batch per partition.")
    second = batch_size(buf, pos + size, end)
    if second is not None and pos + size + second <= end:
        raise invalid_record("A produce request must hold exactly one batch per partition.")
    header = check_batch(buf, pos, pos + size)
    check_produced(header)
    return header


def assign_offsets(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """What the leader writes into each batch, in place; neither field is under the checksum."""
    OFFSET.pack_into(buf, pos + BASE_OFFSET_AT, base_offset)
    LENGTH.pack_into(buf, pos + PARTITION_LEADER_EPOCH_AT, leader_epoch)


def set_log_append_time(buf: bytearray | memoryview, pos: int, timestamp_ms: int) -> None:
    """`message.timestamp.type=LogAppendTime`: one timestamp for all records, in the header; the checksum follows."""
    header = read_header(buf, pos)
    ATTRIBUTES.pack_into(buf, pos + ATTRIBUTES_AT, header.attributes | TIMESTAMP_TYPE_BIT)
    TIMESTAMP.pack_into(buf, pos + MAX_TIMESTAMP_AT, timestamp_ms)
    update_crc(buf, pos)


def update_crc(buf: bytearray | memoryview, pos: int) -> None:
    """Computes and stores the checksum of the batch at `pos` after a change of what it covers."""
    (length,) = LENGTH.unpack_from(buf, pos + BATCH_LENGTH_AT)
    CRC.pack_into(buf, pos + CRC_AT, crc32c(memoryview(buf)[pos + ATTRIBUTES_AT : pos + LOG_OVERHEAD + length]))


def corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)


def invalid_record(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
