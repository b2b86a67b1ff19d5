"""ListOffsets, versions 1 to 11: the offset at a time, or at one of the log's marks.

Marks: -1 the end (the high watermark, or the last stable offset for read_committed), -2 the start, -3 the record with
the largest timestamp, -4 the start on local disk (the same here), -5 and -6 the tiered marks, which are unknown
without tiered storage. A time that no record reaches is answered with offset -1 and no error, as Kafka does.
"""

from __future__ import annotations

from collections import Counter

from penstock.broker.context import Call, Context
from penstock.broker.replicas.partition import Partition
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
MARK_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
READ_COMMITTED = 1
DEBUGGING_REPLICA_ID = -2


def handle(context: Context, call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    named = Counter((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    answers = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            try:
                if named[topic.name, wanted.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition is named twice")
                partition = context.replicas.partition_or_raise(topic.name, wanted.partition_index)
                partitions.append(_answer(call, request, wanted, partition))
            except KafkaError as error:
                partitions.append(ListOffsetsPartitionResponse(wanted.partition_index, error.code))
        answers.append(ListOffsetsTopicResponse(topic.name, partitions))
    return ListOffsetsResponse(topics=answers)


def _answer(
    call: Call, request: ListOffsetsRequest, wanted: ListOffsetsPartition, partition: Partition
) -> ListOffsetsPartitionResponse:
    if call.version < MARK_SINCE.get(wanted.timestamp, 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    partition.check_leader(wanted.current_leader_epoch)
    timestamp, offset, epoch = _find(request, wanted.timestamp, partition)
    return ListOffsetsPartitionResponse(wanted.partition_index, 0, timestamp, offset, epoch)


def _find(request: ListOffsetsRequest, timestamp: int, partition: Partition) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch), each -1 where there is none."""
    log = partition.log
    unknown = (-1, -1, -1)
    end_offset = _end_offset(request, partition)
    if timestamp == LATEST:
        return -1, end_offset, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epochs.epoch_for_offset(log.log_start_offset)
        return -1, log.log_start_offset, -1 if epoch is None else epoch
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return unknown
    if timestamp != MAX_TIMESTAMP and timestamp < 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    found = log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return found if found is not None and found[1] < end_offset else unknown


def _end_offset(request: ListOffsetsRequest, partition: Partition) -> int:
    offsets = partition.offsets()
    if request.replica_id == DEBUGGING_REPLICA_ID:
        return offsets.log_end_offset
    return offsets.last_stable_offset if request.isolation_level == READ_COMMITTED else offsets.high_watermark
