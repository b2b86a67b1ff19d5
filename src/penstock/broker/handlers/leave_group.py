"""LeaveGroup, versions 0 to 5: one member goes, or from version 3 on several.

See `groups/leave`. Up to version 2 the one member's error is the response's.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

MANY_SINCE = 3


def handle(context: Context, call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    leaving = request.members if call.version >= MANY_SINCE else [MemberIdentity(request.member_id)]
    try:
        response = context.groups.leave(request.group_id, leaving)
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
            raise
        unknown = [MemberResponse(each.member_id, each.group_instance_id, error.code) for each in leaving]
        response = LeaveGroupResponse(members=unknown)
    if call.version < MANY_SINCE and not response.error_code:
        response.error_code = response.members[0].error_code
    return response
