"""Sends messages: gathered into one batch per partition, written by the leaders, each exactly once.

    with Producer(cluster, on_delivery=report) as producer:
        producer.send("orders", b"value", key=b"key")

`send` only gathers; when a batch is full, and at `flush`, everything gathered goes out, one request to each leader, and
`on_delivery` hears of every batch: where it is, or why it is not.

Rules:
- at most one batch of a partition is on its way, so messages of a partition keep their order, retries included;
- with acks=all the producer is idempotent: a batch has a sequence number, which is spent only when the broker confirms
  it, so a retry after a lost answer is recognized and not written twice;
- a batch that is too large for its topic is halved until it fits or is a single message;
- what cannot be delivered in time is reported as failed. Whether it was written is then unknown, so the producer takes
  a new id before it goes on.

It belongs to one thread. Time as a reason to send is the caller's: call `flush` when there is nothing more to gather.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from types import TracebackType
from typing import NamedTuple, Self, cast

from penstock.client.cluster import Cluster, network_error
from penstock.client.metadata import error_code
from penstock.client.partitioner import Partitioner, murmur2_random
from penstock.env.chance import system_chance
from penstock.env.clock import Clock, SystemClock
from penstock.errors import ErrorCode, KafkaError
from penstock.net.connection import BlockingConnection
from penstock.types import TopicPartition
from penstock.wire.api import init_producer_id, produce
from penstock.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.api.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.wire.batch_builder import build_batch
from penstock.wire.record import Headers, Record
from penstock.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Codec, increment_sequence

ACKS_ALL = -1
BATCH_BYTES = 900_000
"""Below Kafka's default for `max.message.bytes`, headers included."""

MAX_GATHERED_BYTES = 16 * 1024 * 1024
"""Of all partitions together, before everything goes out."""

MAX_REQUEST_BYTES = 8 * 1024 * 1024
"""One request; brokers accept 100 MB by default (`socket.request.max.bytes`)."""

RECORD_OVERHEAD = 24
"""More than a record's lengths and deltas usually take."""

DELIVERY_TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 30_000

_LOST_ID = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.PRODUCER_FENCED,
    }
)
"""Answers after which only a new producer id helps."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of neighbouring messages of one partition; the offset is -1 when the broker did not say."""

    where: TopicPartition
    count: int
    base_offset: int = -1
    error: KafkaError | None = None


@dataclass(slots=True)
class _Batch:
    where: TopicPartition
    records: list[Record] = field(default_factory=list)
    size_bytes: int = 0


class _ProducerId(NamedTuple):
    producer_id: int
    epoch: int


_NOT_IDEMPOTENT = _ProducerId(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

_Queues = dict[TopicPartition, deque[_Batch]]
"""What is still to be delivered, in order, for each partition."""


def ignore_delivery(delivery: Delivery) -> None:
    """Forget what became of it."""


class Producer:
    """Gathers messages, sends them, and tells what became of them."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        on_delivery: Callable[[Delivery], None] = ignore_delivery,
        acks: int = ACKS_ALL,
        codec: Codec = Codec.NONE,
        partitioner: Partitioner = murmur2_random,
        batch_bytes: int = BATCH_BYTES,
        delivery_timeout_ms: float = DELIVERY_TIMEOUT_MS,
        may_create_topics: bool = False,
        clock: Clock | None = None,
        chance: Random | None = None,
    ) -> None:
        self._cluster = cluster
        self._on_delivery = on_delivery
        self._acks = acks
        self._codec = codec
        self._partitioner = partitioner
        self._batch_bytes = batch_bytes
        self._delivery_timeout_ms = delivery_timeout_ms
        self._may_create_topics = may_create_topics
        self._clock = clock or SystemClock()
        self._chance = chance or system_chance()
        self._open: dict[TopicPartition, _Batch] = {}
        self._gathered_bytes = 0
        self._sticky: dict[str, int] = {}
        self._id: _ProducerId | None = None if acks == ACKS_ALL else _NOT_IDEMPOTENT
        self._sequences: dict[TopicPartition, int] = defaultdict(int)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.flush()

    # Gathering

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> TopicPartition:
        """Add a message to a batch; where it will go. KafkaError when the topic or the partition is not there."""
        where = TopicPartition(topic, self._choose(topic, key, partition))
        timestamp = self._clock.now_ms() if timestamp_ms is None else timestamp_ms
        size = _size_of(key, value, headers)
        batch = self._open.get(where)
        if batch is not None and batch.size_bytes + size > self._batch_bytes:
            self.flush()
            where, batch = TopicPartition(topic, self._choose(topic, key, partition)), None
        if batch is None:
            batch = self._open[where] = _Batch(where)
        batch.records.append(Record(len(batch.records), timestamp, key, value, headers))
        batch.size_bytes += size
        self._gathered_bytes += size
        if self._gathered_bytes > MAX_GATHERED_BYTES:
            self.flush()
        return where

    def _choose(self, topic: str, key: bytes | None, partition: int | None) -> int:
        count = len(self._topic_partitions(topic))
        if partition is None:
            partition = self._partitioner(key, count)
        if partition is None:
            partition = self._sticky.get(topic)
            if partition is None:
                partition = self._sticky[topic] = self._chance.randrange(count)
        if not 0 <= partition < count:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic {topic!r} has no partition {partition}: it has {count}, numbered from 0.",
            )
        return partition

    def _topic_partitions(self, topic: str) -> tuple[object, ...]:
        known = self._cluster.metadata.topics.get(topic)
        if known is None or known.error is not ErrorCode.NONE:
            known = self._cluster.retry(
                lambda deadline: self._cluster.topic(topic, deadline=deadline, may_create=self._may_create_topics)
            )
        return known.partitions

    # Delivering

    def flush(self) -> None:
        """Send everything that was gathered; on return all of it is delivered or reported as failed."""
        queues: _Queues = {where: deque([batch]) for where, batch in self._open.items()}
        self._open = {}
        self._gathered_bytes = 0
        self._sticky.clear()
        if not queues:
            return
        try:
            self._cluster.retry(lambda deadline: self._deliver(queues, deadline), self._delivery_timeout_ms)
        except KafkaError as error:
            self._forget_id()
            for batch in [batch for queue in queues.values() for batch in queue]:
                self._on_delivery(Delivery(batch.where, len(batch.records), error=error))

    def _deliver(self, queues: _Queues, deadline: float) -> None:
        """Send the first batch of each partition until none is left; raises when one is to be retried."""
        while queues:
            if self._id is None:
                self._take_id(deadline)
            delayed: list[KafkaError] = []
            asked: list[tuple[BlockingConnection, list[_Batch]]] = []
            for leader, batches in self._by_leader(queues, deadline, delayed).items():
                for part in _requests(batches):
                    connection = self._maybe_send(leader, part, deadline, delayed)
                    if connection is not None:
                        asked.append((connection, part))
            for connection, part in asked:
                self._receive(connection, part, queues, deadline, delayed)
            if delayed:
                raise delayed[0]

    def _by_leader(self, queues: _Queues, deadline: float, delayed: list[KafkaError]) -> dict[int, list[_Batch]]:
        by_leader: dict[int, list[_Batch]] = defaultdict(list)
        for where, queue in list(queues.items()):
            try:
                by_leader[self._cluster.leader(where, deadline=deadline)].append(queue[0])
            except KafkaError as error:
                if error.retriable:
                    delayed.append(error)
                else:  # the topic was deleted: nothing of this partition can be delivered
                    self._fail(queues.pop(where), error)
        return by_leader

    def _maybe_send(
        self, leader: int, batches: list[_Batch], deadline: float, delayed: list[KafkaError]
    ) -> BlockingConnection | None:
        """Send one request; the connection that will answer, or None when it failed."""
        try:
            connection = self._cluster.connection(leader, deadline)
        except KafkaError as error:
            delayed.append(error)
            return None
        try:
            send_deadline = self._cluster.answer_deadline(deadline)
            connection.send(produce.API, self._request(batches), send_deadline, expects_answer=self._acks != 0)
        except OSError as error:
            delayed.append(network_error(connection, error))
            return None
        return connection

    def _request(self, batches: list[_Batch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            topic, partition = batch.where
            if topic not in topics:
                topics[topic] = TopicProduceData(name=topic, topic_id=self._cluster.topic(topic).topic_id)
            data = PartitionProduceData(index=partition, records=self._encode(batch))
            topics[topic].partition_data.append(data)
        return ProduceRequest(acks=self._acks, timeout_ms=REQUEST_TIMEOUT_MS, topic_data=list(topics.values()))

    def _encode(self, batch: _Batch) -> bytearray:
        assert self._id is not None, "a producer id comes before the first batch"
        is_idempotent = self._id is not _NOT_IDEMPOTENT
        return build_batch(
            batch.records,
            codec=self._codec,
            producer_id=self._id.producer_id,
            producer_epoch=self._id.epoch,
            base_sequence=self._sequences[batch.where] if is_idempotent else NO_SEQUENCE,
        )

    def _receive(
        self,
        connection: BlockingConnection,
        batches: list[_Batch],
        queues: _Queues,
        deadline: float,
        delayed: list[KafkaError],
    ) -> None:
        if self._acks == 0:
            for batch in batches:
                self._on_written(queues, batch, -1)
            return
        try:
            response = cast("ProduceResponse", connection.receive(self._cluster.answer_deadline(deadline)).message)
        except OSError as error:
            delayed.append(network_error(connection, error))
            return
        # By id from version 13 on, by name before: the request had both, the answer has one.
        ids = {bytes(self._cluster.topic(batch.where.topic).topic_id): batch.where.topic for batch in batches}
        waiting = {batch.where: batch for batch in batches}
        for topic in response.responses:
            for answer in topic.partition_responses:
                where = TopicPartition(topic.name or ids[topic.topic_id], answer.index)
                self._on_answer(queues, waiting[where], answer, delayed)

    def _on_answer(
        self, queues: _Queues, batch: _Batch, answer: PartitionProduceResponse, delayed: list[KafkaError]
    ) -> None:
        code = error_code(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._on_written(queues, batch, answer.base_offset)
            return
        error = KafkaError(code, f"Partition {batch.where}: {_said(answer) or code.message}")
        if error.retriable:
            delayed.append(error)
        elif code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE) and len(batch.records) > 1:
            queue = queues[batch.where]
            queue.popleft()
            queue.extendleft(reversed(_halves(batch)))
        else:
            if code in _LOST_ID:
                self._forget_id()
            self._done(queues, batch)
            self._on_delivery(Delivery(batch.where, len(batch.records), error=error))

    def _on_written(self, queues: _Queues, batch: _Batch, base_offset: int) -> None:
        count = len(batch.records)
        self._sequences[batch.where] = increment_sequence(self._sequences[batch.where], count)
        self._done(queues, batch)
        self._on_delivery(Delivery(batch.where, count, base_offset))

    def _done(self, queues: _Queues, batch: _Batch) -> None:
        queue = queues[batch.where]
        assert queue[0] is batch, "batches of a partition are delivered in order"
        queue.popleft()
        if not queue:
            del queues[batch.where]

    def _fail(self, batches: deque[_Batch], error: KafkaError) -> None:
        for batch in batches:
            self._on_delivery(Delivery(batch.where, len(batch.records), error=error))

    # Identity

    def _take_id(self, deadline: float) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=REQUEST_TIMEOUT_MS)
        response = self._cluster.request(init_producer_id.API, request, deadline=deadline)
        given = cast("InitProducerIdResponse", response)
        code = error_code(given.error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"The broker gave no producer id: {code.message}")
        self._id = _ProducerId(given.producer_id, given.producer_epoch)
        self._sequences.clear()

    def _forget_id(self) -> None:
        """Sequences of this id cannot be trusted any more; the next batch starts with another."""
        if self._id is not _NOT_IDEMPOTENT:
            self._id = None


def _size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    size = RECORD_OVERHEAD + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += RECORD_OVERHEAD + 4 * len(name) + len(content or b"")  # a character has up to four bytes
    return size


def _requests(batches: list[_Batch]) -> list[list[_Batch]]:
    """One request's batches each, so that none is larger than MAX_REQUEST_BYTES or one batch."""
    requests: list[list[_Batch]] = [[]]
    size = 0
    for batch in batches:
        if requests[-1] and size + batch.size_bytes > MAX_REQUEST_BYTES:
            requests.append([])
            size = 0
        requests[-1].append(batch)
        size += batch.size_bytes
    return requests


def _halves(batch: _Batch) -> list[_Batch]:
    middle = len(batch.records) // 2
    return [_part(batch, batch.records[:middle]), _part(batch, batch.records[middle:])]


def _part(batch: _Batch, records: list[Record]) -> _Batch:
    numbered = [record._replace(offset=number) for number, record in enumerate(records)]
    size = sum(_size_of(record.key, record.value, record.headers) for record in numbered)
    return _Batch(batch.where, numbered, size)


def _said(answer: PartitionProduceResponse) -> str | None:
    """The broker's words, for the batch or for the first record that it refused."""
    if answer.record_errors:
        return answer.record_errors[0].batch_index_error_message or answer.error_message
    return answer.error_message
