"""AlterConfigs, versions 0 to 2: replace all dynamic settings of a resource. Old; IncrementalAlterConfigs is better."""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.controller.configs import Alteration, ConfigChange
from penstock.wire.api.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse


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
    responses = []
    for alteration, error in zip(alterations, errors, strict=True):
        code, message = (error.code, error.message) if error else (0, None)
        responses.append(
            AlterConfigsResourceResponse(code, message, alteration.resource_type, alteration.resource_name)
        )
    return AlterConfigsResponse(responses=responses)
