"""ListTransactions, versions 0 to 2: the transactional ids that this broker coordinates, all or some.

An expression must match the whole id. It is matched as topic expressions are (`groups/topic_regex`), in time linear in
the id; of what RE2 knows, that leaves out the rare parts, which are refused, and characters beyond ASCII do not match.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.groups.topic_regex import match_topics
from penstock.broker.transactions.metadata import DEAD, STATES_BY_LABEL, TransactionMetadata
from penstock.wire.api.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)


def handle(context: Context, _call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    now_ms = context.clock.now_ms()
    found = [each.metadata for each in context.transactions.all_ids() if each.pending is not DEAD]
    listed = [each for each in found if _is_asked_for(each, request, now_ms)]
    if request.transactional_id_pattern:
        matching = match_topics(request.transactional_id_pattern, [each.transactional_id for each in listed])
        listed = [each for each in listed if each.transactional_id in matching]
    return ListTransactionsResponse(
        unknown_state_filters=[each for each in request.state_filters if each not in STATES_BY_LABEL],
        transaction_states=[
            TransactionState(each.transactional_id, each.producer_id, each.state.label) for each in listed
        ],
    )


def _is_asked_for(metadata: TransactionMetadata, request: ListTransactionsRequest, now_ms: int) -> bool:
    """Of each kind of filter that was given, one must fit."""
    if request.producer_id_filters and metadata.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and metadata.state.label not in request.state_filters:
        return False
    return request.duration_filter < 0 or now_ms - metadata.start_ms > request.duration_filter
