"""InitProducerId (key 22): a producer id and epoch, for an idempotent or a transactional producer.

Versions:
- 1: same bytes; throttled clients are answered first
- 2: flexible
- 3: a producer may name its id and epoch, to go on after an error (KIP-360)
- 4: PRODUCER_FENCED may be answered
- 5: TRANSACTION_ABORTABLE may be answered (KIP-890)
- 6: two-phase commit (KIP-939); declared by Kafka 4.3, not advertised
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, boolean, int16, int32, int64, message, string


@message("0-6", flexible="2+")
class InitProducerIdRequest(Struct):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


@message("0-6", flexible="2+")
class InitProducerIdResponse(Struct):
    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)


API = Api(22, InitProducerIdRequest, InitProducerIdResponse, latest_is_unstable=True)
