"""AlterConfigs, versions 0 to 2: replace all dynamic settings of a resource. Old; IncrementalAlterConfigs is better."""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.controller.configs import Alteration, ConfigChange
from penstock.errors import KafkaError
from penstock.wire.api.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(context: Context, _call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple(ConfigChange(each.name, each.value) for each in resource.configs),
        )
        for resource in request.resources
    ]
    errors = await context.controller.alter_configs(
        alterations, is_incremental=False, validate_only=request.validate_only
    )
    return AlterConfigsResponse(responses=list(map(_result, request.resources, errors)))


def refuse(_call: Call, request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    """Nothing was changed: each resource says why."""
    return AlterConfigsResponse(responses=[_result(resource, error) for resource in request.resources])


def _result(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    code, message = (error.code, error.message) if error else (0, None)
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
