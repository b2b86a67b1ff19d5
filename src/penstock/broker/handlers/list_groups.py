"""ListGroups, versions 0 to 5: the groups that this broker coordinates, by state and type where asked for."""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.wire.api.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(context: Context, _call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = (group.listed() for shard in context.groups.shards() for group in shard.all_groups())
    return ListGroupsResponse(groups=[group for group in listed if _is_wanted(group, states, types)])


def _is_wanted(group: ListedGroup, states: set[str], types: set[str]) -> bool:
    return (not states or group.group_state.lower() in states) and (not types or group.group_type.lower() in types)
