"""A transaction of a producer: everything that is sent in it becomes visible at once, or never.

    with producer.transaction():
        producer.send("orders", b"...")
        producer.send("stock", b"...")

    with producer.transaction(consumer):            # and the consumer's position moves with it
        for message in consumer.poll_ready(500):
            producer.send("invoices", invoice(message.value))

The end of the block commits; an exception in it aborts, and goes on to the caller. With a consumer, which has
`delivery="exactly_once"`, a transaction that is not committed takes the consumer back to where it began.

Rules:
- one transaction at a time in a producer. A new producer takes its `transactional_id` at once, in the background: an
  older one with that id is out (fenced), and what it left open is aborted. To wait for the first message would be too
  late: nobody gets a message whose position is in a transaction that was left open;
- what passes (the broker is away, an election) is tried again for TIMEOUT_SECONDS;
- `TransactionAborted`: it could not be committed and is aborted. Nothing of it is visible; do its work again;
- a message that no broker will ever take (too large, a bad topic name) aborts too, but its own error is raised: the
  same work would fail again;
- any other error at the commit: the producer cannot go on, and where the answer was lost nobody here knows the
  outcome. A new producer and a new consumer do: they begin after the last transaction that was committed.

After a crash the transaction is aborted when its producer starts again, or after `transaction.timeout.ms` (a minute);
readers of committed messages wait behind it until then. So give a program the same transactional id each time it runs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.client.facade.client_error import ClientError, TransactionAborted, error_of
from penstock.client.facade.librdkafka import confluent_kafka
from penstock.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.client.facade.consumer import Consumer

log = logging.getLogger("penstock.client")

TIMEOUT_SECONDS = 60.0
STEP_SECONDS = 10.0
"""One call to librdkafka; between two of them Ctrl-C is heard."""

RETRY_SECONDS = 0.05

_PERMANENT = frozenset({
    "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "TOPIC_EXCEPTION", "INVALID_RECORD", "INVALID_TIMESTAMP",
    "TOPIC_AUTHORIZATION_FAILED", "POLICY_VIOLATION", "UNSUPPORTED_COMPRESSION_TYPE", "_UNKNOWN_PARTITION",
})  # fmt: skip
"""What librdkafka tells of a message that will fail again however often it is sent."""


class Transactions:
    """The transactions of one producer, one after the other."""

    def __init__(self, raw: confluent_kafka.Producer) -> None:
        self._raw = raw
        self._is_open = False
        self._turn = threading.Lock()
        self._taking: threading.Thread | None = None
        self._failure: ClientError | None = None
        self._is_closed = threading.Event()
        self._undeliverable: ClientError | None = None
        """The first message of the open transaction that no broker will ever take."""

    def take_id(self) -> None:
        """Begin to take the transactional id; the first transaction waits for it."""
        self._taking = threading.Thread(target=self._take_id, name="penstock-transactional-id", daemon=True)
        self._taking.start()

    def close(self) -> None:
        self._is_closed.set()

    def begin(self) -> None:
        with self._turn:
            if self._is_closed.is_set():
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, "The producer is closed; make a new one.")
            if self._is_open:
                raise KafkaError(ErrorCode.INVALID_TXN_STATE, "A transaction is open; a producer has one at a time.")
            self._wait_for_id()
            try:
                self._raw.begin_transaction()
            except confluent_kafka.KafkaException as failure:
                raise error_of(failure, "The transaction was not begun") from None
            self._undeliverable = None
            self._is_open = True

    def commit(self, consumer: Consumer | None) -> None:
        """Commit what was sent, with the consumer's position; TransactionAborted when it is aborted instead."""
        try:
            if consumer is not None:
                self._add_position(consumer)
            _try_again("The transaction was not committed", self._raw.commit_transaction)
        except KafkaError as error:
            if isinstance(error, ClientError) and not error.raw.txn_requires_abort():
                raise
            self.abort()  # which also tells the last deliveries
            if self._undeliverable is not None:
                raise self._undeliverable from error
            raise TransactionAborted(error) from None
        finally:
            self._is_open = False

    def abort(self) -> None:
        try:
            _try_again("The transaction was not aborted", self._raw.abort_transaction)
        finally:
            self._is_open = False

    def on_undelivered(self, raw: confluent_kafka.KafkaError, topic: str) -> None:
        """A message of the transaction failed, which fails the transaction; in the producer's thread."""
        if raw.name() in _PERMANENT and self._undeliverable is None:
            words = f"The transaction was aborted, since the message for {topic!r} was not delivered"
            self._undeliverable = ClientError(raw, words)

    @property
    def undeliverable(self) -> ClientError | None:
        return self._undeliverable

    def _take_id(self) -> None:
        try:
            _try_again("The transactional id was not taken", self._raw.init_transactions, self._is_closed)
            self._failure = None
        except ClientError as error:
            self._failure = error

    def _wait_for_id(self) -> None:
        if self._failure is not None:
            self.take_id()
        if self._taking is not None:
            self._taking.join()
            self._taking = None
        if self._failure is not None:
            raise self._failure

    def refusal(self, error: ClientError) -> KafkaError:
        """Why a message was refused for the state of things: outside of a transaction, or in one that has failed."""
        if self._is_open:
            return TransactionAborted(error)
        words = "Nothing was sent: no transaction is open. Send inside `with producer.transaction():`."
        return KafkaError(ErrorCode.INVALID_TXN_STATE, words)

    def _add_position(self, consumer: Consumer) -> None:
        positions, member = consumer.taken()
        if positions:
            offsets = [confluent_kafka.TopicPartition(*where, offset) for where, offset in positions.items()]
            _try_again(
                "The position was not added to the transaction",
                lambda timeout: self._raw.send_offsets_to_transaction(offsets, member, timeout),
            )


class Transaction:
    """One, from the beginning of the `with` to its end."""

    def __init__(self, transactions: Transactions, consumer: Consumer | None) -> None:
        self._transactions = transactions
        self._consumer = consumer

    def __enter__(self) -> Self:
        self._transactions.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._give_up(error)
            undeliverable = self._transactions.undeliverable
            if isinstance(error, TransactionAborted) and undeliverable is not None:
                raise undeliverable from error  # `send` only heard that the transaction had failed, not of what
            return
        try:
            self._transactions.commit(self._consumer)
        except BaseException:
            self._rewind()
            raise
        if self._consumer is not None:
            self._consumer.on_committed()

    def _give_up(self, error: BaseException) -> None:
        """The block failed, and that is the story: what fails now is only logged. The broker aborts in its time."""
        try:
            if not (isinstance(error, ClientError) and error.is_fatal):
                self._transactions.abort()
        except KafkaError as failure:
            log.warning("%s", failure)
        self._rewind()

    def _rewind(self) -> None:
        if self._consumer is None:
            return
        try:
            self._consumer.rewind()
        except KafkaError as failure:
            log.warning("%s", failure)


def _try_again(doing: str, call: Callable[[float], Any], is_closed: threading.Event | None = None) -> None:
    """Call until it works; what does not pass, or not in time, is raised."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            call(STEP_SECONDS)
            return
        except confluent_kafka.KafkaException as failure:
            error = error_of(failure, doing)
            passes = error.raw.retriable() and not error.is_fatal and not error.raw.txn_requires_abort()
            is_over = time.monotonic() > deadline or (is_closed is not None and is_closed.is_set())
            if not passes or is_over:
                raise error from None
        time.sleep(RETRY_SECONDS)
