"""ConsumerGroupDescribe, versions 0 and 1: consumer groups, their members, what these have and shall have (KIP-848).

A classic group is GROUP_ID_NOT_FOUND here, as a consumer group is for DescribeGroups: clients ask for both.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.handlers.describe_groups import GROUP_OPERATIONS
from penstock.broker.handlers.metadata import NOT_REQUESTED
from penstock.errors import KafkaError
from penstock.wire.api.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(context: Context, _call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_REQUESTED
    return ConsumerGroupDescribeResponse(
        groups=[_describe(context, group_id, operations) for group_id in request.group_ids]
    )


def _describe(context: Context, group_id: str, operations: int) -> DescribedGroup:
    try:
        group = context.groups.shard(group_id).consumer_group_or_raise(group_id)
    except KafkaError as error:
        return DescribedGroup(error.code, error.message, group_id)
    described = group.described(context.image.topics_by_id, context.groups.consumers.default_assignor)
    described.authorized_operations = operations
    return described
