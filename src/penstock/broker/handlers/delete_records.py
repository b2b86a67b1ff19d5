"""DeleteRecords, versions 0 to 2: move the start of a partition's log up to an offset (-1: to its high watermark).

Whole segments below the new start go at once; the rest of the segment that holds it is no longer readable and goes
with it. Internal topics are refused: their records belong to the coordinators.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import INTERNAL_TOPICS
from penstock.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_LOW_WATERMARK = -1


def handle(context: Context, _call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(topic.name, [_delete(context, topic.name, each) for each in topic.partitions])
            for topic in request.topics
        ]
    )


def _delete(context: Context, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    try:
        partition = context.replicas.partition_or_raise(topic, index)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        return DeleteRecordsPartitionResult(index, partition.delete_records(wanted.offset))
    except KafkaError as error:
        return DeleteRecordsPartitionResult(index, NO_LOW_WATERMARK, error.code)
