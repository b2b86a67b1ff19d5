"""A consumer group of KIP-848: record types 3 to 8 and 16 of `__consumer_offsets`.

The group's epoch (3), its members (5), what they shall have (6 for the epoch, 7 per member), what they have now (8),
and what regular expressions matched (16). Type 4 is no longer written since Kafka 4.1: a hash in type 3 replaced it.
"""

from __future__ import annotations

from penstock.wire.coordinator import RecordType
from penstock.wire.schema import Kind, Struct, array, binary, int8, int32, int64, message, nested, string, struct, uuid


@message("0")
class ConsumerGroupMetadataKey(Struct):
    """Which group."""

    group_id: str = string("0")


@message("0", flexible="0+")
class ConsumerGroupMetadataValue(Struct):
    """The group's epoch."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


@message("0")
class ConsumerGroupPartitionMetadataKey(Struct):
    """Which group."""

    group_id: str = string("0")


@struct
class PartitionMetadata(Struct):
    """The racks of a partition."""

    partition: int = int32()
    racks: list[str] = array(Kind.STRING)


@struct
class TopicMetadata(Struct):
    """A topic that the group is subscribed to."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


@message("0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Struct):
    """The topics that the group is subscribed to."""

    topics: list[TopicMetadata] = array(TopicMetadata)


@message("0")
class ConsumerGroupMemberMetadataKey(Struct):
    """Which member."""

    group_id: str = string("0")
    member_id: str = string("0")


@struct
class ClassicProtocol(Struct):
    """One way to assign that a classic member can use."""

    name: str = string()
    metadata: bytes = binary()


@struct
class ClassicMemberMetadata(Struct):
    """What a member that speaks the classic protocol said when it joined."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@message("0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Struct):
    """What a member said of itself."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(Kind.STRING)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(ClassicMemberMetadata, nullable="0+", tag=0)


@message("0")
class ConsumerGroupTargetAssignmentMetadataKey(Struct):
    """Which group."""

    group_id: str = string("0")


@message("0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Struct):
    """The epoch for which the assignment was made."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(tag=0, ignorable=True)


@message("0")
class ConsumerGroupTargetAssignmentMemberKey(Struct):
    """Which member."""

    group_id: str = string("0")
    member_id: str = string("0")


@struct
class TopicPartition(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(Kind.INT32)


@message("0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Struct):
    """What a member is to have."""

    topic_partitions: list[TopicPartition] = array(TopicPartition)


@message("0")
class ConsumerGroupCurrentMemberAssignmentKey(Struct):
    """Which member."""

    group_id: str = string("0")
    member_id: str = string("0")


@struct
class TopicPartitions(Struct):
    """Partitions of one topic, and since when each is the member's."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(Kind.INT32)
    assignment_epochs: list[int] | None = array(Kind.INT32, nullable="0+", tag=0, default=None)


@message("0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Struct):
    """What a member has, and must give back."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


@message("0")
class ConsumerGroupRegularExpressionKey(Struct):
    """Which expression of which group."""

    group_id: str = string("0")
    regular_expression: str = string("0")


@message("0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Struct):
    """The topics that it matched."""

    topics: list[str] = array(Kind.STRING)
    version: int = int64()
    timestamp: int = int64()


CONSUMER_GROUP_METADATA = RecordType(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue)
CONSUMER_GROUP_PARTITION_METADATA = RecordType(
    4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue
)
CONSUMER_GROUP_MEMBER_METADATA = RecordType(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = RecordType(
    6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = RecordType(
    7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = RecordType(
    8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue
)
CONSUMER_GROUP_REGULAR_EXPRESSION = RecordType(
    16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue
)
