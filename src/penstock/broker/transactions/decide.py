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
    now: TransactionMetadata,
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
    if expected is not None and not _may_be(now, expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if now.state in ENDING:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if now.state is ONGOING:
        return steps.fence(now, now_ms)
    assert now.state in AT_REST, now
    if now.is_epoch_exhausted and (expected is None or _is_last_client(now, expected)):
        if new_producer_id is None:
            return None
        last_epoch = NO_PRODUCER_EPOCH if expected is None else expected.epoch
        return steps.rotate_producer_id(now, new_producer_id, last_epoch, timeout_ms, now_ms)
    return _bump(now, timeout_ms, expected, now_ms)


def _may_be(now: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether the producer that asks can be the one that we know; its epoch is looked at later."""
    is_retry_of_rotation = expected.producer_id == now.previous_producer_id and steps.is_epoch_exhausted(expected.epoch)
    return now.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == now.producer_id or is_retry_of_rotation


def _is_last_client(now: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Whether it has the last epoch that a client may have; the one above was only made to fence it."""
    was_fenced = now.producer_epoch == MAX_EPOCH and expected.epoch == now.last_producer_epoch
    return was_fenced or expected.epoch == now.producer_epoch


def _bump(
    now: TransactionMetadata, timeout_ms: int, expected: ProducerIdAndEpoch | None, now_ms: int
) -> TransactionMetadata:
    if expected is None:
        return steps.bump_epoch(now, NO_PRODUCER_EPOCH, timeout_ms, now_ms)
    if now.producer_epoch in (NO_PRODUCER_EPOCH, expected.epoch) and not now.is_epoch_exhausted:
        return steps.bump_epoch(now, now.producer_epoch, timeout_ms, now_ms)
    if expected.epoch == now.last_producer_epoch:
        # Nobody else began meanwhile: that would have forgotten the last epoch.
        return steps.keep_epoch(now, timeout_ms, now_ms)
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def add_partitions(
    now: TransactionMetadata,
    pending: Pending,
    producer: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    version: int,
    now_ms: int,
) -> TransactionMetadata:
    _check_producer(now, producer)
    if pending is not None or now.state in ENDING:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if now.state is ONGOING and partitions <= now.partitions:
        return now
    return steps.add_partitions(now, partitions, version, now_ms)


def verify_partitions(
    now: TransactionMetadata, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Whether they are in the transaction. What is pending does not matter: the log looks again when it appends."""
    _check_producer(now, producer)
    if now.state in ENDING:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return {each: ErrorCode.NONE if each in now.partitions else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}


def _check_producer(now: TransactionMetadata, producer: ProducerIdAndEpoch) -> None:
    if now.producer_id != producer.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if now.producer_epoch != producer.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def end(
    now: TransactionMetadata,
    pending: Pending,
    producer: ProducerIdAndEpoch,
    is_commit: bool,
    version: int,
    new_producer_id: int | None,
    now_ms: int,
) -> TransactionMetadata | None:
    """A client's EndTxn."""
    if version < TV_2:
        return _end_v1(now, pending, producer, is_commit, version, now_ms)
    is_retry = _check_epoch(now, producer)
    if pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if now.state in ENDING:
        raise _ending(now, is_commit)
    if now.state in AT_REST and (is_commit or is_retry):
        if is_retry and now.producer_epoch == MAX_EPOCH:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)  # it cannot go on with that one; only InitProducerId helps
        if is_retry and now.state is _completed(is_commit):
            return now
        raise _invalid_state(now, is_commit)
    next_producer_id = NO_PRODUCER_ID
    if now.is_epoch_exhausted:
        if new_producer_id is None:
            return None
        next_producer_id = new_producer_id
    return steps.prepare_end(now, is_commit, version, next_producer_id, now_ms)


def _check_epoch(now: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    """Raise unless the epoch fits the state. Whether the request is a retry."""
    is_retry_of_rotation = (
        now.previous_producer_id == producer.producer_id
        and producer.epoch == LAST_CLIENT_EPOCH
        and now.producer_epoch == 0
    )
    if now.producer_id != producer.producer_id and not is_retry_of_rotation:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_current = producer.epoch == now.producer_epoch
    is_retry = producer.epoch + 1 == now.producer_epoch
    if now.state in ENDING:
        is_valid = is_retry
    elif now.state in (ONGOING, EMPTY):
        is_valid = is_current
    else:
        is_valid = is_current or is_retry or is_retry_of_rotation
    if not is_valid:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return is_retry or is_retry_of_rotation


def _end_v1(
    now: TransactionMetadata,
    pending: Pending,
    producer: ProducerIdAndEpoch,
    is_commit: bool,
    version: int,
    now_ms: int,
) -> TransactionMetadata:
    _check_producer(now, producer)
    if pending is not None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if now.state is ONGOING:
        return steps.prepare_end(now, is_commit, version, NO_PRODUCER_ID, now_ms)
    if now.state in ENDING:
        raise _ending(now, is_commit)
    if now.state is _completed(is_commit):
        return now
    raise _invalid_state(now, is_commit)


def _completed(is_commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT


def _ending(now: TransactionMetadata, is_commit: bool) -> KafkaError:
    """The same outcome is on its way, or it is the other one."""
    if (now.state is PREPARE_COMMIT) == is_commit:
        return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return _invalid_state(now, is_commit)


def _invalid_state(now: TransactionMetadata, is_commit: bool) -> KafkaError:
    wanted = "committed" if is_commit else "aborted"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE, f"{now.transactional_id} is in {now.state.label} and cannot be {wanted}"
    )
