"""Writes in transactions, by the protocol itself: take a transactional id, begin, commit or abort.

    session = TransactionalSession(cluster, "billing-1")
    transaction = session.begin()                                 # the first one takes the id: others are fenced
    transaction.add_partitions([TopicPartition("invoices", 0)])   # before the first batch for a partition
    ... Produce requests with transaction.identity, by transaction.produce_api ...
    transaction.send_offsets("billing", {TopicPartition("orders", 0): 42})
    transaction.commit()                                          # or abort()

Rules:
- who takes an id shuts out (fences) whoever had it, and what that one left open is aborted first; what it had begun to
  commit is committed first. `take_id` returns when that is done;
- each transaction has a producer id and epoch that no other has, and a writer's sequences begin with 0 in it;
- with transaction version 2 (KIP-890, Kafka 4) a Produce request puts its partitions into the transaction, and the end
  of one tells the epoch of the next. Older brokers are told the partitions first, and the id is taken for each
  transaction anew. Versions of requests that mean the one are not sent to a broker that is at the other;
- whatever may pass is tried again until the cluster's timeout: a coordinator that loads, has moved or does not answer,
  and the end of the transaction before, which takes a moment.

An answer to a commit may be lost. The same question is asked again, with the same epoch: the coordinator knows that it
has done it. So `commit` returns only when the transaction is committed, and its errors say what is known:
`ProducerFencedError` and `TransactionAbortedError`: nothing of it is committed, nor will be. `CommitUnknownError`: the
broker did not come back in time, or somebody took the id after an answer was lost; only the data can tell.

A process that dies leaves its transaction open: the timeout ends it, or the next that takes the id.

It does not write records (`producer`, `arrow.writer` do), and belongs to one thread, as its cluster does.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import NamedTuple, Self, cast

from penstock import __version__
from penstock.client.cluster import Cluster
from penstock.client.coordinator import GROUP, TRANSACTION, find_coordinator
from penstock.client.metadata import error_code
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.api import (
    Api,
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    end_txn,
    init_producer_id,
    produce,
    txn_offset_commit,
)
from penstock.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from penstock.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from penstock.wire.schema import Struct

DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000
"""After this time the coordinator aborts what is open; Kafka's clients have the same default."""

FEATURE = "transaction.version"
EPOCH_PER_TRANSACTION = 2
"""The level of the feature from which on KIP-890 holds."""

FENCED = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING))
"""How brokers say, in answers to any request, that the producer is not the one that has the id now."""


class ProducerFencedError(KafkaError):
    """Another producer has the id now, or the coordinator gave up on this one."""

    def __init__(self, transactional_id: str, code: ErrorCode = ErrorCode.PRODUCER_FENCED) -> None:
        words = (
            f"The transaction of {transactional_id!r} is over: another producer has taken its transactional id, or its "
            "timeout has passed. Nothing of it is committed."
        )
        super().__init__(code, words)


class TransactionAbortedError(KafkaError):
    """The transaction cannot be committed any more."""

    def __init__(self, transactional_id: str, code: ErrorCode) -> None:
        words = f"The transaction of {transactional_id!r} was aborted, by its timeout or by an error: {code.message}"
        super().__init__(code, words)


class CommitUnknownError(KafkaError):
    """The transaction is committed or aborted, and it is not known which."""

    def __init__(self, transactional_id: str, error: KafkaError) -> None:
        words = f"It is not known whether the transaction of {transactional_id!r} was committed. {error.message}"
        super().__init__(error.code, words)


class ProducerIdentity(NamedTuple):
    """What a batch names as its producer."""

    producer_id: int
    epoch: int


class TransactionalSession:
    """A transactional id, and the transactions that are done with it, one after the other."""

    def __init__(
        self, cluster: Cluster, transactional_id: str, timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS
    ) -> None:
        self.cluster = cluster
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.is_version_2 = False
        """Whether the cluster runs transactions as KIP-890 has them; known when the id is taken."""
        self._next: ProducerIdentity | None = None
        """For the next transaction; None: the id is to be taken first."""
        self._coordinator: int | None = None
        self._open: Transaction | None = None

    def begin(self) -> Transaction:
        """The next transaction; nothing is open at the broker before its first batch or offset."""
        assert self._open is None, "a session has one transaction at a time"
        if self._next is None:
            self.take_id()
        assert self._next is not None
        self._open = Transaction(self, self._next)
        return self._open

    def take_id(self) -> None:
        """Fence whoever has the id; on return what that one left open is aborted, or committed if it had begun to."""
        assert self._open is None, "the id is taken between transactions"
        self._next = self.cluster.retry(self._take_id)

    def _take_id(self, deadline: float) -> ProducerIdentity:
        self.is_version_2 = self._asks_version_2(deadline)
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        given = cast("InitProducerIdResponse", self.ask(init_producer_id.API, request, deadline))
        self.check(given.error_code, f"The transactional id {self.transactional_id!r} was not given")
        return ProducerIdentity(given.producer_id, given.producer_epoch)

    def _asks_version_2(self, deadline: float) -> bool:
        """The level is the cluster's, and may be raised while it runs: it is asked for with each taking of the id."""
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version=__version__)
        answer = cast("ApiVersionsResponse", self.ask(api_versions.API, request, deadline))
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        return levels.get(FEATURE, 0) >= EPOCH_PER_TRANSACTION

    def on_ended(self, next_identity: ProducerIdentity | None) -> None:
        """The open transaction has ended; what the next one is to have, if that is known."""
        self._open = None
        self._next = next_identity

    def ask(self, api: Api, request: Struct, deadline: float) -> Struct:
        """A request to the coordinator of the id; after any failure it is looked for anew."""
        if self._coordinator is None:
            self._coordinator = find_coordinator(self.cluster, TRANSACTION, self.transactional_id, deadline)
        try:
            return self.cluster.request(api, request, node_id=self._coordinator, deadline=deadline)
        except KafkaError:
            self._coordinator = None
            raise

    def check(self, code: int, doing: str) -> None:
        """Raise what the code means to a transactional producer."""
        error = error_code(code)
        if error is ErrorCode.NONE:
            return
        self._coordinator = None
        if error in FENCED:
            raise ProducerFencedError(self.transactional_id, error)
        if error is ErrorCode.TRANSACTION_ABORTABLE:
            raise TransactionAbortedError(self.transactional_id, error)
        raise KafkaError(error, f"{doing}: {error.message}")


class _State(enum.Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    FAILED = "not committed, or it is not known whether"


class Transaction:
    """One transaction. As a context manager it commits when the block ends well, and aborts when it does not."""

    def __init__(self, session: TransactionalSession, identity: ProducerIdentity) -> None:
        self.identity = identity
        self.transactional_id = session.transactional_id
        self._session = session
        self._state = _State.OPEN
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._state is not _State.OPEN:
            return
        if error is None:
            self.commit()
            return
        try:
            self.abort()
        except KafkaError as failure:  # the caller's error matters more; the timeout aborts what is open
            error.add_note(f"The transaction could not be aborted either: {failure}")

    @property
    def produce_api(self) -> Api:
        """What to send its Produce requests with: in later versions they mean that partitions are added by them."""
        return produce.API if self._session.is_version_2 else produce.API.up_to(11)

    @property
    def is_empty(self) -> bool:
        """Whether the broker knows nothing of it."""
        return not self._partitions and not self._groups

    # What is in it

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Before the first batch for each of them. With version 2 nothing is sent: the batch itself does it."""
        self._check_open()
        new = set(partitions) - self._partitions
        # Noted before it is done: after a failure it may be done all the same, and then an abort has to be sent.
        self._partitions |= new
        if new and not self._session.is_version_2:
            self._session.cluster.retry(lambda deadline: self._add_partitions(new, deadline))

    def _add_partitions(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in sorted(partitions):
            by_topic[topic].append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(*each) for each in by_topic.items()],
        )
        answer = self._session.ask(add_partitions_to_txn.API.up_to(3), request, deadline)
        for topic_result in cast("AddPartitionsToTxnResponse", answer).results_by_topic_v3_and_below:
            for each in topic_result.results_by_partition:
                where = TopicPartition(topic_result.name, each.partition_index)
                self._session.check(each.partition_error_code, f"{where} was not added to the transaction")

    def send_offsets(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Offsets of a group, which count when and if the transaction is committed. No membership is claimed."""
        self._check_open()
        if not self._session.is_version_2 and group not in self._groups:
            self._session.cluster.retry(lambda deadline: self._add_group(group, deadline))
        self._groups.add(group)
        self._session.cluster.retry(lambda deadline: self._send_offsets(group, offsets, metadata, deadline))

    def _add_group(self, group: str, deadline: float) -> None:
        self._groups.add(group)
        request = AddOffsetsToTxnRequest(self.transactional_id, *self.identity, group_id=group)
        answer = cast("AddOffsetsToTxnResponse", self._session.ask(add_offsets_to_txn.API, request, deadline))
        self._session.check(answer.error_code, f"Group {group!r} was not added to the transaction")

    def _send_offsets(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str, deadline: float) -> None:
        cluster = self._session.cluster
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for where, offset in offsets.items():
            cluster.partition(where, deadline=deadline)  # one that does not exist is an error at once
            topic = topics.setdefault(where.topic, TxnOffsetCommitRequestTopic(name=where.topic))
            topic.partitions.append(
                TxnOffsetCommitRequestPartition(where.partition, offset, committed_metadata=metadata)
            )
        request = TxnOffsetCommitRequest(self.transactional_id, group, *self.identity, topics=list(topics.values()))
        api = txn_offset_commit.API if self._session.is_version_2 else txn_offset_commit.API.up_to(4)
        node_id = find_coordinator(cluster, GROUP, group, deadline)
        answer = cluster.request(api, request, node_id=node_id, deadline=deadline)
        for topic_result in cast("TxnOffsetCommitResponse", answer).topics:
            for each in topic_result.partitions:
                self._session.check(each.error_code, f"The offsets of group {group!r} are not in the transaction")

    # Its end

    def commit(self) -> None:
        """All of it counts, for good. CommitUnknownError when no broker says so; other errors: none of it does."""
        self._check_open()
        if self.is_empty:
            self._ended(_State.COMMITTED, self.identity)
            return
        attempts = 0

        def attempt(deadline: float) -> ProducerIdentity | None:
            nonlocal attempts
            attempts += 1
            return self._end(True, deadline)

        try:
            self._ended(_State.COMMITTED, self._session.cluster.retry(attempt))
        except KafkaError as error:
            self._ended(_State.FAILED, None)
            if error.code is ErrorCode.INVALID_TXN_STATE:
                raise TransactionAbortedError(self.transactional_id, error.code) from error
            # After a failed attempt whoever has the id now may have found the transaction committed.
            if error.retriable or (attempts > 1 and error.code in FENCED):
                raise CommitUnknownError(self.transactional_id, error) from error
            raise

    def abort(self) -> None:
        """None of it counts. Also when it was aborted already, or somebody else has the id."""
        self._check_open()
        if self.is_empty:
            self._ended(_State.ABORTED, self.identity)
            return
        next_identity = None
        try:
            next_identity = self._session.cluster.retry(lambda deadline: self._end(False, deadline))
        except KafkaError as error:
            # Not begun at the broker, or ended by it: what is left is swept away when the id is taken again.
            if error.code not in (*FENCED, ErrorCode.INVALID_TXN_STATE):
                raise
        finally:
            self._ended(_State.ABORTED, next_identity)

    def _end(self, is_commit: bool, deadline: float) -> ProducerIdentity | None:
        """EndTxn; what the next transaction has, where the answer tells it."""
        session = self._session
        api = end_txn.API if session.is_version_2 else end_txn.API.up_to(4)
        request = EndTxnRequest(self.transactional_id, *self.identity, committed=is_commit)
        answer = cast("EndTxnResponse", session.ask(api, request, deadline))
        doing = "committed" if is_commit else "aborted"
        session.check(answer.error_code, f"The transaction of {self.transactional_id!r} was not {doing}")
        return ProducerIdentity(answer.producer_id, answer.producer_epoch) if session.is_version_2 else None

    def _ended(self, state: _State, next_identity: ProducerIdentity | None) -> None:
        self._state = state
        self._session.on_ended(next_identity)

    def _check_open(self) -> None:
        if self._state is not _State.OPEN:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"The transaction of {self.transactional_id!r} is {self._state.value}; begin another.",
            )
