"""What the coordinator answers to a request about one transactional id: the next metadata, or an error. Pure.

A decision returns the metadata to write. When it returns what it was given there is nothing to write: the request was
done already. `None` means that a new producer id is needed: ask again with one. A KafkaError is the answer itself.

`pending` is the state to which a record is on its way; until it arrives nothing else is decided, and the client is told
to ask again (CONCURRENT_TRANSACTIONS).

EndTxn in version 2, where an epoch one below the present one is a retry of the request that made the present one:

                      abort                       commit
                      retry          current      retry          current
    Empty             fenced         next epoch   fenced         INVALID_TXN_STATE
    CompleteAbort     done           next epoch   INVALID_...    INVALID_TXN_STATE
    CompleteCommit    INVALID_...    next epoch   done           INVALID_TXN_STATE
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.broker.transactions import metadata as steps
from penstock.broker.transactions.metadata import (
    AT_REST,
    EMPTY,
    ENDING,
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARE_COMMIT,
    TV_2,
    TransactionMetadata,
    TransactionState,
)
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition

Pending = TransactionState | None


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int


def init_producer_id(
    current: TransactionMetadata,
    pending: Pending,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    new_producer_id: int | None,
    now_ms: int,
) -> TransactionMetadata | None:
    """A producer begins, or begins again after an error (`expected`, KIP-360). An open transaction is aborted first:
    then the result is PrepareAbort, and the client is to ask again."""
    if pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_be(current, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if current.state in ENDING:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is ONGOING:
        return steps.fence(current, now_ms)
    assert current.state in AT_REST, current
    if current.is_epoch_exhausted and (expected is None or _is_last_client(current, expected)):
        if new_producer_id is None:
            return None
        last_epoch = NO_PRODUCER_EPOCH if expected is None else expected.epoch
        return steps.rotate_producer_id(current, new_producer_id, last_epoch, timeout_ms, now_ms)
    return _bump(current, timeout_ms, expected, now_ms)


def _may_be(current: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether the producer that asks can be the one that we know; its epoch is looked at later."""
    if expected.producer_id == current.previous_producer_id and steps.is_epoch_exhausted(expected.epoch):
        return True  # a retry of the request that gave it another producer id
    return current.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == current.producer_id


def _is_last_client(current: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether it has the last epoch that a client may have; the one above was only made to fence it."""
    was_fenced = current.producer_epoch == MAX_EPOCH and expected.epoch == current.last_producer_epoch
    return was_fenced or expected.epoch == current.producer_epoch


def _bump(
    current: TransactionMetadata, timeout_ms: int, expected: ProducerIdAndEpoch | None, now_ms: int
) -> TransactionMetadata:
    if expected is None:
        return steps.bump_epoch(current, NO_PRODUCER_EPOCH, timeout_ms, now_ms)
    if current.producer_epoch in (NO_PRODUCER_EPOCH, expected.epoch) and not current.is_epoch_exhausted:
        return steps.bump_epoch(current, current.producer_epoch, timeout_ms, now_ms)
    if expected.epoch == current.last_producer_epoch:
        # Nobody else began meanwhile: that would have forgotten the last epoch.
        return steps.keep_epoch(current, timeout_ms, now_ms)
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def add_partitions(
    current: TransactionMetadata,
    pending: Pending,
    producer: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    version: int,
    now_ms: int,
) -> TransactionMetadata:
    _check_producer(current, producer)
    if pending is not None or current.state in ENDING:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is ONGOING and partitions <= current.partitions:
        return current
    return steps.add_partitions(current, partitions, version, now_ms)


def verify_partitions(
    current: TransactionMetadata, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Whether they are in the transaction. What is pending does not matter: the log looks again when it appends."""
    _check_is_open(current, producer)
    return {
        each: ErrorCode.NONE if each in current.partitions else ErrorCode.TRANSACTION_ABORTABLE for each in partitions
    }


def has_partitions(
    current: TransactionMetadata, producer: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
) -> bool:
    """As `verify_partitions`, for all of them together."""
    _check_is_open(current, producer)
    return partitions <= current.partitions


def _check_is_open(current: TransactionMetadata, producer: ProducerIdAndEpoch) -> None:
    _check_producer(current, producer)
    if current.state in ENDING:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)


def _check_producer(current: TransactionMetadata, producer: ProducerIdAndEpoch) -> None:
    if current.producer_id != producer.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if current.producer_epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def end(
    current: TransactionMetadata,
    pending: Pending,
    producer: ProducerIdAndEpoch,
    is_commit: bool,
    version: int,
    new_producer_id: int | None,
    now_ms: int,
) -> TransactionMetadata | None:
    """A client's EndTxn."""
    if (
        current.state is ONGOING
        and pending is None
        and producer == (current.producer_id, current.producer_epoch)
        and producer.epoch < LAST_CLIENT_EPOCH
    ):
        return steps.prepare_end(current, is_commit, version, NO_PRODUCER_ID, now_ms)  # what nearly all of them are
    if version < TV_2:
        return _end_v1(current, pending, producer, is_commit, version, now_ms)
    is_retry = _check_epoch(current, producer)
    if pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state in ENDING:
        raise _ending(current, is_commit)
    if current.state in AT_REST and (is_commit or is_retry):
        if is_retry and current.producer_epoch == MAX_EPOCH:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)  # it cannot go on with that one; only InitProducerId helps
        if is_retry and current.state is _completed(is_commit):
            return current
        raise _invalid_state(current, is_commit)
    next_producer_id = NO_PRODUCER_ID
    if current.is_epoch_exhausted:
        if new_producer_id is None:
            return None
        next_producer_id = new_producer_id
    return steps.prepare_end(current, is_commit, version, next_producer_id, now_ms)


def _check_epoch(current: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    """Raise unless the epoch fits the state. Whether the request is a retry."""
    is_retry_of_rotation = (
        current.previous_producer_id == producer.producer_id
        and producer.epoch == LAST_CLIENT_EPOCH
        and current.producer_epoch == 0
    )
    if current.producer_id != producer.producer_id and not is_retry_of_rotation:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_current = producer.epoch == current.producer_epoch
    is_retry = producer.epoch + 1 == current.producer_epoch
    if current.state in ENDING:
        is_valid = is_retry
    elif current.state in (ONGOING, EMPTY):
        is_valid = is_current
    else:
        is_valid = is_current or is_retry or is_retry_of_rotation
    if not is_valid:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return is_retry or is_retry_of_rotation


def _end_v1(
    current: TransactionMetadata,
    pending: Pending,
    producer: ProducerIdAndEpoch,
    is_commit: bool,
    version: int,
    now_ms: int,
) -> TransactionMetadata:
    _check_producer(current, producer)
    if pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is ONGOING:
        return steps.prepare_end(current, is_commit, version, NO_PRODUCER_ID, now_ms)
    if current.state in ENDING:
        raise _ending(current, is_commit)
    if current.state is _completed(is_commit):
        return current
    raise _invalid_state(current, is_commit)


def _completed(is_commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT


def _ending(current: TransactionMetadata, is_commit: bool) -> KafkaError:
    """The same outcome is on its way, or it is the other one."""
    if (current.state is PREPARE_COMMIT) == is_commit:
        return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return _invalid_state(current, is_commit)


def _invalid_state(current: TransactionMetadata, is_commit: bool) -> KafkaError:
    wanted = "committed" if is_commit else "aborted"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE, f"{current.transactional_id} is in {current.state.label} and cannot be {wanted}"
    )
