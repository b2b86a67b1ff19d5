"""What groups write: the bytes made by hand are those of the codec, and are read back as they were."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.groups.records import CommittedOffset, GroupRecord, OffsetRecord, decode, encode, offset_key
from penstock.wire.coordinator.group_metadata import GroupMetadataValue, MemberMetadata
from penstock.wire.coordinator.offset_commit import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue

TEXT = st.text(max_size=200)
INT64 = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.builds(
    CommittedOffset,
    offset=INT64,
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=TEXT,
    commit_timestamp_ms=INT64,
    expire_timestamp_ms=st.just(-1),
    topic_id=st.sampled_from([bytes(16), bytes(range(16))]),
)


@given(TEXT, TEXT, st.integers(0, 2**31 - 1), OFFSETS)
def test_an_offset_is_written_as_the_codec_writes_it_and_read_back(group, topic, partition, value):
    key, written = encode(OffsetRecord(group, topic, partition, value))
    assert key == OFFSET_COMMIT.encode_key(OffsetCommitKey(group, topic, partition))
    by_codec = OffsetCommitValue(value.offset, value.leader_epoch, value.metadata, value.commit_timestamp_ms)
    by_codec.topic_id = value.topic_id
    assert written == OFFSET_COMMIT.encode_value(by_codec, 4)
    assert decode(key, written) == (OffsetRecord(group, topic, partition, value),)


def test_a_time_to_expire_is_kept_at_the_price_of_the_epoch_and_the_topic_id():
    value = CommittedOffset(5, 3, "note", 1000, 61_000, bytes(range(16)))
    key, written = encode(OffsetRecord("g", "t", 0, value))
    assert written is not None
    assert written[:2] == b"\x00\x01"
    assert decode(key, written) == (OffsetRecord("g", "t", 0, CommittedOffset(5, -1, "note", 1000, 61_000)),)


def test_a_group_is_read_back():
    member = MemberMetadata("m", "instance", "client", "/host", 60_000, 10_000, b"subscription", b"assignment")
    record = GroupRecord("g", GroupMetadataValue("consumer", 3, "range", "m", 1000, [member]))
    assert decode(*encode(record)) == (record,)


def test_tombstones_are_read_back():
    for record in (OffsetRecord("g", "t", 1, None), GroupRecord("g", None)):
        key, value = encode(record)
        assert value is None
        assert decode(key, value) == (record,)


def test_an_offset_from_before_kafka_0_9_is_read():
    key = b"\x00\x00" + offset_key("g", "t", 1)[2:]
    value = bytes.fromhex("0000 0000000000000005 0001 78 0000000000000007")
    assert decode(key, value) == (OffsetRecord("g", "t", 1, CommittedOffset(5, -1, "x", 7)),)


def test_a_type_that_we_do_not_know_is_passed_over():
    assert decode(b"\x00\x63whatever", b"whatever") == ()
