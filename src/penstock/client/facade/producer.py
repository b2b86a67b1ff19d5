"""A producer for programs: three ways to send, over librdkafka.

    with Producer("127.0.0.1:9092") as producer:
        producer.send("orders", "text or bytes", key="42", forget=True)         # forget
        delivery = producer.send("orders", b"...", key="42").result(10)         # wait: topic, partition, offset
        producer.send("orders", b"...", on_delivery=told)                       # told(delivery, error) later

The partition: by number (`partition=3`), by the key's hash (as Java's clients do, murmur2), balanced where there is no
key, or by a function of yours: `Producer(partitioner=lambda key, partitions: ...)`.

Rules:
- idempotent unless `acks` says otherwise: retries neither double nor reorder messages;
- what can be refused at once is raised by `send`; what fails later is in the future or goes to the callback. A
  forgotten message that fails is logged, or goes to `on_error`;
- `send` waits while the buffer is full, at most MAX_BLOCK_SECONDS;
- safe from many threads. A thread of ours tells deliveries, so callbacks run there; one that raises is logged;
- `close` and the end of `with` wait for what is under way; so does the end of the program where nobody closed it.

With a `transactional_id` everything is sent in transactions: `with producer.transaction(): ...` (transaction.py).
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypedDict, Unpack, overload

from penstock.client.facade.client_error import ClientError, error_of
from penstock.client.facade.consumer import Consumer
from penstock.client.facade.librdkafka import (
    DEFAULT_BOOTSTRAP,
    ErrorCallback,
    confluent_kafka,
    joined_options,
    milliseconds,
)
from penstock.client.facade.message import Delivery
from penstock.client.facade.outage import Outage
from penstock.client.facade.transaction import Transaction, Transactions
from penstock.client.partitioner import Partitioner
from penstock.errors import ErrorCode, KafkaError

log = logging.getLogger("penstock.client")

Headers = Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]
Serializer = Callable[[Any], bytes | str | None]
OnDelivery = Callable[[Delivery | None, KafkaError | None], None]
"""Called with where the message is, or with why it is not there."""

Report = Callable[[Any, Any], None]
"""librdkafka's delivery callback: (error or None, message)."""

MAX_BLOCK_SECONDS = 60.0
ROOM_CHECK_SECONDS = 0.01
CLOSE_TIMEOUT_SECONDS = 30.0
METADATA_TIMEOUT_SECONDS = 10.0
PARTITIONS_KNOWN_SECONDS = 60.0
"""How long a topic's number of partitions is taken as known, for the caller's own partitioner."""

CHOSEN_BY_LIBRDKAFKA = -1
NOW = 0


class ProducerSettings(TypedDict, total=False):
    """What a producer can be told beside its address."""

    partitioner: str | Partitioner
    """A name that librdkafka knows ("murmur2_random" unless given, as Java), or a function (key, partitions) -> number;
    None from the function leaves the choice to librdkafka."""
    key_serializer: Serializer
    value_serializer: Serializer
    """What makes bytes or text of a key or value, such as `json.dumps`; without one they must be bytes or text."""
    transactional_id: str
    """The name under which this program's transactions are known, the same each time it runs, and of no other."""
    on_error: ErrorCallback
    """Hears of trouble that no call failed for; logged when there is none."""
    options: Mapping[str, Any]
    """librdkafka's own, by name: {"linger.ms": 20, "compression.type": "zstd"}."""


class Outgoing(NamedTuple):
    """A message as librdkafka takes it."""

    topic: str
    value: bytes | str | None
    key: bytes | str | None
    partition: int
    timestamp: int
    headers: list[tuple[str, bytes | str | None]] | None


class Producer:
    """Sends messages; `raw` is librdkafka's producer."""

    def __init__(self, bootstrap: str = DEFAULT_BOOTSTRAP, **settings: Unpack[ProducerSettings]) -> None:
        _check_names(settings)
        self._partitioner = settings.get("partitioner", "murmur2_random")
        self._key_serializer = settings.get("key_serializer")
        self._value_serializer = settings.get("value_serializer")
        self._on_error = settings.get("on_error")
        self._partition_counts: dict[str, tuple[int, float]] = {}
        given = dict(settings.get("options") or {})
        if "transactional_id" in settings:
            given["transactional.id"] = _checked_id(settings["transactional_id"])
        self.transactional_id: str | None = given.get("transactional.id")
        self._outage = Outage(bootstrap, self._on_error)
        try:
            self.raw = confluent_kafka.Producer(joined_options(bootstrap, self._ours(given), given, self._outage))
        except confluent_kafka.KafkaException as failure:
            raise error_of(failure, "The producer was not made") from None
        self._poller = _Poller(self.raw)
        self._transactions = Transactions(self.raw)
        if self.transactional_id is not None:
            self._transactions.take_id()
        self._close_at_exit = weakref.finalize(self, _close, self.raw, self._poller, CLOSE_TIMEOUT_SECONDS)

    @overload
    def send(
        self, topic: str, value: Any = None, key: Any = None, headers: Headers | None = None,
        partition: int | None = None, timestamp: datetime | int | None = None,
    ) -> Future[Delivery]: ...  # fmt: skip

    @overload
    def send(
        self, topic: str, value: Any = None, key: Any = None, headers: Headers | None = None,
        partition: int | None = None, timestamp: datetime | int | None = None, *, on_delivery: OnDelivery,
    ) -> None: ...  # fmt: skip

    @overload
    def send(
        self, topic: str, value: Any = None, key: Any = None, headers: Headers | None = None,
        partition: int | None = None, timestamp: datetime | int | None = None, *, forget: Literal[True],
    ) -> None: ...  # fmt: skip

    def send(
        self, topic: str, value: Any = None, key: Any = None, headers: Headers | None = None,
        partition: int | None = None, timestamp: datetime | int | None = None,
        *, on_delivery: OnDelivery | None = None, forget: bool = False,
    ) -> Future[Delivery] | None:  # fmt: skip
        """Send one message. Gives a future, unless it is told to call back or to forget."""
        message = self.outgoing(topic, value, key, headers, partition, timestamp)
        if forget:
            self._send_when_room(message, self._report_forgotten)
            return None
        if on_delivery is not None:
            self._send_when_room(message, partial(_report_to, on_delivery))
            return None
        future: Future[Delivery] = Future()
        self._send_when_room(message, partial(_report_in, future))
        return future

    def transaction(self, consumer: Consumer | None = None) -> Transaction:
        """Everything sent in the `with` becomes visible at once at its end, or never when it ends with an exception.

        With a consumer (`delivery="exactly_once"`) its position moves in the same moment.
        """
        if self.transactional_id is None:
            raise ValueError("The producer has no transactional_id, such as Producer(transactional_id='billing-1').")
        if consumer is not None and not isinstance(consumer, Consumer):
            raise TypeError(f"A transaction takes a Consumer, not {type(consumer).__name__}.")
        if consumer is not None and not consumer.is_exactly_once:
            raise ValueError("The consumer commits its position by itself. Give it delivery='exactly_once'.")
        return Transaction(self._transactions, consumer)

    def flush(self, timeout: float = CLOSE_TIMEOUT_SECONDS) -> None:
        """Wait until everything sent so far is delivered or has failed; KafkaError when the time is over before."""
        try:
            left = self.raw.flush(timeout)
        except confluent_kafka.KafkaException as failure:
            raise error_of(failure, "The producer cannot go on") from None
        if left:
            words = f"{left} messages were not delivered within {timeout:g} s; they are still being tried."
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, words)

    def close(self, timeout: float = CLOSE_TIMEOUT_SECONDS) -> None:
        """Flush and end; nothing happens the second time. KafkaError when messages had to be given up."""
        if self._close_at_exit.detach() is None:
            return
        self._transactions.close()
        left = _close(self.raw, self._poller, timeout)
        if left:
            words = f"{left} messages were not delivered within {timeout:g} s and are given up."
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, words)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except KafkaError as lost:
            if error is None:
                raise
            log.warning("%s", lost)  # what ended the block is the better story

    # For the async twin.

    def outgoing(
        self, topic: str, value: Any, key: Any, headers: Headers | None,
        partition: int | None, timestamp: datetime | int | None,
    ) -> Outgoing:  # fmt: skip
        """The message with everything decided that is ours to decide."""
        data_key = _data("key", key, self._key_serializer)
        data_value = _data("value", value, self._value_serializer)
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers) if headers else None
        if partition is None:
            partition = self._choose_partition(topic, data_key)
        when = NOW if timestamp is None else milliseconds(timestamp)
        return Outgoing(topic, data_value, data_key, partition, when, pairs)

    def offer(self, message: Outgoing, report: Report) -> bool:
        """Give it to librdkafka; False when its buffer is full."""
        topic, value, key, partition, timestamp, headers = message
        if self._outage.is_on:
            report = partial(_report_after_outage, self._outage, report)
        if self.transactional_id is not None:
            report = partial(_report_in_transaction, self._transactions, report)
        try:
            self.raw.produce(
                topic, value, key, partition, on_delivery=report, timestamp=timestamp, headers=headers
            )  # fmt: skip
        except BufferError:
            return False
        except confluent_kafka.KafkaException as failure:
            error = error_of(failure, f"The message for {topic!r} was refused")
            if error.name == "_STATE" and self.transactional_id is not None:
                raise self._transactions.refusal(error) from None
            raise error from None
        self._poller.wake()
        return True

    def must_ask_partitions(self, topic: str) -> bool:
        """The next send to this topic has to ask the broker for its partitions first."""
        return callable(self._partitioner) and time.monotonic() > self._partition_counts.get(topic, (0, 0.0))[1]

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; asks the broker now and then."""
        count, known_until = self._partition_counts.get(topic, (0, 0.0))
        if time.monotonic() > known_until:
            count = self._ask_partition_count(topic)
            self._partition_counts[topic] = count, time.monotonic() + PARTITIONS_KNOWN_SECONDS
        return count

    def _send_when_room(self, message: Outgoing, report: Report) -> None:
        if self.offer(message, report):
            return
        deadline = time.monotonic() + MAX_BLOCK_SECONDS
        while not self.offer(message, report):
            if time.monotonic() > deadline:
                raise buffer_full(message.topic)
            time.sleep(ROOM_CHECK_SECONDS)

    def _choose_partition(self, topic: str, key: bytes | str | None) -> int:
        if not callable(self._partitioner):
            return CHOSEN_BY_LIBRDKAFKA
        chosen = self._partitioner(key.encode() if isinstance(key, str) else key, self.partition_count(topic))
        return CHOSEN_BY_LIBRDKAFKA if chosen is None else chosen

    def _ask_partition_count(self, topic: str) -> int:
        """A topic that is made by its first use takes a moment until it has partitions."""
        deadline = time.monotonic() + METADATA_TIMEOUT_SECONDS
        while True:
            try:
                found = self.raw.list_topics(topic, timeout=METADATA_TIMEOUT_SECONDS).topics[topic]
            except confluent_kafka.KafkaException as failure:
                raise error_of(failure, f"The partitions of {topic!r} are not known") from None
            if found.partitions:
                return len(found.partitions)
            if time.monotonic() > deadline:
                raise ClientError(found.error, f"The partitions of {topic!r} are not known")
            time.sleep(0.05)

    def _report_forgotten(self, error: Any, raw: Any) -> None:
        if error is not None:
            self.on_forgotten(_not_delivered(error, raw))

    def on_forgotten(self, failure: ClientError) -> None:
        """A message that nobody waits for was not delivered; in an aborted transaction that is no news."""
        if failure.name.startswith("_PURGE") and self.transactional_id is not None:
            return
        if self._on_error is not None:
            self._on_error(failure)
        else:
            log.warning("%s", failure)

    def _ours(self, given: Mapping[str, Any]) -> dict[str, Any]:
        ours: dict[str, Any] = {} if callable(self._partitioner) else {"partitioner": self._partitioner}
        acks = given.get("acks", given.get("request.required.acks", "all"))
        if str(acks) in ("all", "-1"):
            ours["enable.idempotence"] = True
        if "transactional.id" in given:
            # librdkafka forgets all brokers when the last one is gone, and with them the coordinator for whose answer a
            # transaction then waits for ever (its issue 5511); without that it connects again.
            ours["metadata.recovery.strategy"] = "none"
        return ours


class _Poller:
    """The thread that tells deliveries; it sleeps while nothing is under way."""

    def __init__(self, raw: confluent_kafka.Producer) -> None:
        self._raw = raw
        self._work = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="penstock-producer", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        if not self._work.is_set():
            self._work.set()

    def stop(self) -> None:
        self._is_stopping = True
        self._work.set()
        self._thread.join()

    def _run(self) -> None:
        raw = self._raw
        while not self._is_stopping:
            if not len(raw):
                self._work.clear()
                if not len(raw):  # `send` sets the event after it produced: one of the two is seen
                    self._work.wait(1.0)
            try:
                raw.poll(0.05 if len(raw) else 0)
            except confluent_kafka.KafkaException as failure:
                log.debug("the producer cannot go on: %s", failure)  # the call that finds out raises it
            except Exception:
                log.exception("a callback of the producer failed")


def buffer_full(topic: str) -> KafkaError:
    words = f"The message for {topic!r} was not sent: the buffer was full for {MAX_BLOCK_SECONDS:.0f} s."
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{words} Is the broker reachable?")


def _not_delivered(error: confluent_kafka.KafkaError, raw: confluent_kafka.Message) -> ClientError:
    return ClientError(error, f"The message for {raw.topic()!r} was not delivered")


def _report_after_outage(outage: Outage, report: Report, error: Any, raw: Any) -> None:
    if error is None and outage.is_on:
        outage.on_message()
    report(error, raw)


def _report_in_transaction(transactions: Transactions, report: Report, error: Any, raw: Any) -> None:
    if error is not None:
        transactions.on_undelivered(error, raw.topic())
    report(error, raw)


def _report_to(on_delivery: OnDelivery, error: Any, raw: Any) -> None:
    if error is not None:
        on_delivery(None, _not_delivered(error, raw))
    else:
        on_delivery(Delivery.of(raw), None)


def _report_in(future: Future[Delivery], error: Any, raw: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if error is not None:
        future.set_exception(_not_delivered(error, raw))
    else:
        future.set_result(Delivery.of(raw))


def _data(part: str, given: Any, serializer: Serializer | None) -> bytes | str | None:
    data = serializer(given) if serializer is not None and given is not None else given
    if data is None or isinstance(data, (bytes, str)):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    kind = type(data).__name__
    raise TypeError(f"The {part} is {kind}, not bytes or text. Give the producer a {part}_serializer, like json.dumps.")


def _close(raw: confluent_kafka.Producer, poller: _Poller, timeout: float) -> int:
    """How many messages were given up."""
    left = _flush(raw, timeout)
    if left:
        raw.purge()
        _flush(raw, 1.0)  # tells the futures and callbacks of what was purged
    poller.stop()
    return left


def _flush(raw: confluent_kafka.Producer, timeout: float) -> int:
    """How many messages are left; a producer that cannot go on has told so, and delivers nothing more."""
    try:
        return raw.flush(timeout)
    except confluent_kafka.KafkaException:
        return len(raw)


def _checked_id(transactional_id: Any) -> str:
    if not isinstance(transactional_id, str):
        raise TypeError(f"The transactional_id is {type(transactional_id).__name__}, not text such as 'billing-1'.")
    if not transactional_id:
        raise ValueError("The transactional_id is empty. Leave it away, or give a name such as 'billing-1'.")
    return transactional_id


def _check_names(settings: Mapping[str, Any]) -> None:
    for name in settings.keys() - ProducerSettings.__annotations__.keys():
        raise TypeError(f"A producer has no {name!r}. Options of librdkafka go in options={{...}} by their own names.")
