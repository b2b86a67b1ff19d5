"""DescribeTransactions, version 0: where transactional ids stand. Each has an error code of its own."""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.transactions.records import by_topic
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def handle(context: Context, _call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(context, each) for each in request.transactional_ids]
    )


def _describe(context: Context, transactional_id: str) -> TransactionState:
    try:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        found = context.transactions.described(transactional_id)
    except KafkaError as error:
        return TransactionState(error.code, transactional_id)
    metadata = found.metadata
    return TransactionState(
        ErrorCode.NONE,
        transactional_id,
        metadata.state.label,
        metadata.timeout_ms,
        metadata.start_ms,
        metadata.producer_id,
        metadata.producer_epoch,
        [TopicData(topic.topic, topic.partition_ids) for topic in by_topic(found.shown_partitions)],
    )
