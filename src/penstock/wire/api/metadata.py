"""Metadata (key 3): the brokers, and the partitions, leaders and replicas of topics.

From version 1 on null topics means all of them and an empty list none; in version 0 an empty list means all.

Versions:
- 1: racks, controller, internal topics; null for all topics
- 2: cluster id
- 3: throttle time
- 4: the client says whether topics may be created by asking
- 5: offline replicas
- 7: leader epochs
- 8: authorized operations on request (KIP-430)
- 9: flexible
- 10: topic ids in the response; in the request they are carried but not used
- 11: no authorized operations of the cluster, DescribeCluster has them (KIP-700)
- 12: topics may be asked for by id
- 13: a top-level error (KIP-1102)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, boolean, int16, int32, message, string, struct, uuid


@struct
class MetadataRequestTopic(Struct):
    """A topic by name, or by id with a null name."""

    topic_id: bytes = uuid("10+", ignorable=True)
    name: str | None = string(nullable="10+")


@message("0-13", flexible="9+")
class MetadataRequest(Struct):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


@struct
class MetadataResponseBroker(Struct):
    """A broker and its address."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


@struct
class MetadataResponsePartition(Struct):
    """A partition, its leader and its replicas."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array(Kind.INT32)
    isr_nodes: list[int] = array(Kind.INT32)
    offline_replicas: list[int] = array(Kind.INT32, "5+", ignorable=True)


@struct
class MetadataResponseTopic(Struct):
    """A topic with its partitions, or why it has none."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-(2**31))


@message("0-13", flexible="9+")
class MetadataResponse(Struct):
    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-(2**31))
    error_code: int = int16("13+", ignorable=True)


API = Api(3, MetadataRequest, MetadataResponse)
