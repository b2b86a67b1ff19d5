"""WriteTxnMarkers, versions 1 and 2: end transactions on partitions that this broker leads.

A coordinator on another broker sends it, and Kafka's tool that aborts a hanging transaction. Each partition succeeds or
fails by itself: TRANSACTION_COORDINATOR_FENCED for a coordinator that was replaced, INVALID_PRODUCER_EPOCH for a marker
of an old epoch. The answer comes when the markers are committed. A producer that is named twice is answered once.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.context import Call, Context, Later
from penstock.broker.transactions.markers import Codes, Marker
from penstock.types import TopicPartition
from penstock.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Results = dict[int, dict[TopicPartition, int]]
"""Producer id -> partition -> error code."""


def handle(context: Context, _call: Call, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse | Later:
    if not request.markers:
        return WriteTxnMarkersResponse()
    later = Later()
    results: Results = {marker.producer_id: {} for marker in request.markers}
    missing = len(request.markers)

    def on_written(producer_id: int, codes: Codes) -> None:
        nonlocal missing
        results[producer_id].update(codes)
        missing -= 1
        if not missing:
            later.finish(lambda: _response(results))

    for marker in request.markers:
        _write(context, marker, on_written)
    return later


def _write(context: Context, marker: WritableTxnMarker, on_written: Callable[[int, Codes], None]) -> None:
    partitions = [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    outcome = Marker(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    context.transactions.markers.write(partitions, outcome, lambda codes: on_written(marker.producer_id, codes))


def _response(results: Results) -> WriteTxnMarkersResponse:
    markers = []
    for producer_id, codes in results.items():
        topics: dict[str, WritableTxnMarkerTopicResult] = {}
        for (name, index), code in codes.items():
            topic = topics.setdefault(name, WritableTxnMarkerTopicResult(name))
            topic.partitions.append(WritableTxnMarkerPartitionResult(index, code))
        markers.append(WritableTxnMarkerResult(producer_id, list(topics.values())))
    return WriteTxnMarkersResponse(markers)
