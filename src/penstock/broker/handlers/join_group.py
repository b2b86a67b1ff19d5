"""JoinGroup, versions 0 to 9: become a member of a classic group; the answer comes with the next generation.

See `groups/join`. A first member waits for nobody: `group.initial.rebalance.delay.ms` is 0 here, and 3000 in Kafka.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context, Later
from penstock.broker.groups.outcome import Client
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.join_group import JoinGroupRequest, JoinGroupResponse

NULL_PROTOCOL_SINCE = 7


def handle(context: Context, call: Call, request: JoinGroupRequest) -> Later:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    later = Later()

    def answer(response: JoinGroupResponse) -> None:
        later.finish(lambda: _for_version(call, response))

    client = Client(call.version, call.client_id or "", f"/{call.connection.peer_address[0]}")
    context.groups.join(request, client, answer)
    return later


def refuse(call: Call, request: JoinGroupRequest, error: KafkaError) -> JoinGroupResponse:
    response = JoinGroupResponse(error_code=error.code, protocol_name=None, member_id=request.member_id)
    return _for_version(call, response)


def _for_version(call: Call, response: JoinGroupResponse) -> JoinGroupResponse:
    """Older versions have no null for a protocol that was not chosen."""
    if response.protocol_name is None and call.version < NULL_PROTOCOL_SINCE:
        response.protocol_name = ""
    return response
