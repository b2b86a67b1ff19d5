"""DescribeConfigs (key 32): the settings of topics, brokers and groups, and where each value comes from.

Versions:
- 1: the lowest accepted; source of a value, synonyms
- 2: same bytes; throttled clients are answered first
- 3: type and documentation of a setting
- 4: flexible
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, boolean, int8, int16, int32, message, string, struct


@struct
class DescribeConfigsResource(Struct):
    """What to describe; null keys means all of its settings."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(Kind.STRING, nullable="0+")


@message("1-4", flexible="4+")
class DescribeConfigsRequest(Struct):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


@struct
class DescribeConfigsSynonym(Struct):
    """Another place where the value could be set, in order of precedence."""

    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")


@struct
class DescribeConfigsResourceResult(Struct):
    """One setting."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


@struct
class DescribeConfigsResult(Struct):
    """The settings of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message("1-4", flexible="4+")
class DescribeConfigsResponse(Struct):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)


API = Api(32, DescribeConfigsRequest, DescribeConfigsResponse)
