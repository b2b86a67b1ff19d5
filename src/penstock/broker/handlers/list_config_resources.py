"""ListConfigResources, versions 0 and 1: the names of what has settings, by type; none named means all (KIP-1142).

Version 0 lists client metrics only, of which there are none.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.controller.configs import ResourceType
from penstock.errors import ErrorCode
from penstock.wire.api.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TYPES_SINCE = 1


def handle(context: Context, call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    if call.version < TYPES_SINCE:
        return ListConfigResourcesResponse()
    wanted = set(request.resource_types) or set(ResourceType)
    if not wanted <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = context.image
    brokers = [str(broker_id) for broker_id in image.brokers]
    names = {
        ResourceType.TOPIC: list(image.topics),
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.CLIENT_METRICS: [],
        ResourceType.GROUP: list(image.group_configs),
    }
    return ListConfigResourcesResponse(
        config_resources=[ConfigResource(name, kind) for kind in ResourceType if kind in wanted for name in names[kind]]
    )
