"""Building record batches: from records, and the control batches that end transactions.

`build_batch` takes what the broker and its tools have at hand, one record after the other; columns of many go through
`columns.py`. The result is a whole batch with its checksum, ready to be appended or sent.

A control batch holds one record that no consumer sees: its key is a version and a type (two int16), its value depends
on the type. The end of a transaction is written so on every partition it touched, with a version (int16) and the
coordinator's epoch (int32) as value.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from penstock.types import Bytes
from penstock.wire import records
from penstock.wire.compression import compress
from penstock.wire.crc32c import crc32c
from penstock.wire.record import Record
from penstock.wire.records import (
    ATTRIBUTES_AT,
    CRC,
    CRC_AT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAX_INT32,
    Codec,
    TimestampType,
    corrupt,
)
from penstock.wire.varint import append_varint

CONTROL_KEY = struct.Struct(">hh")
END_TXN_VALUE = struct.Struct(">hi")
CONTROL_VERSION = 0

_END_TXN_RECORD = struct.Struct(">5B hh B hi B")
"""The only record of an end marker: five varints of a byte, key, the value's length, value, how many headers."""
_END_TXN_HEAD = (2 * (_END_TXN_RECORD.size - 1), 0, 0, 0, 2 * CONTROL_KEY.size)
"""Its size, attributes, deltas of time and offset, the key's length; varints are zigzag, so a length is doubled."""
_END_TXN_VALUE_LENGTH = 2 * END_TXN_VALUE.size
END_TXN_MARKER_BYTES = HEADER_SIZE + _END_TXN_RECORD.size
_END_TXN_ATTRIBUTES = records.TRANSACTIONAL_BIT | records.CONTROL_BIT


class ControlType(IntEnum):
    """What a control record says; the others of Kafka's belong to its own metadata log."""

    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class EndTxnMarker:
    """The end of a transaction on one partition."""

    control_type: ControlType
    coordinator_epoch: int


def build_batch(
    batch_records: Sequence[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = records.NO_PRODUCER_ID,
    producer_epoch: int = records.NO_PRODUCER_EPOCH,
    base_sequence: int = records.NO_SEQUENCE,
    leader_epoch: int = records.NO_LEADER_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """One batch of `batch_records`, whose offsets ascend.

    A compacted batch keeps its old `base_offset` and `last_offset` though records are gone; otherwise they come from
    the records. A batch without records must name both. A delete horizon takes the place of the base timestamp.
    """
    if base_offset is None:
        base_offset = batch_records[0].offset
    if last_offset is None:
        last_offset = batch_records[-1].offset
    assert 0 <= last_offset - base_offset <= MAX_INT32, "a batch spans less than 2**31 offsets"
    base_timestamp = batch_records[0].timestamp if batch_records else records.NO_TIMESTAMP
    attributes = codec | timestamp_type * records.TIMESTAMP_TYPE_BIT
    attributes |= is_transactional * records.TRANSACTIONAL_BIT | is_control * records.CONTROL_BIT
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
        attributes |= records.DELETE_HORIZON_BIT
    section = compress(codec, _encode_records(batch_records, base_offset, base_timestamp), level)
    batch = bytearray(HEADER_SIZE)
    batch += section
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset - base_offset,
        base_timestamp,
        max((record.timestamp for record in batch_records), default=records.NO_TIMESTAMP),
        producer_id,
        producer_epoch,
        base_sequence,
        len(batch_records),
    )
    records.update_crc(batch, 0)
    return batch


def build_end_txn_marker(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = records.NO_LEADER_EPOCH,
) -> bytearray:
    """The control batch that ends a transaction; control batches carry no sequence."""
    batch = bytearray(END_TXN_MARKER_BYTES)
    HEADER.pack_into(
        batch, 0, base_offset, END_TXN_MARKER_BYTES - LOG_OVERHEAD, leader_epoch, MAGIC, 0, _END_TXN_ATTRIBUTES, 0,
        timestamp, timestamp, producer_id, producer_epoch, records.NO_SEQUENCE, 1,
    )  # fmt: skip
    _END_TXN_RECORD.pack_into(
        batch, HEADER_SIZE, *_END_TXN_HEAD, CONTROL_VERSION, marker.control_type,
        _END_TXN_VALUE_LENGTH, CONTROL_VERSION, marker.coordinator_epoch, 0,
    )  # fmt: skip
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return batch


def read_end_txn_marker(record: Record) -> EndTxnMarker | None:
    """The marker in a control record, or None when it is a control record of another kind.

    Newer versions may append fields, so more bytes than we know are fine.
    """
    if record.key is None or len(record.key) < CONTROL_KEY.size:
        raise corrupt("A control record's key is cut.")
    _, control_type = CONTROL_KEY.unpack_from(record.key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < END_TXN_VALUE.size:
        raise corrupt("The value of a transaction's end marker is cut.")
    _, coordinator_epoch = END_TXN_VALUE.unpack_from(record.value)
    return EndTxnMarker(ControlType(control_type), coordinator_epoch)


def _encode_records(batch_records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytearray:
    section = bytearray()
    body = bytearray()
    for record in batch_records:
        body.clear()
        body.append(0)
        append_varint(body, record.timestamp - base_timestamp)
        append_varint(body, record.offset - base_offset)
        _append_bytes(body, record.key)
        _append_bytes(body, record.value)
        append_varint(body, len(record.headers))
        for key, value in record.headers:
            _append_bytes(body, key.encode())
            _append_bytes(body, value)
        append_varint(section, len(body))
        section += body
    return section


def _append_bytes(out: bytearray, data: Bytes | None) -> None:
    if data is None:
        append_varint(out, -1)
    else:
        append_varint(out, len(data))
        out += data
