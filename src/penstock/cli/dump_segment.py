"""The batches of a `.log` file for `penstock log dump`: every header field, the records, and whether they are intact.

A file is read batch by batch, so its size does not matter. Reading ends at the first bytes that are no batch: after a
crash the end of a segment may be torn, and then these are the bytes that recovery would cut off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from penstock.cli.dump_entry import Entry, Problem, date, quoted
from penstock.cli.message_json import to_json
from penstock.cli.output import plural
from penstock.env.files import File, SystemFiles
from penstock.errors import KafkaError
from penstock.types import TopicPartition
from penstock.wire.batch_builder import read_end_txn_marker
from penstock.wire.record import Record, iterate_records
from penstock.wire.records import HEADER_SIZE, BatchHeader, Codec, batch_size, is_crc_valid, read_header

MAX_RECORDS_BYTES = 1 << 30
"""What a compressed batch may grow to; the file is the user's own."""


class Batch(NamedTuple):
    """A whole batch: where it is in the file, its header and its bytes."""

    position: int
    header: BatchHeader
    data: bytes


def read_batches(path: str) -> Iterator[Batch | Problem]:
    """The batches of a segment, and at its end what is not one."""
    file = SystemFiles().open(path, writable=False)
    try:
        yield from _read(file, file.size())
    finally:
        file.close()


def _read(file: File, size: int) -> Iterator[Batch | Problem]:
    position = 0
    while position < size:
        head = file.pread(HEADER_SIZE, position)
        try:
            length = batch_size(head, 0, len(head))
        except KafkaError as error:
            yield Problem(f"position {position}: {error} The {size - position} bytes from here on are no batches.")
            return
        if length is None or position + length > size:
            yield Problem(f"position {position}: the last batch is cut; {size - position} bytes of it are there.")
            return
        data = file.pread(length, position)
        yield Batch(position, read_header(data), data)
        position += length


def dump_segment(path: str, base_offset: int, *, with_records: bool, check: bool) -> Iterator[Entry | Problem]:
    """Entries for the batches, after each its records if asked for, and what is wrong."""
    expected = base_offset
    for batch in read_batches(path):
        if isinstance(batch, Problem):
            yield batch
            continue
        header, position = batch.header, batch.position
        is_valid = is_crc_valid(batch.data, 0, header)
        yield _batch_entry(position, header, is_valid)
        if not is_valid:
            yield Problem(f"position {position}: the checksum of the batch at offset {header.base_offset} is wrong.")
        if header.base_offset < expected:
            yield Problem(f"position {position}: offset {header.base_offset} comes after {expected - 1}.")
        expected = max(expected, header.next_offset)
        if (with_records or check) and is_valid:
            yield from _records(batch, with_records)


def _records(batch: Batch, is_shown: bool) -> Iterator[Entry | Problem]:
    try:
        for record in iterate_records(batch.data, 0, MAX_RECORDS_BYTES):
            if is_shown:
                yield _control_entry(record) if batch.header.is_control else _record_entry(record)
    except KafkaError as error:
        yield Problem(f"position {batch.position}: the records of the batch cannot be read: {error}")


def _batch_entry(position: int, header: BatchHeader, is_valid: bool) -> Entry:
    codec = Codec(header.codec_id).name.lower() if header.codec_id <= Codec.ZSTD else f"codec {header.codec_id}"
    fields: dict[str, Any] = {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "position": position,
        "size_bytes": header.size_bytes,
        "compression": codec,
        "timestamp_type": header.timestamp_type.name,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "partition_leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.base_timestamp if header.has_delete_horizon else None,
        "magic": header.magic,
        "crc": header.crc,
        "is_valid": is_valid,
    }
    return Entry("batch", fields, _batch_text(position, header, codec, is_valid))


def _batch_text(position: int, header: BatchHeader, codec: str, is_valid: bool) -> str:
    parts = [
        f"offsets {header.base_offset} to {header.last_offset}",
        plural(header.record_count, "record"),
        f"position {position}",
        f"{header.size_bytes} bytes",
        codec if header.codec_id else "not compressed",
        f"{header.timestamp_type.name.replace('_', ' ').lower()} {date(header.max_timestamp)}",
        f"leader epoch {header.partition_leader_epoch}",
    ]
    if header.has_producer_id:
        sequences = f"sequence {header.base_sequence} to {header.last_sequence}"
        parts.append(f"producer {header.producer_id} epoch {header.producer_epoch} {sequences}")
    parts += ["transactional"] * header.is_transactional + ["control"] * header.is_control
    if header.has_delete_horizon:
        parts.append(f"delete horizon {date(header.base_timestamp)}")
    return "  ".join([*parts, f"crc {header.crc:#010x} {'ok' if is_valid else 'WRONG'}"])


def _record_entry(record: Record) -> Entry:
    fields = json.loads(to_json(TopicPartition("", 0), record))
    del fields["topic"], fields["partition"]
    parts = [f"    offset {record.offset}", date(record.timestamp), f"key {quoted(record.key)}"]
    parts += [f"value {quoted(record.value)}", *(f"header {json.dumps(k)} {quoted(v)}" for k, v in record.headers)]
    return Entry("record", fields, "  ".join(parts))


def _control_entry(record: Record) -> Entry:
    marker = read_end_txn_marker(record)
    name = "other" if marker is None else marker.control_type.name.lower()
    epoch = None if marker is None else marker.coordinator_epoch
    fields = {"offset": record.offset, "timestamp": record.timestamp, "marker": name, "coordinator_epoch": epoch}
    return Entry("control", fields, f"    offset {record.offset}  {name} marker  coordinator epoch {epoch}")
