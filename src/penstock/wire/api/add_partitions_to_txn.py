"""AddPartitionsToTxn (key 24): partitions that a transaction is going to write to.

Clients send versions up to 3, one transaction each. Brokers send 4 and later: many transactions at once, each to be
extended or, with `verify_only`, only looked at before a leader takes its first batch (KIP-890).

Versions:
- 1: same bytes; throttled clients are answered first
- 2: PRODUCER_FENCED may be answered
- 3: flexible
- 4: many transactions, verification, an error code of the whole
- 5: TRANSACTION_ABORTABLE may be answered (KIP-890)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, boolean, int16, int32, int64, message, string, struct


@struct
class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: str = string()
    partitions: list[int] = array(Kind.INT32)


@struct
class AddPartitionsToTxnTransaction(Struct):
    """One transaction and what it is going to write to."""

    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


@message("0-5", flexible="3+")
class AddPartitionsToTxnRequest(Struct):
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


@struct
class AddPartitionsToTxnPartitionResult(Struct):
    """What became of one partition."""

    partition_index: int = int32()
    partition_error_code: int = int16()


@struct
class AddPartitionsToTxnTopicResult(Struct):
    """The results of one topic."""

    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


@struct
class AddPartitionsToTxnResult(Struct):
    """The results of one transaction."""

    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


@message("0-5", flexible="3+")
class AddPartitionsToTxnResponse(Struct):
    throttle_time_ms: int = int32()
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "0-3")


API = Api(24, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse)
