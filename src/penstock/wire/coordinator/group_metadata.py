"""A classic group in one generation: record type 2 of `__consumer_offsets`.

It is written when a generation has its assignment, and when the last member has gone. Version 3 is written, as by
Kafka; version 4 is flexible and may carry tags that later brokers know.
"""

from __future__ import annotations

from penstock.wire.coordinator import RecordType
from penstock.wire.schema import Struct, array, binary, int32, int64, message, string, struct


@message("0")
class GroupMetadataKey(Struct):
    """Which group."""

    group: str = string("0")


@struct
class MemberMetadata(Struct):
    """A member, with its metadata for the protocol that was chosen, and its assignment."""

    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


@message("0-4", flexible="4+")
class GroupMetadataValue(Struct):
    """The generation and its members."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)


GROUP_METADATA = RecordType(2, GroupMetadataKey, GroupMetadataValue)
