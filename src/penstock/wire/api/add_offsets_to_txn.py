"""AddOffsetsToTxn (key 25): a transaction is going to commit offsets of a group.

The group's partition of `__consumer_offsets` becomes one of the transaction's. With transaction version 2 the client
leaves it out, since TxnOffsetCommit does it too.

Versions:
- 1: same bytes; throttled clients are answered first
- 2: PRODUCER_FENCED may be answered
- 3: flexible
- 4: TRANSACTION_ABORTABLE may be answered (KIP-890)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, int16, int32, int64, message, string


@message("0-4", flexible="3+")
class AddOffsetsToTxnRequest(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message("0-4", flexible="3+")
class AddOffsetsToTxnResponse(Struct):
    throttle_time_ms: int = int32()
    error_code: int = int16()


API = Api(25, AddOffsetsToTxnRequest, AddOffsetsToTxnResponse)
