"""A produce request with a transactional id: first it is made sure that each partition is in the transaction.

A partition whose log has the transaction open needs nothing more. For the others the coordinator is asked (up to
version 11 of Produce) or told (from 12 on) before anything is appended; `broker/transactions/verification` says why.
What it refuses is refused here too, in codes that producers of the request's version can handle: one that will pass
becomes NOT_ENOUGH_REPLICAS, which every producer tries again. While the previous transaction of the id is still being
ended, version 12 waits a little itself, as Kafka does.

Kafka takes no other request from a connection meanwhile. Here the transactional requests of a connection stand in a
line, each begun when the one before is appended, so that batches cannot overtake each other. All batches of a request
must be of one producer.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.broker.context import Call, Context, Later
from penstock.broker.memory import memory_of
from penstock.broker.replicas.partition import Partition
from penstock.errors import ErrorCode, KafkaError
from penstock.log.verification import ONGOING, VerificationGuard
from penstock.net.server_connection import CloseConnection
from penstock.types import TopicPartition
from penstock.wire.api.produce import ProduceRequest, ProduceResponse
from penstock.wire.records import ATTRIBUTES_AT, HEADER_SIZE, TRANSACTIONAL_BIT

logger = logging.getLogger(__name__)

TOPIC_IDS_SINCE = 13
ADDS_SINCE = 12
"""A produce request puts its partitions into the transaction; each transaction has a producer epoch of its own."""

ABORTABLE_SINCE = 11
MAX_WAITING = 64
"""Requests in a connection's line. Answers that are pending stop its reading long before; those with acks 0 do not."""

VERIFICATION_SETTING = "transaction.partition.verification.enable"
BACKOFF_SETTING = "add.partitions.to.txn.retry.backoff.ms"
PATIENCE_SETTING = "add.partitions.to.txn.retry.backoff.max.ms"

_WILL_PASS = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    )
)

_PRODUCER = struct.Struct(">h20xqhi")
"""Of a batch, from its attributes on: those, the producer's id and epoch, the first sequence."""


Verdicts = Mapping[Partition, VerificationGuard | KafkaError]
"""For each partition with a transactional batch, what to append it with, or why not to."""

Result = ProduceResponse | Later | None
Append = Callable[[Verdicts], Result]


class _Batch(NamedTuple):
    """Who wrote a batch."""

    producer_id: int
    producer_epoch: int
    sequence: int


def verify_then(context: Context, call: Call, request: ProduceRequest, append: Append) -> Result:
    """The result of `append`, once it is known what belongs to the transaction: now, or when its turn has come."""
    line = memory_of(call.connection).produced.waiting
    produce = _Produce(context, call, request, append)
    if not line:
        produce.start()
        if produce.is_verified:
            return append(produce.verdicts)
    if len(line) >= MAX_WAITING:
        raise CloseConnection("too many transactional produce requests wait")
    line.append(produce)
    return produce.wait()


class _Produce:
    """One request while it is being verified."""

    __slots__ = (
        "_append",
        "_asked_at",
        "_batches",
        "_call",
        "_context",
        "_later",
        "_request",
        "_unverified",
        "is_verified",
        "verdicts",
    )

    def __init__(self, context: Context, call: Call, request: ProduceRequest, append: Append) -> None:
        self._context = context
        self._call = call
        self._request = request
        self._append = append
        self._later: Later | None = None
        self._batches = self._find_batches()
        self._unverified: dict[TopicPartition, Partition] = {}
        self._asked_at = 0.0
        self.verdicts: dict[Partition, VerificationGuard | KafkaError] = {}
        self.is_verified = False

    def _find_batches(self) -> dict[Partition, _Batch]:
        """The transactional batches, by the partitions that are here."""
        replicas = self._context.replicas
        batches = {}
        for topic in self._request.topic_data:
            by_id = self._call.version >= TOPIC_IDS_SINCE
            partitions = replicas.by_id.get(topic.topic_id) if by_id else replicas.by_name.get(topic.name)
            for data in topic.partition_data:
                partition = partitions.get(data.index) if partitions is not None else None
                if partition is not None and data.records is not None and len(data.records) >= HEADER_SIZE:
                    attributes, *producer = _PRODUCER.unpack_from(data.records, ATTRIBUTES_AT)
                    if attributes & TRANSACTIONAL_BIT and producer[0] >= 0:
                        batches[partition] = _Batch(*producer)
        return batches

    def start(self) -> None:
        """Find out what has to be asked, and ask."""
        if len({(batch.producer_id, batch.producer_epoch) for batch in self._batches.values()}) > 1:
            error = KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "The batches are of more than one producer.")
            self.verdicts = dict.fromkeys(self._batches, error)
            self._batches = {}
        adds = self._call.version >= ADDS_SINCE
        for partition, batch in self._batches.items():
            try:
                guard = partition.start_verification(*batch, adds)
            except KafkaError as error:
                self.verdicts[partition] = error
                continue
            self.verdicts[partition] = guard
            if guard is not ONGOING and (adds or self._context.config.get_bool(VERIFICATION_SETTING)):
                self._unverified[partition.log.topic_partition] = partition
        if not self._unverified:
            self.is_verified = True
            return
        self._asked_at = self._context.loop.time()
        self._ask()

    def _ask(self) -> None:
        batch = self._batches[next(iter(self._unverified.values()))]
        transactions = self._context.transactions
        ask = transactions.add if self._call.version >= ADDS_SINCE else transactions.verify
        assert self._request.transactional_id is not None
        ask(
            self._request.transactional_id,
            batch.producer_id,
            batch.producer_epoch,
            tuple(self._unverified),
            self._on_verified,
        )

    def _on_verified(self, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        if ErrorCode.CONCURRENT_TRANSACTIONS in codes.values() and self._maybe_ask_again():
            return
        for where, code in codes.items():
            if code is not ErrorCode.NONE:
                self.verdicts[self._unverified[where]] = _error(code, self._call.version)
        self.is_verified = True
        if self._later is not None:
            self._finish()

    def _maybe_ask_again(self) -> bool:
        """The previous transaction ends in a moment: its producer need not hear of it."""
        config, loop = self._context.config, self._context.loop
        waited_ms = (loop.time() - self._asked_at) * 1000
        if self._call.version < ADDS_SINCE or waited_ms >= config.get_int(PATIENCE_SETTING):
            return False
        loop.call_later(config.get_int(BACKOFF_SETTING) / 1000, self._ask)
        return True

    def wait(self) -> Later | None:
        """Keep the batches, whose buffer will be used again, and answer later."""
        for topic in self._request.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = memoryview(bytearray(data.records))
        self._later = Later()
        return None if self._request.acks == 0 else self._later

    def _finish(self) -> None:
        """Append, answer, and begin the next in line."""
        connection, later = self._call.connection, self._later
        assert later is not None
        line = memory_of(connection).produced.waiting
        assert line[0] is self
        try:
            result = self._append(self.verdicts)
        except CloseConnection as error:
            connection.close(str(error))
        except Exception:  # we are wrong: the coordinator, who called, and the next in line must not suffer for it
            logger.exception("a transactional produce request failed; this is a bug in Penstock")
            connection.close("it met a bug")
        else:
            _pass_on(result, later)
        line.popleft()
        if line:
            line[0].start_in_line()

    def start_in_line(self) -> None:
        """The one before is done."""
        self.start()
        if self.is_verified and self._later is not None:
            self._finish()


def _pass_on(result: Result, later: Later) -> None:
    if isinstance(result, Later):
        result.attach(later.finish)
    elif result is not None:
        later.finish(lambda: result)


def _error(code: ErrorCode, version: int) -> KafkaError:
    """What the coordinator said, in words that producers of the version know. The table is Kafka's."""
    if code in _WILL_PASS or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE):
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"The transaction could not be verified: {code.message}")
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "The partition is not part of the transaction.")
    return KafkaError(code)
