"""WriteTxnMarkers (key 27): end transactions on partitions, sent by their coordinator to the leaders.

Versions:
- 1: the lowest accepted; flexible
- 2: the transaction version, by which the leader checks the producer's epoch (KIP-1228)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, boolean, int8, int16, int32, int64, message, string, struct


@struct
class WritableTxnMarkerTopic(Struct):
    """The partitions of one topic."""

    name: str = string()
    partition_indexes: list[int] = array(Kind.INT32)


@struct
class WritableTxnMarker(Struct):
    """How one producer's transaction ended, and where that is to be written."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", default=0, ignorable=True)


@message("1-2", flexible="1+")
class WriteTxnMarkersRequest(Struct):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@struct
class WritableTxnMarkerPartitionResult(Struct):
    """Whether the marker is in the partition's log."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class WritableTxnMarkerTopicResult(Struct):
    """The results of one topic."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@struct
class WritableTxnMarkerResult(Struct):
    """The results of one producer's marker."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@message("1-2", flexible="1+")
class WriteTxnMarkersResponse(Struct):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)


API = Api(27, WriteTxnMarkersRequest, WriteTxnMarkersResponse)
