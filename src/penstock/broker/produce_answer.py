"""What a producer is told about one partition: where its batch went, or why it was refused."""

from __future__ import annotations

from penstock.errors import InvalidRecordsError, KafkaError
from penstock.log.log import AppendResult
from penstock.wire.api.produce import BatchIndexAndErrorMessage, PartitionProduceResponse


def success(index: int, result: AppendResult) -> PartitionProduceResponse:
    return PartitionProduceResponse(index, 0, result.base_offset, result.log_append_time_ms, result.log_start_offset)


def failure(index: int, error: KafkaError) -> PartitionProduceResponse:
    records = error.records if isinstance(error, InvalidRecordsError) else ()
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=-1,
        record_errors=[BatchIndexAndErrorMessage(place, why) for place, why in records],
        error_message=error.message,
    )
