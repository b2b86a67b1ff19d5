"""EndTxn, versions 0 to 5: commit or abort. Answered when the outcome is in the log and cannot change any more.

Markers follow; as long as they are not all written the id answers CONCURRENT_TRANSACTIONS. From version 5 on the
producer goes on with the epoch in the response.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context, Later
from penstock.broker.transactions.coordinator import NO_PRODUCER
from penstock.broker.transactions.decide import ProducerIdAndEpoch
from penstock.broker.transactions.metadata import TV_0, TV_2
from penstock.broker.transactions.versions import EPOCH_PER_TRANSACTION_SINCE
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE = 2


def handle(context: Context, call: Call, request: EndTxnRequest) -> EndTxnResponse | Later:
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    asked = (
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        request.committed,
        TV_2 if call.version >= EPOCH_PER_TRANSACTION_SINCE else TV_0,
    )
    try:
        ended = context.transactions.end_at_once(*asked)
    except KafkaError as error:
        return _response(call, error, NO_PRODUCER)
    if ended is not None:
        return _response(call, None, ended)
    later = Later()
    context.transactions.end(*asked, lambda error, producer: later.finish(lambda: _response(call, error, producer)))
    return later


def _response(call: Call, error: KafkaError | None, producer: ProducerIdAndEpoch) -> EndTxnResponse:
    code = ErrorCode.NONE if error is None else error.code
    if code is ErrorCode.PRODUCER_FENCED and call.version < FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=code, producer_id=producer[0], producer_epoch=producer[1])
