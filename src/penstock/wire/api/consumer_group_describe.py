"""ConsumerGroupDescribe (key 69): consumer groups with their members, what they have and what they will have (KIP-848).

Versions:
- 1: the kind of each member, for groups under way from the classic protocol (KIP-1099)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, boolean, int8, int16, int32, message, nested, string, struct, uuid


@message("0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Struct):
    group_ids: list[str] = array(Kind.STRING)
    include_authorized_operations: bool = boolean()


@struct
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(Kind.INT32)


@struct
class Assignment(Struct):
    """Partitions of a member."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@struct
class Member(Struct):
    """A member, its present and its future."""

    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(Kind.STRING)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: Assignment = nested(Assignment)
    target_assignment: Assignment = nested(Assignment)
    member_type: int = int8("1+", default=-1, ignorable=True)


@struct
class DescribedGroup(Struct):
    """A group in full."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


@message("0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Struct):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)


API = Api(69, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse)
