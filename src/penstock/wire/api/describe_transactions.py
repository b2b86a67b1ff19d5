"""DescribeTransactions (key 65): the state of transactional ids, asked of their coordinator."""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, int16, int32, int64, message, string, struct


@message("0", flexible="0+")
class DescribeTransactionsRequest(Struct):
    transactional_ids: list[str] = array(Kind.STRING)


@struct
class TopicData(Struct):
    """Partitions of the transaction; while it ends, those whose marker is not yet written."""

    topic: str = string()
    partitions: list[int] = array(Kind.INT32)


@struct
class TransactionState(Struct):
    """One transactional id."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@message("0", flexible="0+")
class DescribeTransactionsResponse(Struct):
    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)


API = Api(65, DescribeTransactionsRequest, DescribeTransactionsResponse)
