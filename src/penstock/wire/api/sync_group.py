"""SyncGroup (key 14): the leader of a generation gives the assignment, and every member asks for its own.

Versions:
- 1: throttle time
- 3: static members (KIP-345)
- 4: flexible
- 5: protocol type and name, checked when given (KIP-559)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, binary, int16, int32, message, string, struct


@struct
class SyncGroupRequestAssignment(Struct):
    """What one member is to do; the bytes mean something to the members only."""

    member_id: str = string()
    assignment: bytes = binary()


@message("0-5", flexible="4+")
class SyncGroupRequest(Struct):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message("0-5", flexible="4+")
class SyncGroupResponse(Struct):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = binary()


API = Api(14, SyncGroupRequest, SyncGroupResponse)
