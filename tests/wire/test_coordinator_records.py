"""The records of `__consumer_offsets`: round trips, Kafka's bytes, and what newer brokers may have written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messages import any_message
from penstock.wire.compile import encode
from penstock.wire.coordinator import RecordType, consumer_group, group_metadata, offset_commit, record_type_number
from penstock.wire.coordinator.offset_commit import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from penstock.wire.schema import layout_of

RECORDS = [
    value
    for module in (offset_commit, group_metadata, consumer_group)
    for value in vars(module).values()
    if isinstance(value, RecordType)
]
EVERY = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.key.__name__.removesuffix("Key"))


@EVERY
@settings(max_examples=15, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_a_record_reads_back_as_it_was_written(record, chance):
    key = any_message(chance, record.key, 0)
    written = record.encode_key(key)
    assert record_type_number(written) == record.number
    assert record.decode_key(written) == key
    for version in layout_of(record.value).versions:
        value = any_message(chance, record.value, version)
        assert record.decode_value(record.encode_value(value, version)) == value


def test_the_bytes_are_those_that_kafka_writes():
    key = OFFSET_COMMIT.encode_key(OffsetCommitKey("g", "t", 3))
    assert key.hex(" ") == "00 01 00 01 67 00 01 74 00 00 00 03"
    value = OFFSET_COMMIT.encode_value(OffsetCommitValue(offset=5, leader_epoch=-1, metadata="", commit_timestamp=7), 4)
    assert value.hex(" ") == (
        "00 04 00 00 00 00 00 00 00 05 ff ff ff ff 01 00 00 00 00 00 00 00 07 00"  # no topic id, so no tag
    )


def test_a_newer_version_of_a_value_is_read_as_the_newest_we_know():
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=7)
    newer = b"\x00\x09" + encode(value, 4) + b"what version 9 adds"
    assert OFFSET_COMMIT.decode_value(newer) == value


def test_bytes_too_few_for_a_type_are_of_no_type():
    assert record_type_number(b"") == -1
    assert record_type_number(b"\x00") == -1
