"""AddOffsetsToTxn, versions 0 to 4: the group's partition of `__consumer_offsets` becomes one of the transaction's."""

from __future__ import annotations

from penstock.broker.context import Call, Context, Later
from penstock.broker.transactions.decide import ProducerIdAndEpoch
from penstock.broker.transactions.metadata import TV_0
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_SINCE = 2


def handle(context: Context, call: Call, request: AddOffsetsToTxnRequest) -> Later:
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    later = Later()

    def on_done(error: KafkaError | None) -> None:
        code = ErrorCode.NONE if error is None else error.code
        if code is ErrorCode.PRODUCER_FENCED and call.version < FENCED_SINCE:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        later.finish(lambda: AddOffsetsToTxnResponse(error_code=code))

    context.transactions.add_partitions(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        frozenset((context.groups.offsets_partition(request.group_id),)),
        TV_0,
        on_done,
    )
    return later
