"""What a consumer of a classic group wants: the metadata that it joins with, after a version (int16).

The broker passes these bytes on without reading them, except to learn which topics a group is subscribed to, and to
take a classic group over into a consumer group. A version newer than ours begins with the fields that we know.

Versions:
- 1: the partitions that the member owns (KIP-429)
- 2: the generation in which it owned them (KIP-792)
- 3: its rack (KIP-881)
"""

from __future__ import annotations

from penstock.wire.schema import Kind, Struct, array, binary, int32, message, string, struct


@struct
class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = string("1+")
    partitions: list[int] = array(Kind.INT32, "1+")


@message("0-3")
class ConsumerProtocolSubscription(Struct):
    topics: list[str] = array(Kind.STRING)
    user_data: bytes | None = binary(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
