"""How far a group has read in one partition: record types 0 and 1 of `__consumer_offsets`.

Type 0 is what Kafka wrote before 0.9; it is read, never written. Version 4 of the value is flexible and is what Kafka
4.3 writes, and so do we; version 1 is written where the client asked for a time of its own to expire, which no other
version has.
"""

from __future__ import annotations

from penstock.wire.coordinator import RecordType
from penstock.wire.schema import Struct, int32, int64, message, string, uuid


@message("0")
class LegacyOffsetCommitKey(Struct):
    """Whose offset, and of which partition."""

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


@message("0")
class LegacyOffsetCommitValue(Struct):
    """The offset as once written."""

    offset: int = int64("0")
    metadata: str = string("0")
    commit_timestamp: int = int64("0")


@message("0")
class OffsetCommitKey(Struct):
    """Whose offset, and of which partition."""

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


@message("0-4", flexible="4+")
class OffsetCommitValue(Struct):
    """The offset: the next one to read."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", tag=0, ignorable=True)


LEGACY_OFFSET_COMMIT = RecordType(0, LegacyOffsetCommitKey, LegacyOffsetCommitValue)
OFFSET_COMMIT = RecordType(1, OffsetCommitKey, OffsetCommitValue)
