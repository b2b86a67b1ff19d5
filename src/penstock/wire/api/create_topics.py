"""CreateTopics (key 19): create topics with partitions, replicas and settings.

A topic has either a number of partitions and a replication factor, or its assignments and -1 for both.

Versions:
- 2: the lowest accepted; throttle time, validate only, error messages
- 4: -1 for partitions or replication factor means the broker's default (KIP-464)
- 5: flexible; the response has the topic's partitions, replicas and settings (KIP-525)
- 6: THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
- 7: the response has the topic id
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, boolean, int8, int16, int32, message, string, struct, uuid


@struct
class CreatableReplicaAssignment(Struct):
    """The brokers of one partition, the preferred leader first."""

    partition_index: int = int32()
    broker_ids: list[int] = array(Kind.INT32)


@struct
class CreatableTopicConfig(Struct):
    """A setting of the new topic."""

    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class CreatableTopic(Struct):
    """A topic to create."""

    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message("2-7", flexible="5+")
class CreateTopicsRequest(Struct):
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean("1+")


@struct
class CreatableTopicConfigs(Struct):
    """A setting that the topic has now, and where it comes from."""

    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+")


@struct
class CreatableTopicResult(Struct):
    """The topic as created, or why not."""

    name: str = string()
    topic_id: bytes = uuid("7+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = int16("5+", tag=0, ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+", ignorable=True)


@message("2-7", flexible="5+")
class CreateTopicsResponse(Struct):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)


API = Api(19, CreateTopicsRequest, CreateTopicsResponse)
