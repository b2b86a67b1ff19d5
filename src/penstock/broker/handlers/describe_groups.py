"""DescribeGroups, versions 0 to 6: classic groups and their members.

A group that does not exist is Dead; from version 6 on that is also an error.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.groups.group import State
from penstock.broker.handlers.metadata import NOT_REQUESTED
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

NOT_FOUND_SINCE = 6
READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11
GROUP_OPERATIONS = sum(1 << bit for bit in (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS))
"""What everyone may do to a group where nothing is forbidden."""


def handle(context: Context, call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_REQUESTED
    groups = [_describe(context, call, group_id) for group_id in request.groups]
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = operations
    return DescribeGroupsResponse(groups=groups)


def _describe(context: Context, call: Call, group_id: str) -> DescribedGroup:
    try:
        return context.groups.shard(group_id).group_or_raise(group_id).described()
    except KafkaError as error:
        is_dead = error.code is ErrorCode.GROUP_ID_NOT_FOUND
        if is_dead and call.version < NOT_FOUND_SINCE:
            return DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
        state = State.DEAD.value if is_dead else ""
        return DescribedGroup(error.code, error.message, group_id, state)
