"""FindCoordinator, versions 0 to 6: which broker coordinates a group or a transactional id.

The first one who looks for the coordinator of a group has `__consumer_offsets` created, and is answered when it can be
used; Kafka answers COORDINATOR_NOT_AVAILABLE until then. Transactions and share groups are not served yet, which the
answer says.
"""

from __future__ import annotations

import asyncio

from penstock.broker.context import Call, Context, Later
from penstock.broker.endpoints import advertised
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1
SHARE = 2
MANY_KEYS_SINCE = 4
OLD_NO_ERROR = "NONE"
"""Kafka's message for no error up to version 3."""


def handle(context: Context, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse | Later:
    if request.key_type != GROUP or context.groups.has_topic:
        return _answer(context, call, request)
    later = Later()

    def on_created(_task: asyncio.Task[None]) -> None:
        later.finish(lambda: _answer(context, call, request))

    context.groups.create_topic().add_done_callback(on_created)
    return later


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
        _check_type(key_type)
        broker = context.image.brokers.get(context.groups.leader_of(key))
        if broker is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    except KafkaError as error:
        return Coordinator(key, -1, "", -1, error.code, error.message)
    address = advertised(broker, call.connection)
    return Coordinator(key, broker.broker_id, address.host, address.port, 0, "")


def _check_type(key_type: int) -> None:
    if key_type == TRANSACTION:
        # Of the answers that make a client give up at once instead of asking again, this one is nearest to the truth.
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        raise KafkaError(code, "this broker does not serve transactions yet")
    if key_type == SHARE:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "this broker does not serve share groups yet")
    if key_type != GROUP:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key_type} is no type of coordinator")
