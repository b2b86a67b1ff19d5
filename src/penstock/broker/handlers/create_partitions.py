"""CreatePartitions, versions 0 to 3: give topics more partitions; the answer comes when they can be used."""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.controller.topics import NewPartitions
from penstock.errors import KafkaError
from penstock.wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(context: Context, _call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    growths = [_growth(topic) for topic in request.topics]
    results = await context.controller.create_partitions(growths, validate_only=request.validate_only)
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name, error.code, error.message) if error else CreatePartitionsTopicResult(name)
            for name, error in results.items()
        ]
    )


def refuse(_call: Call, request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    """Nothing was created: each topic says why."""
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(each.name, error.code, error.message) for each in request.topics]
    )


def _growth(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = None
    if topic.assignments is not None:
        assignments = tuple(tuple(each.broker_ids) for each in topic.assignments)
    return NewPartitions(topic.name, topic.count, assignments)
