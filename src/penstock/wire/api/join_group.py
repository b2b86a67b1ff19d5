"""JoinGroup (key 11): become a member of a classic group, and wait for the rebalance that follows.

The answer comes when everyone has joined or their time is over. The leader's answer lists all members.

Versions:
- 1: rebalance timeout; before, the session timeout served for both
- 2: throttle time
- 4: a new member joins twice: MEMBER_ID_REQUIRED tells it its id (KIP-394)
- 5: static members (KIP-345)
- 6: flexible
- 7: the protocol's type in the answer (KIP-559)
- 8: the reason for joining (KIP-800)
- 9: the leader may be told to leave the assignment as it is (KIP-814)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, binary, boolean, int16, int32, message, string, struct


@struct
class JoinGroupRequestProtocol(Struct):
    """One way to assign that the member can use, the one it likes best first."""

    name: str = string()
    metadata: bytes = binary()


@message("0-9", flexible="6+")
class JoinGroupRequest(Struct):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


@struct
class JoinGroupResponseMember(Struct):
    """A member, as the leader sees it."""

    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = binary()


@message("0-9", flexible="6+")
class JoinGroupResponse(Struct):
    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)


API = Api(11, JoinGroupRequest, JoinGroupResponse)
