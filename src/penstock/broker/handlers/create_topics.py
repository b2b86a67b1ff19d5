"""CreateTopics, versions 2 to 7: new topics, each accepted or refused by itself.

The answer comes when the topics can be used: their logs are open and produce to them works. From version 5 on it tells
the settings that the topic has.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.controller.topics import CreatedTopic, NewTopic
from penstock.errors import KafkaError
from penstock.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(context: Context, _call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    topics = [_new_topic(topic) for topic in request.topics]
    results = await context.controller.create_topics(topics, validate_only=request.validate_only)
    return CreateTopicsResponse(topics=[_result(context, name, result) for name, result in results.items()])


def refuse(_call: Call, request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    """Nothing was created: each topic says why."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=each.name, error_code=error.code, error_message=error.message)
            for each in request.topics
        ]
    )


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        tuple((each.name, each.value) for each in topic.configs),
    )


def _result(context: Context, name: str, result: CreatedTopic | KafkaError) -> CreatableTopicResult:
    if isinstance(result, KafkaError):
        return CreatableTopicResult(name=name, error_code=result.code, error_message=result.message)
    rows = context.config.describe_topic(result.configs, None)
    return CreatableTopicResult(
        name=name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=[
            CreatableTopicConfigs(row.name, row.value, row.read_only, row.source, row.is_sensitive) for row in rows
        ],
    )
