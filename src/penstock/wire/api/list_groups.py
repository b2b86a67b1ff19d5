"""ListGroups (key 16): the groups that this broker coordinates.

Versions:
- 1: throttle time
- 3: flexible
- 4: states, and a filter by them (KIP-518)
- 5: types, and a filter by them (KIP-848)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, int16, int32, message, string, struct


@message("0-5", flexible="3+")
class ListGroupsRequest(Struct):
    states_filter: list[str] = array(Kind.STRING, "4+")
    types_filter: list[str] = array(Kind.STRING, "5+")


@struct
class ListedGroup(Struct):
    """A group in short."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


@message("0-5", flexible="3+")
class ListGroupsResponse(Struct):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)


API = Api(16, ListGroupsRequest, ListGroupsResponse)
