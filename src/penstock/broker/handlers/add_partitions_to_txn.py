"""AddPartitionsToTxn, versions 0 to 5: put partitions into transactions. Answered when the log has them.

Partitions that do not exist are UNKNOWN_TOPIC_OR_PARTITION; then nothing of that transaction is done, and its other
partitions are OPERATION_NOT_ATTEMPTED. From version 4 on there are many transactions, each added to or only verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.broker.context import Call, Context, Later
from penstock.broker.transactions.decide import ProducerIdAndEpoch
from penstock.broker.transactions.metadata import TV_0, TV_2
from penstock.broker.transactions.versions import BATCHED_SINCE
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import Image
from penstock.types import TopicPartition
from penstock.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_SINCE = 2

Codes = Mapping[TopicPartition, ErrorCode]
OnCodes = Callable[[Codes], None]


def handle(context: Context, call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse | Later:
    if call.version < BATCHED_SINCE:
        response = _add_at_once(context, call, request)
        if response is not None:
            return response
    later = Later()
    transactions = request.transactions if call.version >= BATCHED_SINCE else [_only(request)]
    results: dict[int, AddPartitionsToTxnResult] = {}

    def on_codes(number: int, codes: Codes) -> None:
        asked = transactions[number]
        results[number] = AddPartitionsToTxnResult(asked.transactional_id, _topic_results(asked.topics, codes))
        if len(results) == len(transactions):
            ordered = [results[each] for each in range(len(transactions))]
            later.finish(lambda: _response(call, ordered))

    for number, asked in enumerate(transactions):
        _serve(context, call, asked, lambda codes, number=number: on_codes(number, codes))  # type: ignore[misc]
    if not transactions:
        later.finish(AddPartitionsToTxnResponse)
    return later


def _add_at_once(context: Context, call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse | None:
    """What nearly all clients ask, where the log need not be waited for; None when it is something else."""
    if not request.v3_and_below_transactional_id:
        return None
    image, topics = context.image, request.v3_and_below_topics
    partitions = frozenset([TopicPartition(topic.name, index) for topic in topics for index in topic.partitions])
    if None in [image.partition(name, index) for name, index in partitions]:
        return None
    code = ErrorCode.NONE
    try:
        if not context.transactions.add_at_once(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            partitions,
            TV_0,
        ):
            return None
    except KafkaError as error:
        code = _told(call, error)
    results = [
        AddPartitionsToTxnTopicResult(
            topic.name, [AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions]
        )
        for topic in topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)


def _only(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        False,
        request.v3_and_below_topics,
    )


def _serve(context: Context, call: Call, asked: AddPartitionsToTxnTransaction, on_codes: OnCodes) -> None:
    partitions = [TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partitions]
    unknown = [each for each in partitions if not _exists(context.image, each)]
    if unknown:
        not_attempted = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        on_codes(not_attempted | dict.fromkeys(unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return
    if not asked.transactional_id:
        on_codes(dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST))
        return
    if asked.verify_only:
        who = (asked.transactional_id, asked.producer_id, asked.producer_epoch)
        context.transactions.verify(*who, partitions, on_codes)
        return

    def on_done(error: KafkaError | None) -> None:
        on_codes(dict.fromkeys(partitions, _told(call, error)))

    context.transactions.add_partitions(
        asked.transactional_id,
        ProducerIdAndEpoch(asked.producer_id, asked.producer_epoch),
        frozenset(partitions),
        TV_2 if call.version >= BATCHED_SINCE else TV_0,
        on_done,
    )


def _exists(image: Image, partition: TopicPartition) -> bool:
    return image.partition(*partition) is not None


def _told(call: Call, error: KafkaError | None) -> ErrorCode:
    if error is None:
        return ErrorCode.NONE
    if error.code is ErrorCode.PRODUCER_FENCED and call.version < FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code


def _topic_results(topics: Sequence[AddPartitionsToTxnTopic], codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, codes.get(TopicPartition(topic.name, index), ErrorCode.NONE))
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _response(call: Call, results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    if call.version >= BATCHED_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
