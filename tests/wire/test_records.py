"""The batch header: golden batches of real clients, what is refused and with which code, and the leader's marks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import ErrorCode, KafkaError
from penstock.wire import records
from penstock.wire.crc32c import crc32c
from penstock.wire.records import BatchHeader, Codec, TimestampType

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "golden" / "frames.jsonl"

# One record "some-message" without a key, as aiokafka sent it.
AIOKAFKA_BATCH = bytes.fromhex(
    "000000000000000000000044ffffffff028009cf42000000000000000001a1e13f317a000001a1e13f317affffffffffffffffffff000000000000"
    "0001240000000118736f6d652d6d65737361676500"
)
PRODUCED = BatchHeader(0, 49, -1, 2, 0, 0, 0, 1_000, 1_000, -1, -1, -1, 1)


def changed(offset: int, replacement: bytes, *, crc: bool = True) -> bytearray:
    batch = bytearray(AIOKAFKA_BATCH)
    batch[offset : offset + len(replacement)] = replacement
    if crc:
        records.update_crc(batch, 0)
    return batch


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def test_the_header_of_a_client_s_batch_is_read_field_by_field() -> None:
    header = records.check_batch(AIOKAFKA_BATCH, 0, len(AIOKAFKA_BATCH))
    assert header == BatchHeader(
        base_offset=0,
        batch_length=68,
        partition_leader_epoch=-1,
        magic=2,
        crc=0x8009CF42,
        attributes=0,
        last_offset_delta=0,
        base_timestamp=1794780377466,
        max_timestamp=1794780377466,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=0,
        record_count=1,
    )
    assert (header.size_bytes, header.last_offset, header.next_offset) == (80, 0, 1)
    assert header.compression is Codec.NONE


def test_the_offsets_of_the_fields_are_those_of_the_struct() -> None:
    assert records.HEADER_SIZE == 61
    values = (1, 2, 3, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13)
    packed = records.HEADER.pack(*values)
    for at, size, value in [
        (records.BASE_OFFSET_AT, 8, 1),
        (records.BATCH_LENGTH_AT, 4, 2),
        (records.PARTITION_LEADER_EPOCH_AT, 4, 3),
        (records.MAGIC_AT, 1, 2),
        (records.CRC_AT, 4, 5),
        (records.ATTRIBUTES_AT, 2, 6),
        (records.LAST_OFFSET_DELTA_AT, 4, 7),
        (records.BASE_TIMESTAMP_AT, 8, 8),
        (records.MAX_TIMESTAMP_AT, 8, 9),
        (records.PRODUCER_ID_AT, 8, 10),
        (records.PRODUCER_EPOCH_AT, 2, 11),
        (records.BASE_SEQUENCE_AT, 4, 12),
        (records.RECORD_COUNT_AT, 4, 13),
    ]:
        assert int.from_bytes(packed[at : at + size], "big") == value


def test_attribute_bits_are_told_apart() -> None:
    header = PRODUCED._replace(attributes=0x04 | 0x08 | 0x10 | 0x20 | 0x40)
    assert header.compression is Codec.ZSTD
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.is_transactional, header.is_control, header.has_delete_horizon) == (True, True, True)
    assert PRODUCED.timestamp_type is TimestampType.CREATE_TIME
    assert (PRODUCED.is_transactional, PRODUCED.is_control, PRODUCED.has_delete_horizon) == (False, False, False)


def test_sequences_wrap_to_zero_after_the_largest_int32() -> None:
    assert PRODUCED._replace(base_sequence=2**31 - 2, last_offset_delta=3).last_sequence == 1
    assert PRODUCED._replace(base_sequence=2**31 - 1, last_offset_delta=0).last_sequence == 2**31 - 1
    assert PRODUCED.last_sequence == -1
    assert records.increment_sequence(2**31 - 1, 1) == 0
    assert records.decrement_sequence(0, 1) == 2**31 - 1


def test_the_checksum_is_the_published_one() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_every_bit_under_the_checksum_is_protected() -> None:
    for index in range(records.ATTRIBUTES_AT, len(AIOKAFKA_BATCH)):
        batch = bytearray(AIOKAFKA_BATCH)
        batch[index] ^= 1
        assert code_of(lambda b=batch: records.check_batch(b, 0, len(b))) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", range(len(AIOKAFKA_BATCH)))
def test_a_cut_batch_is_corrupt_at_every_length_and_never_another_error(length: int) -> None:
    assert code_of(lambda: records.check_batch(AIOKAFKA_BATCH[:length], 0, length)) is ErrorCode.CORRUPT_MESSAGE
    assert (
        code_of(lambda: records.check_produce_request(AIOKAFKA_BATCH[:length], 0, length)) is ErrorCode.INVALID_RECORD
    )
    assert list(records.iterate_headers(AIOKAFKA_BATCH[:length])) == []


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (changed(records.BATCH_LENGTH_AT, b"\xff\xff\xff\xff", crc=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(records.BATCH_LENGTH_AT, b"\x00\x00\x00\x0d", crc=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(records.BATCH_LENGTH_AT, b"\x00\x00\x00\x30", crc=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(records.MAGIC_AT, b"\x03"), ErrorCode.CORRUPT_MESSAGE),
        (changed(records.MAGIC_AT, b"\xff"), ErrorCode.CORRUPT_MESSAGE),
        (changed(records.MAGIC_AT, b"\x01"), ErrorCode.INVALID_RECORD),
        (changed(records.MAGIC_AT, b"\x00"), ErrorCode.INVALID_RECORD),
        (changed(records.CRC_AT, b"\x00\x00\x00\x00", crc=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(records.ATTRIBUTES_AT, b"\x00\x20"), ErrorCode.INVALID_RECORD),
        (changed(records.ATTRIBUTES_AT, b"\x00\x05"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (changed(records.BASE_OFFSET_AT, b"\x00\x00\x00\x00\x00\x00\x00\x01"), ErrorCode.INVALID_RECORD),
        (changed(records.LAST_OFFSET_DELTA_AT, b"\x00\x00\x00\x01"), ErrorCode.INVALID_RECORD),
        (changed(records.LAST_OFFSET_DELTA_AT, b"\xff\xff\xff\xff"), ErrorCode.INVALID_RECORD),
        (changed(records.RECORD_COUNT_AT, b"\x00\x00\x00\x00"), ErrorCode.INVALID_RECORD),
        (changed(records.RECORD_COUNT_AT, b"\xff\xff\xff\xff"), ErrorCode.INVALID_RECORD),
        (bytearray(AIOKAFKA_BATCH * 2), ErrorCode.INVALID_RECORD),
        (bytearray(), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_produce_request_s_mistakes_get_kafka_s_codes(batch: bytearray, code: ErrorCode) -> None:
    assert code_of(lambda: records.check_produce_request(batch, 0, len(batch))) is code


def test_trailing_bytes_that_are_no_batch_are_ignored_as_kafka_trims_them() -> None:
    buf = AIOKAFKA_BATCH + AIOKAFKA_BATCH[:-1]
    assert records.check_produce_request(buf, 0, len(buf)).size_bytes == len(AIOKAFKA_BATCH)


def test_headers_are_iterated_with_their_positions_and_a_cut_one_is_left_out() -> None:
    size = len(AIOKAFKA_BATCH)
    buf = memoryview(AIOKAFKA_BATCH * 3 + AIOKAFKA_BATCH[:70])
    assert [pos for pos, _ in records.iterate_headers(buf)] == [0, size, 2 * size]
    assert [pos for pos, _ in records.iterate_headers(buf, size, 2 * size)] == [size]


def test_the_leader_s_offset_and_epoch_are_written_in_place_outside_the_checksum() -> None:
    buf = bytearray(b"xx" + AIOKAFKA_BATCH)
    records.assign_offsets(memoryview(buf), 2, 2**40, 7)
    header = records.check_batch(buf, 2, len(buf))
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 7)
    assert header.crc == 0x8009CF42


def test_log_append_time_sets_the_bit_and_the_largest_timestamp_and_the_checksum() -> None:
    buf = bytearray(AIOKAFKA_BATCH)
    records.set_log_append_time(buf, 0, 1_234)
    header = records.check_batch(buf, 0, len(buf))
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == 1_234
    assert header.base_timestamp == 1794780377466


@pytest.mark.skipif(not GOLDEN.exists(), reason="the recorded frames of real clients are not beside the repository")
def test_batches_in_recorded_frames_of_real_clients_are_intact() -> None:
    found = 0
    for line in GOLDEN.read_text().splitlines():
        frame = json.loads(line)
        if frame["api"] == 0 and frame["direction"] == "request":
            found += count_batches(bytes.fromhex(frame["frame"]))
    assert found > 50


def count_batches(frame: bytes) -> int:
    """Batches anywhere in the frame: where magic is 2 and the length fits, the checksum must too."""
    found = 0
    for pos in range(len(frame) - records.HEADER_SIZE):
        try:
            records.check_batch(frame, pos, len(frame))
        except KafkaError:
            continue
        found += 1
    return found
