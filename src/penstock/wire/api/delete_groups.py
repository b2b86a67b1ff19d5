"""DeleteGroups (key 42): forget groups that have no members, and their offsets.

Versions:
- 2: flexible
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, int16, int32, message, string, struct


@message("0-2", flexible="2+")
class DeleteGroupsRequest(Struct):
    groups_names: list[str] = array(Kind.STRING)


@struct
class DeletableGroupResult(Struct):
    """What became of one group."""

    group_id: str = string()
    error_code: int = int16()


@message("0-2", flexible="2+")
class DeleteGroupsResponse(Struct):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)


API = Api(42, DeleteGroupsRequest, DeleteGroupsResponse)
