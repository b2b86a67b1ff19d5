"""FindCoordinator, versions 0 to 6: which broker coordinates a group or a transactional id.

The first one who looks for the coordinator of a group has `__consumer_offsets` created, and the first one with a
transactional id `__transaction_state`; they are answered when it can be used. Kafka answers COORDINATOR_NOT_AVAILABLE
until then. Share groups are not served yet, which the answer says.
"""

from __future__ import annotations

import asyncio

from penstock.broker.context import Call, Context, Later
from penstock.broker.endpoints import advertised
from penstock.broker.groups.coordinator import GroupCoordinator
from penstock.broker.transactions.coordinator import TransactionCoordinator
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1
SHARE = 2
MANY_KEYS_SINCE = 4
OLD_NO_ERROR = "NONE"
"""Kafka's message for no error up to version 3."""


def handle(context: Context, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse | Later:
    coordinator = _coordinator(context, request.key_type)
    if coordinator is None or coordinator.topic.exists:
        return _answer(context, call, request)
    later = Later()

    def on_created(_task: asyncio.Task[None]) -> None:
        later.finish(lambda: _answer(context, call, request))

    coordinator.topic.create().add_done_callback(on_created)
    return later


def _coordinator(context: Context, key_type: int) -> GroupCoordinator | TransactionCoordinator | None:
    """None for a type that is not served."""
    if key_type == TRANSACTION:
        return context.transactions
    return context.groups if key_type == GROUP else None


def _answer(context: Context, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if call.version >= MANY_KEYS_SINCE:
        found = [_find(context, call, key, request.key_type) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    only = _find(context, call, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or OLD_NO_ERROR,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _find(context: Context, call: Call, key: str, key_type: int) -> Coordinator:
    try:
        coordinator = _coordinator(context, key_type)
        if coordinator is None:
            raise _not_served(key_type)
        broker = context.image.brokers.get(coordinator.topic.leader_of(key))
        if broker is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    except KafkaError as error:
        return Coordinator(key, -1, "", -1, error.code, error.message)
    address = advertised(broker, call.connection)
    return Coordinator(key, broker.broker_id, address.host, address.port, 0, "")


def _not_served(key_type: int) -> KafkaError:
    if key_type == SHARE:
        return KafkaError(ErrorCode.INVALID_REQUEST, "this broker does not serve share groups yet")
    return KafkaError(ErrorCode.INVALID_REQUEST, f"{key_type} is no type of coordinator")
