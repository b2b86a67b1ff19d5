"""What a group writes to `__consumer_offsets`, as values, and their bytes.

    OffsetRecord    how far a group has read in one partition; without a value: that is forgotten
    GroupRecord     a classic group's generation; without a value: the group is forgotten
    ConsumerRecord  something of a consumer group (see `consumer_records`)
    TransactionalOffset  an OffsetRecord in a transactional batch: it counts when the producer's commit marker comes
    TransactionEnd  a marker

The bytes are Kafka's (see `wire/coordinator`). An offset is written for every commit of every consumer, so its bytes
are put together by hand here, and a test compares them with the codec's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from penstock.broker.groups.consumer_records import (
    TYPES,
    ConsumerRecord,
    decode_consumer_record,
    encode_consumer_record,
)
from penstock.errors import MalformedError
from penstock.types import ZERO_TOPIC_ID, Bytes
from penstock.wire.coordinator import record_type_number
from penstock.wire.coordinator.group_metadata import GROUP_METADATA, GroupMetadataKey, GroupMetadataValue
from penstock.wire.coordinator.offset_commit import (
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from penstock.wire.records import BatchHeader

GROUP_METADATA_VERSION = 3
EXPIRING_OFFSET_VERSION = 1
NO_TIMESTAMP = -1

KeyValue = tuple[bytes, bytes | None]

ABORT_MARKER = 0
COMMIT_MARKER = 1
_CONTROL_KEY = struct.Struct(">hh")
_KEY_HEAD = struct.Struct(">hh")
_LENGTH = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_VALUE_HEAD = struct.Struct(">hqi")
_TIMESTAMP = struct.Struct(">q")
_TOPIC_ID_TAG = b"\x01\x00\x10"
"""One tag, number 0, 16 bytes."""
_SHORT_TEXT = 126
"""A compact length is one byte up to here."""


class CommittedOffset(NamedTuple):
    """The next offset to read, and what was committed with it."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: bytes = ZERO_TOPIC_ID


class OffsetRecord(NamedTuple):
    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None


class GroupRecord(NamedTuple):
    group_id: str
    value: GroupMetadataValue | None


class TransactionalOffset(NamedTuple):
    """An offset that its producer's transaction has yet to decide."""

    producer_id: int
    record: OffsetRecord


class TransactionEnd(NamedTuple):
    """The marker that ends a producer's transaction."""

    producer_id: int
    committed: bool


Record: TypeAlias = OffsetRecord | GroupRecord | ConsumerRecord
Logged: TypeAlias = Record | TransactionalOffset | TransactionEnd
"""What a log holds, with what transactions make of it."""


def encode(record: Record) -> KeyValue:
    if isinstance(record, OffsetRecord):
        key = offset_key(record.group_id, record.topic, record.partition)
        return key, None if record.value is None else offset_value(record.value)
    if isinstance(record, ConsumerRecord):
        return encode_consumer_record(record)
    key = GROUP_METADATA.encode_key(GroupMetadataKey(record.group_id))
    if record.value is None:
        return key, None
    return key, GROUP_METADATA.encode_value(record.value, GROUP_METADATA_VERSION)


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    group, name = group_id.encode(), topic.encode()
    return b"".join(
        (_KEY_HEAD.pack(1, len(group)), group, _LENGTH.pack(len(name)), name, _INT32.pack(partition))
    )  # fmt: skip


def offset_value(value: CommittedOffset) -> bytes:
    """Version 4, or version 1 where the client chose its own time to expire, which only that one holds."""
    metadata = value.metadata.encode()
    if value.expire_timestamp_ms != NO_TIMESTAMP or len(metadata) > _SHORT_TEXT:
        return _offset_value_by_codec(value)
    head = _VALUE_HEAD.pack(4, value.offset, value.leader_epoch)
    tag = b"\x00" if value.topic_id == ZERO_TOPIC_ID else _TOPIC_ID_TAG + value.topic_id
    return b"".join((head, bytes((len(metadata) + 1,)), metadata, _TIMESTAMP.pack(value.commit_timestamp_ms), tag))


def _offset_value_by_codec(value: CommittedOffset) -> bytes:
    version = 4 if value.expire_timestamp_ms == NO_TIMESTAMP else EXPIRING_OFFSET_VERSION
    message = OffsetCommitValue(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp_ms,
        value.expire_timestamp_ms,
        value.topic_id,
    )
    return OFFSET_COMMIT.encode_value(message, version)


def decode_logged(key: Bytes, value: Bytes | None, header: BatchHeader) -> Sequence[Logged]:
    """What a record in a batch with this header says. MalformedError as in `decode`."""
    if header.is_control:
        return _decode_marker(key, header.producer_id)
    decoded = decode(key, value)
    if not header.is_transactional:
        return decoded
    return [TransactionalOffset(header.producer_id, each) for each in decoded if isinstance(each, OffsetRecord)]


def _decode_marker(key: Bytes, producer_id: int) -> Sequence[Logged]:
    """A control record's key is a version and a type, both int16; types other than abort and commit are not ours."""
    if len(key) < _CONTROL_KEY.size:
        raise MalformedError("a control record has a key that is too short")
    _, control_type = _CONTROL_KEY.unpack_from(key)
    if control_type not in (ABORT_MARKER, COMMIT_MARKER):
        return ()
    return (TransactionEnd(producer_id, control_type == COMMIT_MARKER),)


def decode(key: Bytes, value: Bytes | None) -> tuple[Record, ...]:
    """The record, or nothing for a type that we do not know. MalformedError when it is not what its type says."""
    number = record_type_number(key)
    if number == OFFSET_COMMIT.number:
        return (_decode_offset(key, value),)
    if number == GROUP_METADATA.number:
        group = GROUP_METADATA.decode_key(key)
        assert isinstance(group, GroupMetadataKey)
        return (GroupRecord(group.group, None if value is None else _decode_group(value)),)
    if number in TYPES:
        return (decode_consumer_record(number, key, value),)
    if number == LEGACY_OFFSET_COMMIT.number:
        return (_decode_legacy_offset(key, value),)
    return ()


def _decode_offset(key: Bytes, value: Bytes | None) -> OffsetRecord:
    whose = OFFSET_COMMIT.decode_key(key)
    assert isinstance(whose, OffsetCommitKey)
    return OffsetRecord(whose.group, whose.topic, whose.partition, None if value is None else _read_offset(value))


def _decode_legacy_offset(key: Bytes, value: Bytes | None) -> OffsetRecord:
    """The value's versions are the same."""
    whose = LEGACY_OFFSET_COMMIT.decode_key(key)
    assert isinstance(whose, LegacyOffsetCommitKey)
    return OffsetRecord(whose.group, whose.topic, whose.partition, None if value is None else _read_offset(value))


def _read_offset(value: Bytes) -> CommittedOffset:
    read = OFFSET_COMMIT.decode_value(value)
    assert isinstance(read, OffsetCommitValue)
    return CommittedOffset(
        read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, read.expire_timestamp, read.topic_id
    )


def _decode_group(value: Bytes) -> GroupMetadataValue:
    read = GROUP_METADATA.decode_value(value)
    assert isinstance(read, GroupMetadataValue)
    if any(member.session_timeout < 0 for member in read.members):
        raise MalformedError("a member of a group has a negative session timeout")
    return read
