"""Records inside batches: round trips, kafka-python's codec both ways, real clients' batches, and hostile bytes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from penstock.errors import ErrorCode, KafkaError
from penstock.wire import records
from penstock.wire.batch_builder import (
    ControlType,
    EndTxnMarker,
    build_batch,
    build_end_txn_marker,
    read_end_txn_marker,
)
from penstock.wire.columns import decode_columns
from penstock.wire.record import Record, iterate_records
from penstock.wire.records import Codec, TimestampType, check_batch
from penstock.wire.varint import append_varint, read_varint

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "golden" / "frames.jsonl"
KAFKA_PYTHON_CODECS = [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]

maybe_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=4).map(tuple)
timestamps = st.integers(min_value=-1, max_value=2**48)


@st.composite
def record_lists(draw: st.DrawFn, base_offset: int | None = None) -> list[Record]:
    """Records with ascending offsets, gaps as compaction leaves them, and timestamps in any order."""
    offset = draw(st.integers(0, 2**62)) if base_offset is None else base_offset
    found = []
    for _ in range(draw(st.integers(1, 8))):
        found.append(Record(offset, draw(timestamps), draw(maybe_bytes), draw(maybe_bytes), draw(headers)))
        offset += draw(st.integers(1, 1000))
    return found


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varints_round_trip(value: int) -> None:
    out = bytearray(b"x")
    append_varint(out, value)
    assert read_varint(out, 1, len(out)) == (value, len(out))
    assert len(out) <= 11


@pytest.mark.parametrize(
    ("raw", "value"),
    [("00", 0), ("01", -1), ("02", 1), ("7f", -64), ("8001", 64), ("ffffffff0f", -(2**31)), ("feffffff0f", 2**31 - 1)],
)
def test_varints_are_those_of_kafka(raw: str, value: int) -> None:
    assert read_varint(bytes.fromhex(raw), 0, len(raw) // 2) == (value, len(raw) // 2)


@pytest.mark.parametrize("raw", ["", "80", "8080808080808080808000", "ffffffffffffffffff02"])
def test_a_varint_that_is_cut_or_too_long_is_corrupt(raw: str) -> None:
    with pytest.raises(KafkaError) as caught:
        read_varint(bytes.fromhex(raw), 0, len(raw) // 2)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", list(Codec))
@given(batch_records=record_lists(), is_transactional=st.booleans(), producer=st.integers(-1, 2**40))
def test_records_round_trip_through_a_batch(
    codec: Codec, batch_records: list[Record], is_transactional: bool, producer: int
) -> None:
    batch = build_batch(
        batch_records, codec=codec, producer_id=producer, producer_epoch=3, is_transactional=is_transactional
    )
    header = check_batch(batch, 0, len(batch))
    assert list(iterate_records(batch)) == batch_records
    assert (header.base_offset, header.last_offset) == (batch_records[0].offset, batch_records[-1].offset)
    assert header.max_timestamp == max(record.timestamp for record in batch_records)
    assert (header.compression, header.is_transactional, header.producer_id) == (codec, is_transactional, producer)


def test_append_time_is_every_record_s_time() -> None:
    batch = build_batch([Record(0, 5, b"k", b"v"), Record(1, 9, None, None)])
    records.set_log_append_time(batch, 0, 77)
    assert [record.timestamp for record in iterate_records(batch)] == [77, 77]
    built = build_batch([Record(0, 5, b"k", b"v")], timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert [record.timestamp for record in iterate_records(built)] == [5]


def test_a_compacted_batch_keeps_its_offsets_and_may_be_empty() -> None:
    batch = build_batch([Record(12, 5, b"k", b"v")], base_offset=10, last_offset=19)
    header = check_batch(batch, 0, len(batch))
    assert (header.base_offset, header.next_offset, header.record_count) == (10, 20, 1)
    assert [record.offset for record in iterate_records(batch)] == [12]
    empty = build_batch([], base_offset=10, last_offset=19, producer_id=7)
    assert list(iterate_records(empty)) == []
    assert check_batch(empty, 0, len(empty)).next_offset == 20


def test_a_delete_horizon_leaves_the_timestamps_as_they_were() -> None:
    batch = build_batch([Record(0, 100, b"k", None), Record(1, 50, b"l", None)], delete_horizon_ms=10_000)
    header = check_batch(batch, 0, len(batch))
    assert (header.has_delete_horizon, header.base_timestamp) == (True, 10_000)
    assert [record.timestamp for record in iterate_records(batch)] == [100, 50]


@pytest.mark.parametrize("kind", list(ControlType))
def test_the_end_of_a_transaction_round_trips(kind: ControlType) -> None:
    marker = EndTxnMarker(kind, 42)
    batch = build_end_txn_marker(marker, producer_id=9, producer_epoch=2, timestamp=1_000, base_offset=5)
    header = check_batch(batch, 0, len(batch))
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    (record,) = iterate_records(batch)
    assert read_end_txn_marker(record) == marker
    assert record.key == bytes([0, 0, 0, kind])
    assert record.value == bytes.fromhex("00000000002a")
    is_end = {"producer_id": 9, "producer_epoch": 2, "is_transactional": True, "is_control": True}
    assert batch == build_batch([Record(5, 1_000, record.key, record.value)], **is_end)
    (theirs,) = DefaultRecordBatch(batch)
    assert (theirs.abort, theirs.commit) == (kind is ControlType.ABORT, kind is ControlType.COMMIT)


def test_control_records_of_other_kinds_and_cut_ones_are_told_apart() -> None:
    assert read_end_txn_marker(Record(0, 0, b"\0\0\0\2", b"whatever")) is None
    for record in (Record(0, 0, None, None), Record(0, 0, b"\0\0\0", b""), Record(0, 0, b"\0\0\0\1", b"\0\0")):
        with pytest.raises(KafkaError):
            read_end_txn_marker(record)


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
@given(batch_records=record_lists())
def test_kafka_python_reads_our_batches(codec: Codec, batch_records: list[Record]) -> None:
    theirs = DefaultRecordBatch(build_batch(batch_records, codec=codec))
    assert theirs.validate_crc()
    assert [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == batch_records


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
@given(batch_records=record_lists(base_offset=0))
def test_we_read_kafka_python_s_batches(codec: Codec, batch_records: list[Record]) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=1,
        producer_id=5,
        producer_epoch=1,
        base_sequence=7,
        batch_size=1 << 20,
    )
    for record in batch_records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    assert check_batch(batch, 0, len(batch)).is_transactional
    assert list(iterate_records(batch)) == batch_records


def kafka_python_records(batch: bytes) -> list[Any]:
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in DefaultRecordBatch(batch)]


@pytest.mark.skipif(not GOLDEN.exists(), reason="the recorded frames of real clients are not beside the repository")
def test_batches_of_real_clients_are_read_as_kafka_python_reads_them_and_built_again_the_same() -> None:
    codecs = set()
    for batch in golden_batches():
        header = records.read_header(batch)
        codecs.add(header.compression)
        ours = list(iterate_records(batch))
        assert len(ours) == header.record_count
        if header.compression is not Codec.SNAPPY:  # kafka-python needs another package for it
            assert [tuple(record) for record in ours] == kafka_python_records(batch)
        if header.compression is Codec.NONE and header.timestamp_type is TimestampType.CREATE_TIME and ours:
            assert rebuilt(header, ours) == batch
        assert decode_columns(batch, with_headers=True).row_count == (0 if header.is_control else len(ours))
    assert codecs >= {Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4}


def golden_batches() -> list[bytes]:
    found = []
    for line in GOLDEN.read_text().splitlines():
        frame = json.loads(line)
        if frame["api"] in (0, 1):
            raw = bytes.fromhex(frame["frame"])
            for pos in range(len(raw) - records.HEADER_SIZE):
                try:
                    header = check_batch(raw, pos, len(raw))
                except KafkaError:
                    continue
                found.append(raw[pos : pos + header.size_bytes])
    return found


def rebuilt(header: records.BatchHeader, batch_records: list[Record]) -> bytearray:
    return build_batch(
        batch_records,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.partition_leader_epoch,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )


@pytest.mark.parametrize("codec", list(Codec))
def test_damaged_batches_are_corrupt_or_read_and_never_another_error(codec: Codec) -> None:
    chance = random.Random(11)
    batch = build_batch([Record(i, i, b"key", b"value" * 5, (("h", b"x"), ("i", None))) for i in range(5)], codec=codec)
    for _ in range(2_000):
        damaged = bytearray(batch)
        for _ in range(chance.choice((1, 1, 3))):
            damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        try:
            assert len(list(iterate_records(damaged, limit=1 << 16))) <= len(damaged) * 1000
        except KafkaError as error:
            assert error.code in (  # noqa: PT017 either outcome is right
                ErrorCode.CORRUPT_MESSAGE,
                ErrorCode.INVALID_RECORD,
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            )


def test_a_declared_count_allocates_nothing() -> None:
    batch = build_batch([Record(0, 0, None, b"v")])
    batch[records.RECORD_COUNT_AT : records.RECORD_COUNT_AT + 4] = b"\x7f\xff\xff\xff"
    with pytest.raises(KafkaError, match="cannot hold 2147483647 records"):
        iterate_records(batch)


def test_a_header_key_that_is_not_utf8_is_read_with_replacement_as_java_does() -> None:
    batch = build_batch([Record(0, 0, None, None, (("abc", b""),))])
    batch[batch.index(b"abc")] = 0xFF
    (record,) = iterate_records(batch)
    assert record.headers == (("�bc", b""),)
