"""DeleteTopics, versions 1 to 6: by name, or from version 6 by name or id.

A deleted topic is gone for clients when the answer comes; its files are renamed at once and removed after
`file.delete.delay.ms`.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.controller.topics import DeletedTopic, TopicRef
from penstock.types import TopicId
from penstock.wire.api.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

IDS_SINCE = 6


async def handle(context: Context, call: Call, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if call.version >= IDS_SINCE:
        refs = [TopicRef(topic.name, TopicId(topic.topic_id)) for topic in request.topics]
    else:
        refs = [TopicRef(name) for name in request.topic_names]
    results = await context.controller.delete_topics(refs)
    return DeleteTopicsResponse(responses=[_result(result) for result in results])


def _result(result: DeletedTopic) -> DeletableTopicResult:
    if result.error is None:
        return DeletableTopicResult(result.name, result.topic_id)
    return DeletableTopicResult(result.name, result.topic_id, result.error.code, result.error.message)
