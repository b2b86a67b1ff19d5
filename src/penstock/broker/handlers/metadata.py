"""Metadata, versions 0 to 13: the brokers, and the topics with their partitions and leaders.

Null topics (an empty list in version 0) means all. A topic that is not there is created when the client allows it and
`auto.create.topics.enable` is on. Kafka answers such a request with UNKNOWN_TOPIC_OR_PARTITION and creates the topic
behind the client's back; here the answer comes when the topic can be used.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.controller.topics import NewTopic, check_topic_name
from penstock.broker.endpoints import reachable
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import Image, PartitionImage, TopicImage
from penstock.metadata.records import NO_LEADER
from penstock.types import ZERO_TOPIC_ID
from penstock.wire.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

IDS_SINCE = 12
NOT_REQUESTED = -(2**31)
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""read, write, create, delete, alter, describe, describe configs, alter configs: all, while there is no authorizer."""
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


async def handle(context: Context, call: Call, request: MetadataRequest) -> MetadataResponse:
    wants_all = request.topics is None or (call.version == 0 and not request.topics)
    wanted = _wanted(call, request)
    failed = {} if wants_all else await _create_missing(context, call, request, wanted)
    image = context.image
    if wants_all:
        topics = [_topic(image, topic, request) for topic in image.topics.values()]
    else:
        topics = [_requested(image, each, request, failed) for each in wanted]
    includes_cluster = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(broker.broker_id, address.host, address.port, broker.rack)
            for broker, address in reachable(image, call.connection)
        ],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if includes_cluster else NOT_REQUESTED,
    )


def _wanted(call: Call, request: MetadataRequest) -> list[MetadataRequestTopic]:
    """The topics that are asked for, each once; by id only since version 12."""
    topics = request.topics or []
    if call.version < IDS_SINCE and any(each.name is None or each.topic_id != ZERO_TOPIC_ID for each in topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "topics are asked for by id from version 12 on")
    return list({(each.name, each.topic_id): each for each in topics}.values())


def refuse(_call: Call, request: MetadataRequest, error: KafkaError) -> MetadataResponse:
    """The request made no sense: each topic says so."""
    refused = [MetadataResponseTopic(error.code, each.name or "", each.topic_id) for each in request.topics or ()]
    return MetadataResponse(topics=refused)


async def _create_missing(
    context: Context, call: Call, request: MetadataRequest, wanted: list[MetadataRequestTopic]
) -> dict[str, ErrorCode]:
    """Create what may be created; the error of each name that was refused."""
    if not context.config.get_bool("auto.create.topics.enable"):
        return {}
    if call.version >= 4 and not request.allow_auto_topic_creation:
        return {}
    known = context.image.topics
    names = [each.name for each in wanted if each.name and each.name not in known]
    if not names:
        return {}
    try:
        results = await context.controller.create_topics([NewTopic(name) for name in names])
    except KafkaError as error:  # the rest of the answer is as good as ever
        return dict.fromkeys(names, error.code)
    errors = {name: result.code for name, result in results.items() if isinstance(result, KafkaError)}
    return {name: code for name, code in errors.items() if code != ErrorCode.TOPIC_ALREADY_EXISTS}


def _requested(
    image: Image, wanted: MetadataRequestTopic, request: MetadataRequest, failed: dict[str, ErrorCode]
) -> MetadataResponseTopic:
    if wanted.name is None or wanted.topic_id != ZERO_TOPIC_ID:
        by_id = image.topics_by_id.get(wanted.topic_id)
        if by_id is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, wanted.topic_id)
        return _topic(image, by_id, request)
    topic = image.topics.get(wanted.name)
    if topic is None:
        return MetadataResponseTopic(failed.get(wanted.name) or why_unknown(wanted.name), wanted.name)
    return _topic(image, topic, request)


def why_unknown(name: str) -> ErrorCode:
    """A topic that is not there, or a name that none can have."""
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _topic(image: Image, topic: TopicImage, request: MetadataRequest) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        0,
        topic.name,
        topic.topic_id,
        topic.is_internal,
        [_partition(image, partition) for partition in topic.partitions],
        TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_REQUESTED,
    )


def _partition(image: Image, partition: PartitionImage) -> MetadataResponsePartition:
    leader = live_leader(image, partition)
    return MetadataResponsePartition(
        ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else 0,
        partition.index,
        leader,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        list(image.offline_replicas(partition)),
    )


def live_leader(image: Image, partition: PartitionImage) -> int:
    """NO_LEADER when the one that was elected is not there any more."""
    return partition.leader if partition.leader in image.brokers else NO_LEADER
