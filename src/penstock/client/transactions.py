"""Transactions from outside: which there are, what is in them and since when; end one whose producer does not.

    transactions = Transactions(cluster)
    transactions.list_transactions(states=["Ongoing"])
    transactions.describe(["billing-1"])[0].partitions
    transactions.abort(transactions.describe(["billing-1"])[0])         # ABORTED
    transactions.open_in("orders")[0].start_offset                      # as the partitions know them
    transactions.abort_at(TopicPartition("orders", 0), 42)

A transactional id stays known after its transaction, until `transactional.id.expiration.ms` have passed. An open
transaction keeps readers of committed messages waiting in its partitions, until it ends or its timeout aborts it.

`abort` does what a new producer with that id does first: it takes the id, so that the producer that has it is out
(fenced), and the coordinator aborts what that one left open. What the producer has begun to commit is committed.

A transaction hangs when a partition has it open and its coordinator does not know of it: then nothing ends it, no
timeout either. Brokers that verify writes (KIP-890) let none come about; older ones did. `abort_at` writes the marker
to that one partition. While the coordinator knows the transaction it refuses: the rest of it could still be committed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from penstock.client.cluster import Cluster
from penstock.client.coordinator import TRANSACTION, find_coordinator
from penstock.client.metadata import error_code
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.api import (
    describe_producers,
    describe_transactions,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)
from penstock.wire.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from penstock.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from penstock.wire.api.describe_transactions import TransactionState as DescribedState
from penstock.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ONGOING = "Ongoing"
ABORTING = ("PrepareAbort", "PrepareEpochFence")
COMMITTING = "PrepareCommit"
OPEN_STATES = (ONGOING, COMMITTING, *ABORTING)

ABORTED, COMMITTED = "CompleteAbort", "CompleteCommit"
_OUTCOMES = {**dict.fromkeys((*ABORTING, ABORTED), ABORTED), COMMITTING: COMMITTED, COMMITTED: COMMITTED}
"""How a transaction ends that is in this state, or has ended."""

_NEVER = -1
_NONE_OPEN = -1


class UnknownTransactionalIdError(KafkaError):
    """No transactional id of that name."""

    def __init__(self, transactional_id: str) -> None:
        words = f"There is no transactional id {transactional_id!r}. `penstock txn list` shows those that there are."
        super().__init__(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, words)


class UnknownOutcomeError(KafkaError):
    """The broker was lost before it said how the transaction ended."""

    def __init__(self, transactional_id: str, error: KafkaError) -> None:
        words = (
            f"It is not known whether the transaction of {transactional_id!r} was aborted. {error} "
            f"`penstock txn describe {transactional_id}` shows its state."
        )
        super().__init__(error.code, words)


class NoSuchOpenTransactionError(KafkaError):
    """No transaction that began at that offset is open in the partition."""

    def __init__(self, where: TopicPartition, start_offset: int) -> None:
        words = (
            f"No open transaction of {where} began at offset {start_offset}. "
            f"`penstock txn list --topic {where.topic}` shows those that are open."
        )
        super().__init__(ErrorCode.INVALID_TXN_STATE, words)


class CoordinatedTransactionError(KafkaError):
    """The transaction does not hang: its coordinator knows it, and ends it everywhere or nowhere."""

    def __init__(self, where: TopicPartition, transactional_id: str) -> None:
        words = (
            f"What is open in {where} is the transaction of {transactional_id!r}, which does not hang. "
            f"`penstock txn abort {transactional_id}` aborts it in all of its partitions."
        )
        super().__init__(ErrorCode.INVALID_TXN_STATE, words)


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transactional id in short."""

    transactional_id: str
    state: str
    producer_id: int


@dataclass(frozen=True, slots=True)
class TransactionInfo:
    """A transactional id and its transaction, which is open or the last one; what has ended has no partitions."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    coordinator: int
    partitions: tuple[TopicPartition, ...]

    @property
    def is_open(self) -> bool:
        """Also while it ends: until all markers are written, readers may wait for it."""
        return self.state in OPEN_STATES


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction as one partition knows it."""

    where: TopicPartition
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_timestamp: int
    """Of the producer's last batch, in milliseconds, as the producer says."""


class Transactions:
    """What can be asked of a cluster about its transactions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list_transactions(self, states: Sequence[str] = (), longer_than_ms: int = -1) -> list[ListedTransaction]:
        """Every transactional id by name, or those in these states, or whose transaction has been open for so long.

        Brokers also give those whose last transaction began so long ago and has ended: these are left out.
        """
        request = ListTransactionsRequest(state_filters=list(states), duration_filter=longer_than_ms)

        def attempt(deadline: float) -> list[ListedTransaction]:
            found = []
            for node_id in self._cluster.refresh((), deadline=deadline).nodes:
                answer = self._cluster.request(list_transactions.API, request, node_id=node_id, deadline=deadline)
                response = cast("ListTransactionsResponse", answer)
                _check(response.error_code, f"Broker {node_id} does not tell its transactions")
                found += [
                    ListedTransaction(each.transactional_id, each.transaction_state, each.producer_id)
                    for each in response.transaction_states
                    if longer_than_ms < 0 or each.transaction_state in OPEN_STATES
                ]
            return sorted(found, key=lambda each: each.transactional_id)

        return self._cluster.retry(attempt)

    def describe(self, transactional_ids: Collection[str]) -> list[TransactionInfo]:
        """These in this order; UnknownTransactionalIdError when one is not there."""
        return self._cluster.retry(lambda deadline: [self._describe(each, deadline) for each in transactional_ids])

    def abort(self, before: TransactionInfo) -> str | None:
        """Fence the producer and abort what it left open; gives ABORTED or COMMITTED, or None when nothing was open.

        The coordinator answers CONCURRENT_TRANSACTIONS while it ends what was open: then its state tells how.
        """
        name, outcome = before.transactional_id, None
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=before.timeout_ms)

        def attempt(deadline: float) -> None:
            nonlocal outcome
            node_id = self._coordinator(name, deadline)
            answer = self._cluster.request(init_producer_id.API, request, node_id=node_id, deadline=deadline)
            code = cast("InitProducerIdResponse", answer).error_code
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                outcome = _OUTCOMES.get(self._describe(name, deadline).state, outcome)
            _check(code, f"The transaction of {name!r} was not aborted")

        try:
            self._cluster.retry(attempt)
        except KafkaError as error:
            if not error.retriable:
                raise
            raise UnknownOutcomeError(name, error) from error
        return outcome

    def open_in(self, topic: str) -> list[OpenTransaction]:
        """What is open in the topic's partitions, by partition and offset, whether a coordinator knows of it or not."""

        def attempt(deadline: float) -> list[OpenTransaction]:
            partitions = self._cluster.topic(topic, deadline=deadline).partitions
            found = [self._open(TopicPartition(topic, each.partition), deadline) for each in partitions]
            return sorted((each for part in found for each in part), key=lambda each: (each.where, each.start_offset))

        return self._cluster.retry(attempt)

    def abort_at(self, where: TopicPartition, start_offset: int) -> OpenTransaction:
        """End a hanging transaction in this partition; gives what there was before."""
        transactional_id = self._id_of(self._began_at(where, start_offset))
        if transactional_id is not None:
            raise CoordinatedTransactionError(where, transactional_id)
        # What ended while the coordinator was asked is no longer open; what still is, hangs.
        hanging = self._began_at(where, start_offset)
        self._cluster.retry(lambda deadline: self._write_abort(hanging, deadline))
        return hanging

    def _began_at(self, where: TopicPartition, start_offset: int) -> OpenTransaction:
        for each in self._cluster.retry(lambda deadline: self._open(where, deadline)):
            if each.start_offset == start_offset:
                return each
        raise NoSuchOpenTransactionError(where, start_offset)

    def _open(self, where: TopicPartition, deadline: float) -> list[OpenTransaction]:
        request = DescribeProducersRequest(topics=[TopicRequest(where.topic, [where.partition])])
        node_id = self._cluster.leader(where, deadline=deadline)
        answer = self._cluster.request(describe_producers.API, request, node_id=node_id, deadline=deadline)
        (partition,) = cast("DescribeProducersResponse", answer).topics[0].partitions
        _check(partition.error_code, f"The producers of {where} are not known")
        return [
            OpenTransaction(
                where,
                each.current_txn_start_offset,
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.last_timestamp,
            )
            for each in partition.active_producers
            if each.current_txn_start_offset != _NONE_OPEN
        ]

    def _id_of(self, opened: OpenTransaction) -> str | None:
        """The transactional id whose coordinator has this transaction open, in this partition."""
        ids = [each.transactional_id for each in self.list_transactions() if each.producer_id == opened.producer_id]
        for info in self.describe(ids):
            if info.is_open and opened.where in info.partitions:
                return info.transactional_id
        return None

    def _write_abort(self, opened: OpenTransaction, deadline: float) -> None:
        """The marker, in the name of the coordinator that wrote last: who came after it may still write."""
        topic, partition = opened.where
        marker = WritableTxnMarker(
            producer_id=opened.producer_id,
            producer_epoch=opened.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(topic, [partition])],
            coordinator_epoch=max(0, opened.coordinator_epoch),
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        node_id = self._cluster.leader(opened.where, deadline=deadline)
        answer = self._cluster.request(write_txn_markers.API, request, node_id=node_id, deadline=deadline)
        (written,) = cast("WriteTxnMarkersResponse", answer).markers
        _check(written.topics[0].partitions[0].error_code, f"The transaction in {opened.where} was not aborted")

    def _describe(self, transactional_id: str, deadline: float) -> TransactionInfo:
        node_id = self._coordinator(transactional_id, deadline)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = self._cluster.request(describe_transactions.API, request, node_id=node_id, deadline=deadline)
        (state,) = cast("DescribeTransactionsResponse", answer).transaction_states
        if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise UnknownTransactionalIdError(transactional_id)
        _check(state.error_code, f"The transaction of {transactional_id!r} is not known")
        return _info(state, node_id)

    def _coordinator(self, transactional_id: str, deadline: float) -> int:
        return find_coordinator(self._cluster, TRANSACTION, transactional_id, deadline)


def by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for where in sorted(partitions):
        found[where.topic].append(where.partition)
    return dict(found)


def _info(state: DescribedState, coordinator: int) -> TransactionInfo:
    partitions = [TopicPartition(topic.topic, number) for topic in state.topics for number in topic.partitions]
    started = state.transaction_start_time_ms
    return TransactionInfo(
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        None if started == _NEVER else started,
        coordinator,
        tuple(sorted(partitions)),
    )


def _check(code: int, doing: str) -> None:
    error = error_code(code)
    if error is not ErrorCode.NONE:
        raise KafkaError(error, f"{doing}: {error.message}")
