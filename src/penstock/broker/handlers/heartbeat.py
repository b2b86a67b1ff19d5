"""Heartbeat, versions 0 to 4: a member of a classic group lives, and learns that it must join again.

While its group is being loaded a member is told that all is well, as by Kafka: its session begins anew after that.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(context: Context, _call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    try:
        code = context.groups.heartbeat(
            request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )
    except KafkaError as error:
        is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        code = ErrorCode.NONE if is_loading else error.code
    return HeartbeatResponse(error_code=code)
