"""DescribeCluster (key 60): the cluster's id, controller and brokers (KIP-700).

Versions:
- 0: flexible from the start
- 1: endpoints of brokers or of controllers (KIP-919)
- 2: fenced brokers on request (KIP-1073)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, boolean, int8, int16, int32, message, string, struct


@message("0-2", flexible="0+")
class DescribeClusterRequest(Struct):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


@struct
class DescribeClusterBroker(Struct):
    """A broker and its address."""

    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


@message("0-2", flexible="0+")
class DescribeClusterResponse(Struct):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-(2**31))


API = Api(60, DescribeClusterRequest, DescribeClusterResponse)
