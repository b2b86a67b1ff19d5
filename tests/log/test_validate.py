"""What a leader refuses, and with which of Kafka's codes; what it changes in a batch that it takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from log.batches import NOW_MS, batch
from log.worlds import World, offsets_and_values, read_all
from penstock.errors import ErrorCode, KafkaError
from penstock.log.config import LogConfig
from penstock.wire.compression import compress
from penstock.wire.record import iterate_records
from penstock.wire.records import (
    ATTRIBUTES,
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH,
    LOG_OVERHEAD,
    TRANSACTIONAL_BIT,
    Codec,
    check_batch,
    read_header,
    update_crc,
)

HOUR_MS = 3_600_000


def flip_last_byte() -> bytearray:
    data = batch()
    data[-1] ^= 1
    return data


def with_length(length: int) -> bytearray:
    data = batch()
    LENGTH.pack_into(data, BATCH_LENGTH_AT, length)
    return data


REFUSED: list[tuple[str, Callable[[], bytearray], ErrorCode]] = [
    ("nothing at all", lambda: bytearray(), ErrorCode.INVALID_RECORD),
    ("a cut header", lambda: batch()[:40], ErrorCode.INVALID_RECORD),
    ("a cut batch", lambda: batch()[:-1], ErrorCode.INVALID_RECORD),
    ("two batches", lambda: batch() + batch(), ErrorCode.INVALID_RECORD),
    ("an old format", lambda: batch(magic=1), ErrorCode.INVALID_RECORD),
    ("a future format", lambda: batch(magic=3), ErrorCode.CORRUPT_MESSAGE),
    ("a length that holds no header", lambda: with_length(20), ErrorCode.CORRUPT_MESSAGE),
    ("a negative length", lambda: with_length(-1), ErrorCode.CORRUPT_MESSAGE),
    ("a wrong checksum", flip_last_byte, ErrorCode.CORRUPT_MESSAGE),
    ("a base offset", lambda: batch(offset=7), ErrorCode.INVALID_RECORD),
    ("no records", lambda: batch(count=0, last_delta=-1), ErrorCode.INVALID_RECORD),
    ("a count that is not the last delta + 1", lambda: batch([b"a", b"b"], count=3), ErrorCode.INVALID_RECORD),
    ("a control batch", lambda: batch(attributes=CONTROL_BIT), ErrorCode.INVALID_RECORD),
    ("an unknown codec", lambda: batch(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ("a producer without sequence", lambda: batch(producer=(7, 0, -1)), ErrorCode.INVALID_RECORD),
    (
        "a transactional batch outside a transaction",
        lambda: batch(attributes=TRANSACTIONAL_BIT, producer=(7, 0, 0)),
        ErrorCode.INVALID_TXN_STATE,
    ),
    ("a timestamp too far ahead", lambda: batch(timestamp=NOW_MS + HOUR_MS + 1), ErrorCode.INVALID_TIMESTAMP),
    ("a batch above max.message.bytes", lambda: batch([b"x" * 2000]), ErrorCode.MESSAGE_TOO_LARGE),
]


@pytest.mark.parametrize(("what", "make", "code"), REFUSED, ids=[each[0] for each in REFUSED])
def test_a_leader_refuses(what: str, make: Callable[[], bytearray], code: ErrorCode) -> None:
    log = World().open(LogConfig(max_message_bytes=1000))
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(make(), 0)
    assert caught.value.code == code
    assert log.log_end_offset == 0
    assert log.size_bytes == 0


def test_a_batch_above_a_segment_is_too_large_for_the_list() -> None:
    log = World().open(LogConfig(segment_bytes=500))
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch([b"x" * 600]), 0)
    assert caught.value.code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_an_old_timestamp_is_refused_only_where_the_topic_says_so() -> None:
    World().open().append_as_leader(batch(timestamp=1), 0)
    World().open().append_as_leader(batch(timestamp=-1), 0)
    log = World().open(LogConfig(message_timestamp_before_max_ms=1000))
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(timestamp=NOW_MS - 1001), 0)
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
    log.append_as_leader(batch(timestamp=NOW_MS - 1000), 0)


def test_a_compacted_topic_needs_keys() -> None:
    log = World().open(LogConfig(cleanup_policy=frozenset(("compact",))))
    log.append_as_leader(batch(key=b"k"), 0)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(key=None), 0)
    assert caught.value.code == ErrorCode.INVALID_RECORD


def test_log_append_time_replaces_the_producers_time() -> None:
    world = World()
    log = world.open(LogConfig(message_timestamp_type="LogAppendTime"))
    result = log.append_as_leader(batch([b"a", b"b"], timestamp=5), 0)
    assert result.log_append_time_ms == NOW_MS
    (data,) = read_all(log, 0)
    header = check_batch(data, 0, len(data))
    assert (header.timestamp_type, header.max_timestamp) == (1, NOW_MS)
    assert [record.timestamp for record in iterate_records(data)] == [NOW_MS, NOW_MS]


def test_create_time_keeps_the_producers_time() -> None:
    log = World().open()
    assert log.append_as_leader(batch(timestamp=5), 0).log_append_time_ms == -1


@pytest.mark.parametrize("stored", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", list(Codec))
def test_a_topic_with_a_codec_of_its_own_stores_that(stored: str, sent: Codec) -> None:
    values = [b"value %d" % number * 10 for number in range(20)]
    plain = batch(values, producer=(9, 1, 0))
    data = plain[:HEADER_SIZE] + bytearray(compress(sent, plain[HEADER_SIZE:]))
    LENGTH.pack_into(data, BATCH_LENGTH_AT, len(data) - LOG_OVERHEAD)
    ATTRIBUTES.pack_into(data, ATTRIBUTES_AT, sent)
    update_crc(data, 0)
    log = World().open(LogConfig(compression_type=stored))
    log.append_as_leader(data, 0)
    (found,) = read_all(log, 0)
    header = check_batch(found, 0, len(found))
    assert header.compression.name.lower() == ("none" if stored == "uncompressed" else stored)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 1, 0)
    assert [value for _, value in offsets_and_values(log, 0)] == values


def test_the_leader_stamps_the_callers_buffer_and_nothing_else_in_it() -> None:
    log = World().open()
    log.append_as_leader(batch(), 4)
    data = batch([b"a", b"b"])
    before = bytes(data)
    log.append_as_leader(memoryview(data), 4)
    header = read_header(data)
    assert (header.base_offset, header.partition_leader_epoch) == (1, 4)
    assert data[8:12] + data[16:] == before[8:12] + before[16:]


def test_a_follower_takes_batches_as_they_are_and_leaves_a_cut_one_out() -> None:
    log = World().open()
    first, second = batch([b"a", b"b"], offset=0, epoch=2), batch([b"c"], offset=2, epoch=5)
    result = log.append_as_follower(first + second + second[:30])
    assert (result.base_offset, result.last_offset, log.log_end_offset) == (0, 2, 3)
    assert log.epochs.entries == ((2, 0), (5, 2))
    assert b"".join(read_all(log, 0)) == first + second


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (batch(offset=1, epoch=2), ErrorCode.OFFSET_OUT_OF_RANGE),
        (batch(offset=0, epoch=2) + batch(offset=2, epoch=2), ErrorCode.OFFSET_OUT_OF_RANGE),
        (batch(offset=0, epoch=2) + batch(offset=1, epoch=1), ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_a_follower_refuses_what_does_not_follow(data: bytearray, code: ErrorCode) -> None:
    log = World().open()
    with pytest.raises(KafkaError) as caught:
        log.append_as_follower(data)
    assert caught.value.code == code
    assert log.log_end_offset == 0


def test_a_follower_refuses_a_wrong_checksum() -> None:
    log = World().open()
    data = batch(offset=0, epoch=0)
    data[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        log.append_as_follower(data)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
