"""DescribeConfigs, versions 1 to 4: the settings of topics, brokers and groups, where each value comes from, and what
it does.

A broker is described by itself (its own id) or, with an empty name, by the dynamic settings that hold for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.context import Call, Context
from penstock.broker.controller.configs import ResourceType
from penstock.broker.controller.topics import check_topic_name
from penstock.broker.settings.describe import DescribedConfig
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(context: Context, _call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_describe(context, request, resource) for resource in request.resources])


def _describe(
    context: Context, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        result.configs = [_row(row) for row in _rows(context, request, resource)]
        result.error_message = ""
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _rows(
    context: Context, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> Sequence[DescribedConfig]:
    name, config = resource.resource_name, context.config
    wanted = (resource.configuration_keys, request.include_synonyms, request.include_documentation)
    if resource.resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        if name not in context.image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return config.describe_topic(context.image.topic_config(name), *wanted)
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return config.describe_broker_default(*wanted)
        if name != str(context.broker_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"broker {context.broker_id} answers for itself only, not for {name!r}"
            )
        return config.describe_broker(*wanted)
    if resource.resource_type == ResourceType.GROUP:
        return config.describe_group(context.image.group_config(name), *wanted)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no settings here")


def _row(row: DescribedConfig) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        row.name,
        row.value,
        row.read_only,
        row.source,
        row.is_sensitive,
        [DescribeConfigsSynonym(each.name, each.value, each.source) for each in row.synonyms],
        row.type,
        row.documentation,
    )
