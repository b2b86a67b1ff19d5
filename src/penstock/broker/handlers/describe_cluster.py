"""DescribeCluster, versions 0 to 2: the cluster's id, its controller and its brokers.

Asked for controllers (endpoint type 2) a broker refuses, as Kafka's does.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context
from penstock.broker.endpoints import reachable
from penstock.broker.handlers.metadata import CLUSTER_OPERATIONS, NOT_REQUESTED
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS = 1
CONTROLLERS = 2


def handle(context: Context, call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        is_known = request.endpoint_type == CONTROLLERS
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        raise KafkaError(code, "this endpoint describes brokers only")
    image = context.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        brokers=[
            DescribeClusterBroker(broker.broker_id, address.host, address.port, broker.rack)
            for broker, address in reachable(image, call.connection)
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_REQUESTED
        ),
    )
