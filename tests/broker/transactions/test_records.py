"""The records of transactional ids: packed by hand as their schema says, and read back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.transactions.metadata import EMPTY, TransactionMetadata, TransactionState
from penstock.broker.transactions.records import VALUE_VERSION, TransactionRecord, by_topic, decode, encode
from penstock.types import TopicPartition
from penstock.wire.coordinator.transaction_log import TRANSACTION_LOG, TransactionLogKey, TransactionLogValue

INT64 = st.integers(-1, 2**63 - 1)
EPOCHS = st.integers(-1, 2**15 - 1)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=200)
PARTITIONS = st.frozensets(st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1)), max_size=200)
METADATA = st.builds(
    TransactionMetadata,
    NAMES, INT64, INT64, INT64, EPOCHS, EPOCHS, st.integers(0, 2**31 - 1), st.sampled_from(TransactionState),
    PARTITIONS, INT64, INT64, st.integers(0, 2),
)  # fmt: skip


def by_schema(metadata: TransactionMetadata) -> bytes:
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.number,
        transaction_partitions=None if metadata.state is EMPTY else by_topic(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    return TRANSACTION_LOG.encode_value(value, VALUE_VERSION)


@given(METADATA)
def test_a_value_that_is_packed_by_hand_has_the_bytes_of_its_schema(metadata: TransactionMetadata):
    key, value = encode(TransactionRecord(metadata.transactional_id, metadata))
    assert key == TRANSACTION_LOG.encode_key(TransactionLogKey(metadata.transactional_id))
    assert value == by_schema(metadata)


@given(METADATA)
def test_a_record_is_read_as_it_was_written_without_the_last_epoch(metadata: TransactionMetadata):
    partitions = frozenset() if metadata.state is EMPTY else metadata.partitions
    record = TransactionRecord(metadata.transactional_id, metadata)
    (found,) = decode(*encode(record))
    assert found.metadata == metadata._replace(last_producer_epoch=-1, partitions=partitions)


def test_an_id_that_is_forgotten_has_no_value():
    assert encode(TransactionRecord("gone", None))[1] is None
