"""Heartbeat (key 12): a member of a classic group says that it lives, and learns of a rebalance.

Versions:
- 1: throttle time
- 3: static members (KIP-345)
- 4: flexible
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, int16, int32, message, string


@message("0-4", flexible="4+")
class HeartbeatRequest(Struct):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message("0-4", flexible="4+")
class HeartbeatResponse(Struct):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()


API = Api(12, HeartbeatRequest, HeartbeatResponse)
