"""FindCoordinator (key 10): which broker coordinates a group, a transaction or a share group's partition.

Key types: 0 a consumer group, 1 a transactional id, 2 a share group ("group:topic id:partition").

Versions:
- 1: key type, throttle time, error message
- 3: flexible
- 4: many keys in one request (KIP-699)
- 5: TRANSACTION_ABORTABLE may be answered (KIP-890)
- 6: share groups (KIP-932)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, int8, int16, int32, message, string, struct


@message("0-6", flexible="3+")
class FindCoordinatorRequest(Struct):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array(Kind.STRING, "4+")


@struct
class Coordinator(Struct):
    """The coordinator of one key."""

    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)


@message("0-6", flexible="3+")
class FindCoordinatorResponse(Struct):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


API = Api(10, FindCoordinatorRequest, FindCoordinatorResponse)
