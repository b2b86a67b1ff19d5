"""DescribeGroups (key 15): classic groups with their members and what is assigned to them.

Versions:
- 1: throttle time
- 3: authorized operations on request (KIP-430)
- 4: instance ids of static members (KIP-345)
- 5: flexible
- 6: GROUP_ID_NOT_FOUND instead of a dead group, with a message (KIP-1043)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, binary, boolean, int16, int32, message, string, struct


@message("0-6", flexible="5+")
class DescribeGroupsRequest(Struct):
    groups: list[str] = array(Kind.STRING)
    include_authorized_operations: bool = boolean("3+")


@struct
class DescribedGroupMember(Struct):
    """A member; metadata and assignment are filled in only while the group is stable."""

    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


@struct
class DescribedGroup(Struct):
    """A group in full; unknown ones are Dead."""

    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)


@message("0-6", flexible="5+")
class DescribeGroupsResponse(Struct):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)


API = Api(15, DescribeGroupsRequest, DescribeGroupsResponse)
