"""What the data path asks the transaction coordinator before the first batch of a transaction goes into a partition.

A write that comes late, after its transaction was ended, would begin a transaction that nobody knows of and nobody
ends: readers would hang before it for ever (KIP-890). So a partition's leader asks first, once per transaction and
partition; what follows in the same transaction is known to belong to it from the log itself.

    verify    Produce up to version 11: is the partition in the transaction, as AddPartitionsToTxn has put it there?
    add       Produce from version 12 on: put it there

The coordinator answers by calling back, at once or later, with the error code of every partition that is refused; a
partition that is not in the answer, or is there with NONE, may be written. Codes are the coordinator's own
(INVALID_TXN_STATE, TRANSACTION_ABORTABLE, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_PRODUCER_EPOCH,
CONCURRENT_TRANSACTIONS, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS ...); the caller turns them into what a producer
of its version understands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from penstock.errors import ErrorCode
from penstock.types import TopicPartition

OnVerified = Callable[[Mapping[TopicPartition, ErrorCode]], None]
"""Gets the partitions that are refused, and why."""


class TransactionVerifier(Protocol):
    """The transaction coordinator, as a partition's leader sees it."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        on_verified: OnVerified,
    ) -> None:
        """Whether the partitions are in the producer's ongoing transaction; `on_verified` maybe before this returns."""
        ...

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        on_verified: OnVerified,
    ) -> None:
        """Add the partitions to the producer's transaction, which begins with the first; called back when that cannot
        be lost any more."""
        ...
