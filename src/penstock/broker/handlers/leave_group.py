"""LeaveGroup, versions 0 to 5: one member goes, or from version 3 on several.

See `groups/leave`. Up to version 2 the one member's error is the response's.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context, Later
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

MANY_SINCE = 3


def handle(context: Context, call: Call, request: LeaveGroupRequest) -> Later:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    leaving = request.members if call.version >= MANY_SINCE else [MemberIdentity(request.member_id)]
    later = Later()

    def answer(response: LeaveGroupResponse) -> None:
        if call.version < MANY_SINCE and not response.error_code:
            response.error_code = response.members[0].error_code
        later.finish(lambda: response)

    context.groups.leave(request.group_id, leaving, answer)
    return later
