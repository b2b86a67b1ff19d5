"""DescribeProducers, version 0: the producers that each partition remembers, and the transactions they have open.

Only the leader answers. A hanging transaction is found so: its start stays while the last stable offset does not move.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.errors import KafkaError
from penstock.log.producer_state import ProducerStateEntry
from penstock.wire.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

ANY_EPOCH = -1


def handle(context: Context, _call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(topic.name, [_describe(context, topic.name, index) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _describe(context: Context, topic: str, index: int) -> PartitionResponse:
    try:
        partition = context.replicas.partition_or_raise(topic, index)
        partition.check_leader(ANY_EPOCH)
    except KafkaError as error:
        return PartitionResponse(index, error.code, error.message)
    return PartitionResponse(index, active_producers=[_state(entry) for entry in partition.log.producers.entries])


def _state(entry: ProducerStateEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
