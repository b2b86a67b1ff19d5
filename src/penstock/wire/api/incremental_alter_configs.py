"""IncrementalAlterConfigs (key 44): set, delete, append to or subtract from single settings (KIP-339).

Versions:
- 1: flexible
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, boolean, int8, int16, int32, message, string, struct


@struct
class AlterableConfig(Struct):
    """One setting; the operation is 0 set, 1 delete, 2 append, 3 subtract."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource(Struct):
    """The changes to one resource."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message("0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Struct):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse(Struct):
    """What became of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message("0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Struct):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


API = Api(44, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse)
