"""What the coordinator writes to `__transaction_state`, as values, and their bytes (see `wire/coordinator`).

A record holds all that is to be known of a transactional id; without a value the id is forgotten. Partitions are
written sorted, so that the same state has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.broker.transactions.metadata import (
    EMPTY,
    NO_PRODUCER_EPOCH,
    STATES_BY_NUMBER,
    TransactionMetadata,
)
from penstock.errors import MalformedError
from penstock.types import Bytes, TopicPartition
from penstock.wire.coordinator import record_type_number
from penstock.wire.coordinator.transaction_log import (
    TRANSACTION_LOG,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

VALUE_VERSION = 1


class TransactionRecord(NamedTuple):
    transactional_id: str
    metadata: TransactionMetadata | None


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    key = TRANSACTION_LOG.encode_key(TransactionLogKey(record.transactional_id))
    if record.metadata is None:
        return key, None
    return key, TRANSACTION_LOG.encode_value(_value(record.metadata), VALUE_VERSION)


def _value(metadata: TransactionMetadata) -> TransactionLogValue:
    partitions = None if metadata.state is EMPTY else by_topic(metadata.partitions)
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.number,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )


def by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    topics: dict[str, PartitionsSchema] = {}
    for topic, index in sorted(partitions):
        found = topics.get(topic)
        if found is None:
            found = topics[topic] = PartitionsSchema(topic)
        found.partition_ids.append(index)
    return list(topics.values())


def decode(key: Bytes, value: Bytes | None) -> tuple[TransactionRecord, ...]:
    """The record, or nothing for a type that we do not know. MalformedError when it is not what its type says."""
    if record_type_number(key) != TRANSACTION_LOG.number:
        return ()
    whose = TRANSACTION_LOG.decode_key(key)
    assert isinstance(whose, TransactionLogKey)
    transactional_id = whose.transactional_id
    return (TransactionRecord(transactional_id, None if value is None else _read(transactional_id, value)),)


def _read(transactional_id: str, data: Bytes) -> TransactionMetadata:
    value = TRANSACTION_LOG.decode_value(data)
    assert isinstance(value, TransactionLogValue)
    state = STATES_BY_NUMBER.get(value.transaction_status)
    if state is None:
        raise MalformedError(
            f"transactional id {transactional_id} is in state {value.transaction_status}, which is none"
        )
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
