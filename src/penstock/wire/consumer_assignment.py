"""What a consumer of a classic group gets: the assignment that the leader made for it, after a version (int16).

The versions follow those of the subscription; the assignment itself has not changed.
"""

from __future__ import annotations

from penstock.wire.schema import Kind, Struct, array, binary, message, string, struct


@struct
class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@message("0-3")
class ConsumerProtocolAssignment(Struct):
    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = binary(nullable="0+", default=None)
