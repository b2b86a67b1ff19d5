"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, lives, changes and leaves, all in one (KIP-848).

A field that did not change since the last heartbeat is null, or -1. Member epochs: 0 joins, -1 leaves, -2 leaves for
now (a static member that will be back).

Versions:
- 1: subscription by regular expression; the client makes its own member id (KIP-1082)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, int16, int32, message, nested, string, struct, uuid


@struct
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(Kind.INT32)


@message("0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Struct):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(Kind.STRING, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, nullable="0+", default=None)


@struct
class Assignment(Struct):
    """What the member may read at once."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@message("0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Struct):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable="0+")


API = Api(68, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse)
