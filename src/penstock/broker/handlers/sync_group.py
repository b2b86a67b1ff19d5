"""SyncGroup, versions 0 to 5: the leader gives the assignment of a generation, every member gets its own.

See `groups/sync`. From version 5 on the protocol must be named, and be the group's.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context, Later
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE = 5


def handle(context: Context, call: Call, request: SyncGroupRequest) -> Later:
    if call.version >= PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    later = Later()

    def answer(response: SyncGroupResponse) -> None:
        later.finish(lambda: response)

    context.groups.sync(request, answer)
    return later
