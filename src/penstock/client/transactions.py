"""Transactions from outside: which there are, what is in them and since when; end one whose producer does not.

    transactions = Transactions(cluster)
    transactions.list_transactions(states=["Ongoing"])
    transactions.describe(["billing-1"])[0].partitions
    transactions.abort("billing-1")

A transactional id stays known after its transaction, until `transactional.id.expiration.ms` have passed. An open
transaction keeps readers of committed messages waiting in its partitions, until it ends or its timeout aborts it.

`abort` does what a new producer with that id does first: it takes the id, so that the producer that has it is out
(fenced), and the coordinator aborts what that one left open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from penstock.client.cluster import Cluster
from penstock.client.metadata import error_code
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.api import describe_transactions, find_coordinator, init_producer_id, list_transactions
from penstock.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from penstock.wire.api.describe_transactions import TransactionState as DescribedState
from penstock.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")

_TRANSACTION_KEY = 1
_NEVER = -1


class UnknownTransactionalIdError(KafkaError):
    """No transactional id of that name."""

    def __init__(self, transactional_id: str) -> None:
        words = f"There is no transactional id {transactional_id!r}. `penstock txn list` shows those that there are."
        super().__init__(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, words)


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


class Transactions:
    """What can be asked of a cluster about its transactions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list_transactions(self, states: Sequence[str] = (), longer_than_ms: int = -1) -> list[ListedTransaction]:
        """Every transactional id by name, or those in these states, or whose transaction has been open for so long."""
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
                ]
            return sorted(found, key=lambda each: each.transactional_id)

        return self._cluster.retry(attempt)

    def describe(self, transactional_ids: Collection[str]) -> list[TransactionInfo]:
        """These in this order; UnknownTransactionalIdError when one is not there."""
        return self._cluster.retry(lambda deadline: [self._describe(each, deadline) for each in transactional_ids])

    def abort(self, transactional_id: str) -> TransactionInfo:
        """Fence the producer and abort what it left open; gives what there was before."""
        (before,) = self.describe([transactional_id])
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=before.timeout_ms)

        def attempt(deadline: float) -> None:
            node_id = self._coordinator(transactional_id, deadline)
            answer = self._cluster.request(init_producer_id.API, request, node_id=node_id, deadline=deadline)
            code = cast("InitProducerIdResponse", answer).error_code
            _check(code, f"The transaction of {transactional_id!r} was not aborted")

        self._cluster.retry(attempt)
        return before

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
        request = FindCoordinatorRequest(
            key=transactional_id, key_type=_TRANSACTION_KEY, coordinator_keys=[transactional_id]
        )
        answer = self._cluster.request(find_coordinator.API, request, deadline=deadline)
        response = cast("FindCoordinatorResponse", answer)
        found = response.coordinators[0] if response.coordinators else response  # before version 4 there is one
        _check(found.error_code, f"The coordinator of {transactional_id!r} is not known")
        return found.node_id


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
