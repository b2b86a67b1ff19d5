"""InitProducerId, versions 0 to 5: a producer id that no other producer has, or the next epoch of a transactional id's.

Ids come from blocks that are taken durably from the metadata store, so none is given twice, also not after a crash. For
a transactional id the answer comes when its epoch is in the log: from then on whoever had it before is fenced. A
transaction that was open is aborted first, and the client is told to ask again.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.transactions.decide import ProducerIdAndEpoch
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FENCED_SINCE = 4


async def handle(context: Context, call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "producer id and epoch are given together or not at all")
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=await context.controller.next_producer_id(), producer_epoch=0)
    if not request.transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id cannot be empty")
    expected = None
    if request.producer_id != -1:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    given = await context.transactions.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, expected
    )
    return InitProducerIdResponse(producer_id=given.producer_id, producer_epoch=given.epoch)


def refuse(call: Call, _request: InitProducerIdRequest, error: KafkaError) -> InitProducerIdResponse:
    code = error.code
    if code is ErrorCode.PRODUCER_FENCED and call.version < FENCED_SINCE:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
