"""EndTxn (key 26): commit a transaction, or abort it.

Versions:
- 1: same bytes; throttled clients are answered first
- 2: PRODUCER_FENCED may be answered
- 3: flexible
- 4: TRANSACTION_ABORTABLE may be answered (KIP-890)
- 5: transaction version 2: each transaction gets an epoch of its own, and the response tells the next one (KIP-890)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, boolean, int16, int32, int64, message, string


@message("0-5", flexible="3+")
class EndTxnRequest(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@message("0-5", flexible="3+")
class EndTxnResponse(Struct):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)


API = Api(26, EndTxnRequest, EndTxnResponse)
