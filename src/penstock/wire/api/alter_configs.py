"""AlterConfigs (key 33): replace all dynamic settings of a topic or broker; what is not named is reset.

Versions:
- 1: same bytes; throttled clients are answered first
- 2: flexible
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, boolean, int8, int16, int32, message, string, struct


@struct
class AlterableConfig(Struct):
    """One setting and its value."""

    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource(Struct):
    """All dynamic settings that the resource is to have."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message("0-2", flexible="2+")
class AlterConfigsRequest(Struct):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse(Struct):
    """What became of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message("0-2", flexible="2+")
class AlterConfigsResponse(Struct):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


API = Api(33, AlterConfigsRequest, AlterConfigsResponse)
