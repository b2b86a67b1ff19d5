"""OffsetForLeaderEpoch, versions 2 to 4: where an epoch ends in the leader's log (KIP-101, KIP-320).

The answer is the largest epoch not above the one asked for, and the offset after its last record; a client whose own
log or position goes beyond that has records that the leader does not.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.errors import KafkaError
from penstock.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(context: Context, _call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic.topic, [_answer(context, topic.topic, each) for each in topic.partitions])
            for topic in request.topics
        ]
    )


def _answer(context: Context, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = context.replicas.partition_or_raise(topic, wanted.partition)
        partition.check_leader(wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error.code, wanted.partition)
    epoch, end_offset = partition.epoch_end_offset(wanted.leader_epoch)
    return EpochEndOffset(0, wanted.partition, epoch, end_offset)
