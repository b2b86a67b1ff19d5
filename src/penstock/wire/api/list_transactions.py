"""ListTransactions (key 66): the transactional ids that a broker coordinates.

Versions:
- 1: only those that have been running for longer than a time (KIP-994)
- 2: only those whose id matches an expression (KIP-1152)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, int16, int32, int64, message, string, struct


@message("0-2", flexible="0+")
class ListTransactionsRequest(Struct):
    state_filters: list[str] = array(Kind.STRING)
    producer_id_filters: list[int] = array(Kind.INT64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@struct
class TransactionState(Struct):
    """One transactional id."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@message("0-2", flexible="0+")
class ListTransactionsResponse(Struct):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(Kind.STRING)
    transaction_states: list[TransactionState] = array(TransactionState)


API = Api(66, ListTransactionsRequest, ListTransactionsResponse)
