"""A transactional id and where it stands: the one record type of `__transaction_state`.

Version 1 of the value is flexible and is what Kafka 4.3 writes with transaction version 1 or 2, and so do we; version 0
is read.
"""

from __future__ import annotations

from penstock.wire.coordinator import RecordType
from penstock.wire.schema import Kind, Struct, array, int8, int16, int32, int64, message, string, struct


@message("0")
class TransactionLogKey(Struct):
    transactional_id: str = string("0")


@struct
class PartitionsSchema(Struct):
    """The partitions of one topic."""

    topic: str = string()
    partition_ids: list[int] = array(Kind.INT32)


@message("0-1", flexible="1+")
class TransactionLogValue(Struct):
    """`transaction_partitions` is null where there is no transaction."""

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2)


TRANSACTION_LOG = RecordType(0, TransactionLogKey, TransactionLogValue)
