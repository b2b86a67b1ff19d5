"""IncrementalAlterConfigs, versions 0 and 1: set, delete, append to and subtract from settings (KIP-339).

Each resource succeeds or fails by itself; the settings of one resource change together or not at all.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.controller.configs import Alteration, ConfigChange
from penstock.errors import KafkaError
from penstock.wire.api.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    context: Context, _call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple(ConfigChange(each.name, each.value, each.config_operation) for each in resource.configs),
        )
        for resource in request.resources
    ]
    errors = await context.controller.alter_configs(
        alterations, is_incremental=True, validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(responses=list(map(_result, request.resources, errors)))


def refuse(_call: Call, request: IncrementalAlterConfigsRequest, error: KafkaError) -> IncrementalAlterConfigsResponse:
    """Nothing was changed: each resource says why."""
    return IncrementalAlterConfigsResponse(responses=[_result(resource, error) for resource in request.resources])


def _result(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    code, message = (error.code, error.message) if error else (0, None)
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)
