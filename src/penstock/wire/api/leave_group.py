"""LeaveGroup (key 13): a member goes, or an administrator removes several.

Versions:
- 1: throttle time
- 3: many members in one request, by member id or instance id (KIP-345)
- 4: flexible
- 5: the reason for leaving (KIP-800)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, int16, int32, message, string, struct


@struct
class MemberIdentity(Struct):
    """Who leaves: by member id, or by instance id with an empty member id."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message("0-5", flexible="4+")
class LeaveGroupRequest(Struct):
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


@struct
class MemberResponse(Struct):
    """What became of one member."""

    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


@message("0-5", flexible="4+")
class LeaveGroupResponse(Struct):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")


API = Api(13, LeaveGroupRequest, LeaveGroupResponse)
