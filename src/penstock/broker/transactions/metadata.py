"""A transactional id and where it stands: Kafka's states, and every step from one to another. Pure.

    Empty ──────────▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ─┐
      ▲                  │  └───▶ PrepareAbort ───▶ CompleteAbort ──┤
      └──────────────────┼──────────────────────────────────────────┘     and from there to Ongoing again
                         └─ PrepareEpochFence: decided to fence the producer, on the way to PrepareAbort; never written

Each function returns the metadata as it is to be after the step. Nothing here changes in place: the step counts when
its record is in the log, and a record that could not be written leaves everything as it was.

Epochs. In version 1 of transactions the producer keeps its epoch until someone calls InitProducerId. In version 2
(KIP-890) every transaction ends with the next epoch, so that nothing which was sent for the last transaction can reach
the next. The epoch 32767 is never given to a client: one above its own is always left to fence it with. A producer at
32766 goes on with a new producer id and epoch 0.

`last_producer_epoch` is not written to the log, as in Kafka: after a restart a retry of InitProducerId whose answer got
lost is fenced.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from penstock.types import TopicPartition

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
NO_PARTITIONS: frozenset[TopicPartition] = frozenset()
MAX_EPOCH = 32_767
LAST_CLIENT_EPOCH = MAX_EPOCH - 1

TV_0 = 0
TV_2 = 2
"""Transaction versions: with 2 each transaction has an epoch of its own."""


class TransactionState(Enum):
    """The number in the log, and the name that tools show."""

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    def __init__(self, number: int, label: str) -> None:
        self.number = number
        self.label = label

    __hash__ = object.__hash__
    """Members are compared by identity; Enum's own hash, of the name, is in Python and asked for at every step."""


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT
DEAD = TransactionState.DEAD
PREPARE_EPOCH_FENCE = TransactionState.PREPARE_EPOCH_FENCE

STATES_BY_NUMBER = {state.number: state for state in TransactionState}
STATES_BY_LABEL = {state.label: state for state in TransactionState}

AT_REST = frozenset((EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT))
"""No transaction is open, and none is ending."""
ENDING = frozenset((PREPARE_COMMIT, PREPARE_ABORT))

PREVIOUS_STATES = {
    EMPTY: AT_REST,
    ONGOING: AT_REST | {ONGOING},
    PREPARE_COMMIT: frozenset((ONGOING,)),
    PREPARE_ABORT: AT_REST | {ONGOING, PREPARE_EPOCH_FENCE},
    COMPLETE_COMMIT: frozenset((PREPARE_COMMIT,)),
    COMPLETE_ABORT: frozenset((PREPARE_ABORT,)),
    DEAD: AT_REST,
    PREPARE_EPOCH_FENCE: frozenset((ONGOING,)),
}
"""State -> those from which it can be reached."""


class TransactionMetadata(NamedTuple):
    """What is known of one transactional id."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    """The one that the producer goes on with when this transaction has ended, if it is another."""
    producer_epoch: int
    last_producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_ms: int
    last_update_ms: int
    client_version: int = TV_0

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def is_commit(self) -> bool:
        """How a transaction that is ending ends."""
        assert self.state in ENDING, self.state
        return self.state is PREPARE_COMMIT

    def has_timed_out(self, now_ms: int) -> bool:
        return self.state is ONGOING and self.start_ms + self.timeout_ms < now_ms

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """Whether the id was not used for so long that it may be forgotten."""
        return self.state in AT_REST and self.last_update_ms + expiration_ms <= now_ms


def is_epoch_exhausted(epoch: int) -> bool:
    return epoch >= LAST_CLIENT_EPOCH


def new_metadata(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    """An id that was never used: the first InitProducerId makes its epoch 0."""
    return TransactionMetadata(
        transactional_id,
        producer_id,
        NO_PRODUCER_ID,
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_PRODUCER_EPOCH,
        timeout_ms,
        EMPTY,
        NO_PARTITIONS,
        NO_TIMESTAMP,
        now_ms,
    )


def bump_epoch(metadata: TransactionMetadata, last_epoch: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    """A producer begins: the next epoch of the same producer id."""
    assert not metadata.is_epoch_exhausted, metadata
    return _begin(metadata, metadata.producer_id, metadata.producer_epoch + 1, last_epoch, timeout_ms, now_ms)


def keep_epoch(metadata: TransactionMetadata, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    """A retry of a `bump_epoch` whose answer got lost."""
    last_epoch = metadata.last_producer_epoch
    return _begin(metadata, metadata.producer_id, metadata.producer_epoch, last_epoch, timeout_ms, now_ms)


def rotate_producer_id(
    metadata: TransactionMetadata, producer_id: int, last_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    """The epochs of the producer id are used up: another one, from 0."""
    return _begin(metadata, producer_id, 0, last_epoch, timeout_ms, now_ms)


def _begin(
    metadata: TransactionMetadata, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
) -> TransactionMetadata:
    began = metadata._replace(
        state=EMPTY,
        producer_id=producer_id,
        previous_producer_id=metadata.producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=NO_PARTITIONS,
        start_ms=NO_TIMESTAMP,
        last_update_ms=now_ms,
    )
    return _step(metadata, began)


# The steps of every transaction are written out: `_replace` takes ten times as long.

_new = tuple.__new__


def add_partitions(
    metadata: TransactionMetadata, partitions: frozenset[TopicPartition], version: int, now_ms: int
) -> TransactionMetadata:
    """The transaction begins, or goes on, with these partitions too."""
    name, producer_id, _, next_id, epoch, last_epoch, timeout_ms, state, known, start_ms, _, _ = metadata
    if known:
        partitions = known | partitions
    if state is not ONGOING:
        start_ms = now_ms
    added = (
        name, producer_id, producer_id, next_id, epoch, last_epoch, timeout_ms, ONGOING, partitions, start_ms, now_ms,
        version,
    )  # fmt: skip
    return _step(metadata, _new(TransactionMetadata, added))


def prepare_end(
    metadata: TransactionMetadata, is_commit: bool, version: int, next_producer_id: int, now_ms: int
) -> TransactionMetadata:
    """From here on the outcome is decided. Version 2 may abort where nothing was begun, just for a new epoch."""
    name, producer_id, _, _, epoch, last_epoch, timeout_ms, state, partitions, start_ms, _, _ = metadata
    if version >= TV_2:
        epoch, last_epoch = epoch + 1, epoch
        assert epoch <= MAX_EPOCH, metadata
    if state is not ONGOING:
        start_ms = now_ms
    prepared = (
        name, producer_id, producer_id, next_producer_id, epoch, last_epoch, timeout_ms,
        PREPARE_COMMIT if is_commit else PREPARE_ABORT, partitions, start_ms, now_ms, version,
    )  # fmt: skip
    return _step(metadata, _new(TransactionMetadata, prepared))


def fence(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Abort an open transaction against its producer's will, which the next epoch shuts out."""
    assert metadata.state is ONGOING, metadata
    return prepare_end(metadata, False, TV_2, NO_PRODUCER_ID, now_ms)


def producer_after(metadata: TransactionMetadata) -> tuple[int, int]:
    """The producer's id and epoch when a transaction that is ending has ended."""
    has_next = metadata.client_version >= TV_2 and metadata.next_producer_id != NO_PRODUCER_ID
    return (metadata.next_producer_id, 0) if has_next else (metadata.producer_id, metadata.producer_epoch)


def complete(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """All markers are written."""
    name, previous_id, _, _, _, last_epoch, timeout_ms, _, _, start_ms, _, version = metadata
    producer_id, epoch = producer_after(metadata)
    completed = (
        name, producer_id, previous_id, NO_PRODUCER_ID, epoch, last_epoch, timeout_ms,
        COMPLETE_COMMIT if metadata.is_commit else COMPLETE_ABORT, NO_PARTITIONS, start_ms, now_ms, version,
    )  # fmt: skip
    return _step(metadata, _new(TransactionMetadata, completed))


def _step(before: TransactionMetadata, after: TransactionMetadata) -> TransactionMetadata:
    assert before.state in PREVIOUS_STATES[after.state], f"{before} cannot become {after.state}"
    assert after.producer_id >= 0, after
    assert after.producer_epoch >= 0, after
    return after
