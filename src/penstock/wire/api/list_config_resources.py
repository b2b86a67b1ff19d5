"""ListConfigResources (key 74): the names of what has settings: topics, brokers, groups, client metrics.

Versions:
- 0: flexible from the start; lists client metrics only
- 1: any types, none named means all (KIP-1142)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, int8, int16, int32, message, string, struct


@message("0-1", flexible="0+")
class ListConfigResourcesRequest(Struct):
    resource_types: list[int] = array(Kind.INT8, "1+")


@struct
class ConfigResource(Struct):
    """Something that has settings; 16 is client metrics."""

    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


@message("0-1", flexible="0+")
class ListConfigResourcesResponse(Struct):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)


API = Api(74, ListConfigResourcesRequest, ListConfigResourcesResponse)
