"""Record batches as columns: many batches to one set of columns, and columns to batches. Ready for Arrow, without it.

A thin layer over the kernel, which reads and writes the records themselves: here are batch headers, checksums, codecs
and the choice of batches. Buffers have Arrow's layout and the machine's byte order; `pyarrow.py_buffer` takes them as
they are. Key and value columns are `binary`, headers are `list<struct<key: string, value: binary>>`.

Rules: control batches are left out. What codecs produce is bounded for the whole call. A cut batch at the end is left
out, as a fetch may send one; anything else that is wrong is CORRUPT_MESSAGE, and then there are no columns at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.types import Bytes
from penstock.wire import records
from penstock.wire.compression import compress
from penstock.wire.kernel import Binary, Decoder, Encoder
from penstock.wire.record import header_key, record_section
from penstock.wire.records import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    Codec,
    corrupt,
    increment_sequence,
    is_crc_valid,
    iterate_headers,
)

DEFAULT_LIMIT = 256 << 20
"""What all compressed batches of one call may grow to: five times the largest fetch that clients ask for by default."""

DEFAULT_TARGET_BYTES = 900_000
"""A batch below Kafka's default for `max.message.bytes`, with room for headers."""

DEFAULT_MAX_RECORDS = 1 << 20


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """Row i is `data[offsets[i]:offsets[i + 1]]` (int32), or null when bit i of `validity` is 0; None: no nulls."""

    data: Bytes
    offsets: Bytes
    validity: Bytes | None = None
    null_count: int = 0


@dataclass(frozen=True, slots=True)
class HeaderColumns:
    """Row i has the headers `offsets[i]` to `offsets[i + 1]` (int32) of `keys` and `values`."""

    offsets: Bytes
    keys: BinaryColumn
    values: BinaryColumn


@dataclass(frozen=True, slots=True)
class Columns:
    """Records by column: int64 offsets (encoding needs none), int64 timestamps in ms, keys (None: all null), values."""

    row_count: int
    timestamps: Bytes
    values: BinaryColumn
    keys: BinaryColumn | None = None
    headers: HeaderColumns | None = None
    offsets: Bytes = b""


def decode_columns(
    batches: Bytes,
    *,
    with_headers: bool = False,
    check_crcs: bool = True,
    limit: int = DEFAULT_LIMIT,
    is_wanted: Callable[[BatchHeader], bool] | None = None,
    allocate: Callable[[int], Bytes] | None = None,
) -> Columns:
    """The records of all whole data batches in `batches`; `is_wanted` may leave some out, as those of aborted
    transactions. It is shown every batch in order, control batches too: those end transactions. `allocate` gives the
    memory of the columns, for those who use theirs again."""
    decoder = Decoder(with_headers, allocate)
    sections: list[tuple[BatchHeader, memoryview]] = []
    for pos, header in iterate_headers(batches):
        if check_crcs and not is_crc_valid(batches, pos, header):
            raise corrupt(f"The checksum of the batch at offset {header.base_offset} is wrong.")
        has_wanted = is_wanted is None or is_wanted(header)
        if header.is_control or not has_wanted:
            continue
        section = record_section(batches, pos, header, limit)
        if header.codec_id:
            limit -= len(section)
        decoder.measure(section, header.record_count)
        sections.append((header, section))
    for header, section in sections:
        is_append_time = bool(header.attributes & records.TIMESTAMP_TYPE_BIT)
        timestamp = header.max_timestamp if is_append_time else header.base_timestamp
        decoder.add(
            section, header.record_count, header.base_offset, header.last_offset_delta, timestamp, is_append_time
        )
    return _columns(decoder, sum(header.record_count for header, _ in sections), with_headers)


def _columns(decoder: Decoder, row_count: int, with_headers: bool) -> Columns:
    buffers = decoder.columns()
    key_nulls, value_nulls, header_value_nulls = decoder.null_counts()
    headers = None
    if with_headers:
        key_data, key_offsets = _as_utf8(buffers["header_key_data"], buffers["header_key_offsets"])
        values = _binary(buffers, "header_value", header_value_nulls)
        headers = HeaderColumns(buffers["header_offsets"], BinaryColumn(key_data, key_offsets), values)
    return Columns(
        row_count,
        buffers["timestamps"],
        _binary(buffers, "value", value_nulls),
        _binary(buffers, "key", key_nulls),
        headers,
        buffers["offsets"],
    )


def _binary(buffers: dict[str, bytearray | memoryview], name: str, nulls: int) -> BinaryColumn:
    return BinaryColumn(buffers[name + "_data"], buffers[name + "_offsets"], buffers[name + "_validity"], nulls)


def _as_utf8(data: Bytes, offsets: Bytes) -> tuple[Bytes, Bytes]:
    """Arrow's strings must be UTF-8; what a producer wrote otherwise is replaced, see `header_key`."""
    if bytes(data).isascii():
        return data, offsets
    ends = memoryview(offsets).cast("i")
    keys = [header_key(data[ends[i] : ends[i + 1]]).encode() for i in range(len(ends) - 1)]
    new_offsets = bytearray(len(offsets))
    new_ends = memoryview(new_offsets).cast("i")
    for index, key in enumerate(keys):
        new_ends[index + 1] = new_ends[index] + len(key)
    return b"".join(keys), new_offsets


def encode_columns(
    columns: Columns,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    target_bytes: int = DEFAULT_TARGET_BYTES,
    max_records: int = DEFAULT_MAX_RECORDS,
    producer_id: int = records.NO_PRODUCER_ID,
    producer_epoch: int = records.NO_PRODUCER_EPOCH,
    base_sequence: int = records.NO_SEQUENCE,
    is_transactional: bool = False,
    allocate: Callable[[int], bytearray | memoryview] = bytearray,
) -> Iterator[bytearray | memoryview]:
    """Batches to be produced, each of about `target_bytes` before compression; a larger record gets one of its own.

    Each starts at offset 0, as a leader expects it; sequences go on from batch to batch. ValueError when the columns do
    not fit together. `allocate` gives the memory of the batches, for those who use theirs again.
    """
    encoder = _encoder(columns)
    attributes = codec | is_transactional * records.TRANSACTIONAL_BIT
    timestamps = memoryview(columns.timestamps).cast("B").cast("q")
    start = 0
    while start < columns.row_count:
        stop, size, max_timestamp = encoder.fit(start, target_bytes, max_records)
        batch = allocate(HEADER_SIZE + size)
        encoder.write(start, stop, memoryview(batch), HEADER_SIZE)
        if codec is not Codec.NONE:
            compressed = compress(codec, memoryview(batch)[HEADER_SIZE:], level)
            batch = allocate(HEADER_SIZE + len(compressed))
            batch[HEADER_SIZE:] = compressed
        count = stop - start
        producer = (producer_id, producer_epoch, base_sequence)
        fixed = (0, len(batch) - LOG_OVERHEAD, records.NO_LEADER_EPOCH, MAGIC, 0, attributes, count - 1)
        HEADER.pack_into(batch, 0, *fixed, timestamps[start], max_timestamp, *producer, count)
        records.update_crc(batch, 0)
        yield batch
        if base_sequence != records.NO_SEQUENCE:
            base_sequence = increment_sequence(base_sequence, count)
        start = stop


def _encoder(columns: Columns) -> Encoder:
    timestamps = memoryview(columns.timestamps).cast("B").cast("q")
    if len(timestamps) != columns.row_count:
        raise ValueError(f"{len(timestamps)} timestamps are there for {columns.row_count} rows.")
    keys = None if columns.keys is None else _to_kernel(columns.keys)
    if columns.headers is None:
        return Encoder(timestamps, keys, _to_kernel(columns.values))
    headers = columns.headers
    return Encoder(
        timestamps,
        keys,
        _to_kernel(columns.values),
        memoryview(headers.offsets).cast("B").cast("i"),
        _to_kernel(headers.keys),
        _to_kernel(headers.values),
    )


def _to_kernel(column: BinaryColumn) -> Binary:
    validity = None if column.validity is None else memoryview(column.validity).cast("B")
    return Binary(memoryview(column.data).cast("B"), memoryview(column.offsets).cast("B").cast("i"), validity)
