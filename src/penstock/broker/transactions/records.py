"""What the coordinator writes to `__transaction_state`, as values, and their bytes (see `wire/coordinator`).

A record holds all that is to be known of a transactional id; without a value the id is forgotten. Partitions are
written sorted, so that the same state has the same bytes. Values are packed by hand, four times as fast as by their
schema, for a transaction of one message has three of them; a test holds the two to the same bytes.

    version int16, producer id int64, epoch int16, timeout int32, state int8, partitions (null in Empty),
    last update int64, start int64, tags: 0 previous and 1 next producer id (int64), 2 the client's version (int16)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from penstock.broker.transactions.metadata import (
    EMPTY,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
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
from penstock.wire.primitives import append_uvarint

VALUE_VERSION = 1
MAX_REMEMBERED_KEYS = 4096
"""Of ids that were used last; each writes three records in every transaction."""
FEW = 4
"""Most transactions have no more partitions, and those of the last one again: their bytes are remembered."""
MAX_REMEMBERED_PARTITIONS = 1024

_FIXED = struct.Struct(">hqhib")
"""The value's version, the producer's id and epoch, the timeout, the state."""
_TIMES = struct.Struct(">qq")
_ID_TAG = struct.Struct(">BBq")
_VERSION_TAG = struct.Struct(">BBh")
_REST_V1 = struct.Struct(">qq B BBq")
"""The times, and one tag: the previous producer id."""
_REST_V2 = struct.Struct(">qq B BBq BBh")
"""The times, and two tags: the previous producer id and the client's version."""
_NULL = b"\x00"
_NO_TAGS = b"\x00"
_NO_PARTITIONS = b"\x01"


class TransactionRecord(NamedTuple):
    transactional_id: str
    metadata: TransactionMetadata | None


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    return _key(record.transactional_id), None if record.metadata is None else _value(record.metadata)


@lru_cache(maxsize=MAX_REMEMBERED_KEYS)
def _key(transactional_id: str) -> bytes:
    return TRANSACTION_LOG.encode_key(TransactionLogKey(transactional_id))


def _value(metadata: TransactionMetadata) -> bytes:
    (_, producer_id, previous_id, next_id, epoch, _, timeout_ms, state, partitions, start_ms, last_update_ms,
     version) = metadata  # fmt: skip
    fixed = _FIXED.pack(VALUE_VERSION, producer_id, epoch, timeout_ms, state.number)
    where = _NULL if state is EMPTY else _encode_partitions(partitions)
    if previous_id == NO_PRODUCER_ID or next_id != NO_PRODUCER_ID:
        rest = _TIMES.pack(last_update_ms, start_ms) + _tags(metadata)
    elif version:
        rest = _REST_V2.pack(last_update_ms, start_ms, 2, 0, 8, previous_id, 2, 2, version)
    else:
        rest = _REST_V1.pack(last_update_ms, start_ms, 1, 0, 8, previous_id)
    return fixed + where + rest


def _encode_partitions(partitions: frozenset[TopicPartition]) -> bytes:
    if not partitions:
        return _NO_PARTITIONS
    return _few_partitions(partitions) if len(partitions) <= FEW else _partitions(partitions)


def _partitions(partitions: frozenset[TopicPartition]) -> bytes:
    topics = by_topic(partitions)
    out = bytearray()
    append_uvarint(out, len(topics) + 1)
    for each in topics:
        name = each.topic.encode()
        append_uvarint(out, len(name) + 1)
        out += name
        append_uvarint(out, len(each.partition_ids) + 1)
        out += struct.pack(f">{len(each.partition_ids)}i", *each.partition_ids)
        out += _NO_TAGS
    return bytes(out)


_few_partitions = lru_cache(maxsize=MAX_REMEMBERED_PARTITIONS)(_partitions)


def _tags(metadata: TransactionMetadata) -> bytes:
    """In the order of their numbers; what has its default is left out."""
    tags = []
    if metadata.previous_producer_id != NO_PRODUCER_ID:
        tags.append(_ID_TAG.pack(0, 8, metadata.previous_producer_id))
    if metadata.next_producer_id != NO_PRODUCER_ID:
        tags.append(_ID_TAG.pack(1, 8, metadata.next_producer_id))
    if metadata.client_version:
        tags.append(_VERSION_TAG.pack(2, 2, metadata.client_version))
    return bytes((len(tags),)) + b"".join(tags)


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
