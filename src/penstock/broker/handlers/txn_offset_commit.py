"""TxnOffsetCommit, versions 0 to 5: offsets of a group that count when the transaction is committed.

First the transaction coordinator is asked whether the group's partition of `__consumer_offsets` is in the transaction,
unless the log knows that already; from version 5 on it is put there. Then the group is asked whether the member may
commit. The whole request is one transactional batch. Partitions that do not exist, and notes longer than
`offset.metadata.max.bytes`, are refused by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.broker.context import Call, Context, Later
from penstock.broker.groups.coordinator import OnDone
from penstock.broker.groups.records import CommittedOffset, OffsetRecord
from penstock.errors import ErrorCode, KafkaError
from penstock.log.verification import ONGOING
from penstock.types import TopicPartition
from penstock.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ABORTABLE_SINCE = 4
ADDS_SINCE = 5

_COORDINATOR_ELSEWHERE = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))
"""It is the transaction's coordinator that says so; the client must not look for another one of the group."""


def handle(context: Context, call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse | Later:
    commit = _Commit(context, request)
    response = commit.response
    if not commit.records:
        return response
    if not request.group_id:
        _refuse_rest(response, ErrorCode.INVALID_GROUP_ID)
        return response
    later = Later()

    def on_done(error: KafkaError | None) -> None:
        if error is not None:
            _refuse_rest(response, error.code)
        later.finish(lambda: response)

    try:
        _commit(context, call, request, commit, on_done)
    except KafkaError as error:
        on_done(error)
    return later


def refuse(_call: Call, request: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    """Nothing is written: each partition says why."""
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        partitions = [TxnOffsetCommitResponsePartition(each.partition_index) for each in topic.partitions]
        response.topics.append(TxnOffsetCommitResponseTopic(topic.name, partitions))
    _refuse_rest(response, error.code)
    return response


class _Commit:
    """What is to be written of a request, and the answer if that goes well."""

    def __init__(self, context: Context, request: TxnOffsetCommitRequest) -> None:
        self.records: list[OffsetRecord] = []
        self._group_id = request.group_id
        self._now_ms = context.clock.now_ms()
        self._max_metadata = context.config.get_int("offset.metadata.max.bytes")
        self._image = context.image
        self.response = TxnOffsetCommitResponse(topics=[self._topic(topic) for topic in request.topics])

    def _topic(self, asked: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitResponseTopic:
        found = self._image.topics.get(asked.name)
        answers = []
        for each in asked.partitions:
            metadata = each.committed_metadata or ""
            code = ErrorCode.NONE
            if found is None or not 0 <= each.partition_index < len(found.partitions):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(metadata) > self._max_metadata:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                value = CommittedOffset(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    metadata,
                    self._now_ms,
                    topic_id=found.topic_id,
                )
                self.records.append(OffsetRecord(self._group_id, asked.name, each.partition_index, value))
            answers.append(TxnOffsetCommitResponsePartition(each.partition_index, code))
        return TxnOffsetCommitResponseTopic(asked.name, answers)


def _commit(context: Context, call: Call, request: TxnOffsetCommitRequest, commit: _Commit, on_done: OnDone) -> None:
    """Verify, unless there is no need to, and write."""
    groups, transactions = context.groups, context.transactions
    where = groups.offsets_partition(request.group_id)
    adds = call.version >= ADDS_SINCE
    guard = groups.start_verification(request, adds)

    def on_verified(codes: Mapping[TopicPartition, ErrorCode]) -> None:
        code = codes.get(where, ErrorCode.NONE)
        try:
            if code is not ErrorCode.NONE:
                raise KafkaError(_told(call, code))
            groups.commit_transactional_offsets(request, commit.records, guard, on_done)
        except KafkaError as error:
            on_done(error)

    who = (request.transactional_id, request.producer_id, request.producer_epoch)
    if guard is ONGOING or not (adds or context.config.get_bool("transaction.partition.verification.enable")):
        on_verified({})
    elif not request.transactional_id:
        on_done(KafkaError(ErrorCode.INVALID_REQUEST))
    elif adds:
        transactions.add(*who, (where,), on_verified)
    else:
        transactions.verify(*who, (where,), on_verified)


def _told(call: Call, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and call.version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code in _COORDINATOR_ELSEWHERE else code


def _refuse_rest(response: TxnOffsetCommitResponse, code: ErrorCode) -> None:
    """Those that were not refused already."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                partition.error_code = code
