"""The transactional ids that live in one partition of `__transaction_state`. Pure.

Loading a shard is `replay` for every record of the partition's log, oldest first. After that it is called with each
record that this broker wrote, as soon as it is committed: there is no other way to change what is known of an id.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.broker.transactions.metadata import (
    DEAD,
    ENDING,
    ONGOING,
    TransactionMetadata,
    TransactionState,
)
from penstock.broker.transactions.records import TransactionRecord
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition


class TransactionalId:
    """One id: what the log says of it, and what is on its way."""

    __slots__ = ("metadata", "pending", "unmarked")

    def __init__(self, metadata: TransactionMetadata) -> None:
        self.metadata = metadata
        self.pending: TransactionState | None = None
        """The state of a record that is being written; nothing else is decided until it is."""
        self.unmarked: set[TopicPartition] = set()
        """While the transaction ends: the partitions whose marker is still to be written."""

    @property
    def shown_partitions(self) -> frozenset[TopicPartition] | set[TopicPartition]:
        return self.unmarked if self.metadata.state in ENDING else self.metadata.partitions


class Shard:
    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.ids: dict[str, TransactionalId] = {}
        self.ongoing: set[str] = set()
        """Those with an open transaction: who looks for timeouts need not look at the others."""

    def replay(self, record: TransactionRecord) -> None:
        """One record of the log."""
        transactional_id, metadata = record
        if metadata is None or metadata.state is DEAD:
            self.ids.pop(transactional_id, None)
            self.ongoing.discard(transactional_id)
            return
        known = self.ids.get(transactional_id)
        if known is None:
            known = self.ids[transactional_id] = TransactionalId(metadata)
        known.metadata = metadata
        state = metadata.state
        if state in ENDING:
            known.unmarked = set(metadata.partitions)
        elif known.unmarked:
            known.unmarked = set()
        if state is ONGOING:
            self.ongoing.add(transactional_id)
        else:
            self.ongoing.discard(transactional_id)

    def id_or_raise(
        self, transactional_id: str, code: ErrorCode = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    ) -> TransactionalId:
        found = self.ids.get(transactional_id)
        if found is None or (found.pending is DEAD and code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
            raise KafkaError(code)
        return found

    def ending(self) -> list[TransactionalId]:
        """Those that a crash left prepared: their outcome is decided, and is to be carried out."""
        return [each for each in self.ids.values() if each.metadata.state in ENDING]

    def timed_out(self, now_ms: int) -> list[TransactionalId]:
        found = (self.ids[each] for each in self.ongoing)
        return [each for each in found if each.pending is None and each.metadata.has_timed_out(now_ms)]

    def expired(self, now_ms: int, expiration_ms: int) -> list[TransactionalId]:
        return [
            each
            for each in self.ids.values()
            if each.pending is None and each.metadata.has_expired(now_ms, expiration_ms)
        ]

    def __iter__(self) -> Iterator[TransactionalId]:
        return iter(self.ids.values())
