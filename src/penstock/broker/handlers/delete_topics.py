"""DeleteTopics, versions 1 to 6: by name, or from version 6 by name or id.

A deleted topic is gone for clients when the answer comes; its files are renamed at once and removed after
`file.delete.delay.ms`.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.controller.topics import DeletedTopic, TopicRef
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicId
from penstock.wire.api.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

IDS_SINCE = 6
DISABLED_SINCE = 3
"""Older clients do not know TOPIC_DELETION_DISABLED and are told INVALID_REQUEST."""


async def handle(context: Context, call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    results = await context.controller.delete_topics(_refs(call, request))
    return DeleteTopicsResponse(responses=[_result(call, result) for result in results])


def refuse(call: Call, request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    """Nothing was deleted: each topic says why."""
    return DeleteTopicsResponse(
        responses=[_result(call, DeletedTopic(ref.name, ref.topic_id, error)) for ref in _refs(call, request)]
    )


def _refs(call: Call, request: DeleteTopicsRequest) -> list[TopicRef]:
    if call.version >= IDS_SINCE:
        return [TopicRef(topic.name, TopicId(topic.topic_id)) for topic in request.topics]
    return [TopicRef(name) for name in request.topic_names]


def _result(call: Call, result: DeletedTopic) -> DeletableTopicResult:
    if result.error is None:
        return DeletableTopicResult(result.name, result.topic_id)
    code = result.error.code
    if code == ErrorCode.TOPIC_DELETION_DISABLED and call.version < DISABLED_SINCE:
        code = ErrorCode.INVALID_REQUEST
    return DeletableTopicResult(result.name, result.topic_id, code, result.error.message)
