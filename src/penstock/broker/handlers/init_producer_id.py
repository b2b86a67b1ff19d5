"""InitProducerId, versions 0 to 5: a producer id that no other producer has, for idempotence.

Ids come from blocks that are taken durably from the metadata store, so none is given twice, also not after a crash.
A transactional id is refused until transactions are served.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(context: Context, _call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        code = ErrorCode.INVALID_REQUEST if not request.transactional_id else ErrorCode.INVALID_TXN_STATE
        raise KafkaError(code, "this broker does not serve transactions yet")
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "producer id and epoch are given together or not at all")
    producer_id = await context.controller.next_producer_id()
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
