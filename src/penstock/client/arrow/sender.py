"""Brings encoded batches to the leaders of their partitions: several requests under way, in order, each batch once.

    sender.add(batch)       sends what may be sent, waits when too much is under way
    sender.flush()          returns when everything is written

Rules:
- an idempotent or transactional producer has up to five requests under way with each leader, which is what brokers
  remember of a producer; others have one, because after a failure nobody could tell what is written;
- a request has one batch of a partition at most, and batches of a partition go out in their order;
- when something fails that may pass (a lost connection, a leader that moved), nothing new is sent, the answers that are
  still to come are heard, and everything that is not confirmed is sent again in the same order, with the same sequence
  numbers: the broker recognizes what it has. These go one at a time for each partition, as Java's client sends them.
  Each success gives the next the whole time again;
- a batch that is too large for its topic is encoded again as smaller ones, which together have its sequence numbers;
- what fails for good is raised, and then the sender is of no use any more: what is written, and what not, is in
  `written` as far as it is known.

It belongs to one thread, and works only while it is called.
"""

from __future__ import annotations

import select
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

from penstock.client.cluster import Cluster, network_error
from penstock.client.metadata import error_code
from penstock.errors import ErrorCode, KafkaError
from penstock.net.connection import BlockingConnection
from penstock.types import TopicPartition
from penstock.wire.api import Api
from penstock.wire.api.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from penstock.wire.columns import decode_columns, encode_columns
from penstock.wire.frame import InPlace
from penstock.wire.records import read_header

MAX_IN_FLIGHT = 5
"""Requests to one leader: a broker remembers five batches of a producer in a partition."""

MAX_QUEUED_BYTES = 16 << 20
"""Encoded and not confirmed, before `add` waits."""

MAX_REQUEST_BYTES = 8 << 20
DELIVERY_TIMEOUT_MS = 120_000
REQUEST_TIMEOUT_MS = 30_000

NO_OFFSET = -1

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedBatch:
    """A batch ready to be sent; which producer's it is stands in its header."""

    where: TopicPartition
    data: bytearray | memoryview
    row_count: int


@dataclass(frozen=True, slots=True)
class Written:
    """Rows of one partition that are in the log: how many, the first offset, and the offset behind the last.

    Others may have written between. Offsets are -1 when no broker told them: with acks 0, or after a retry of a batch
    that was written long before.
    """

    row_count: int
    base_offset: int
    end_offset: int


class _Asked(NamedTuple):
    """A request under way."""

    batches: dict[TopicPartition, EncodedBatch]
    names: dict[bytes, str]
    """Topic id -> name, as it was when the request was sent."""


class Sender:
    """Queues, requests under way, and what was confirmed."""

    def __init__(
        self,
        cluster: Cluster,
        api: Api,
        *,
        acks: int,
        transactional_id: str | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
        delivery_timeout_ms: float = DELIVERY_TIMEOUT_MS,
    ) -> None:
        self._cluster = cluster
        self._api = api
        self._acks = acks
        self._transactional_id = transactional_id
        self._max_in_flight = max_in_flight
        self._delivery_timeout_ms = delivery_timeout_ms
        self._waiting: dict[TopicPartition, deque[EncodedBatch]] = {}
        self._under_way: dict[TopicPartition, list[EncodedBatch]] = defaultdict(list)
        self._sent_to: dict[TopicPartition, int] = {}
        self._sent_before: set[EncodedBatch] = set()
        self._connections: dict[int, BlockingConnection] = {}
        self._requests: dict[int, deque[_Asked]] = defaultdict(deque)
        self._queued_bytes = 0
        self._has_refused = False
        self._failed: BaseException | None = None
        self.written: dict[TopicPartition, Written] = {}

    def add(self, batch: EncodedBatch) -> None:
        """Take a batch, the next of its partition."""
        self._waiting.setdefault(batch.where, deque()).append(batch)
        self._queued_bytes += len(batch.data)
        self._retry(self._send)
        while self._queued_bytes > MAX_QUEUED_BYTES:
            self._retry(self._step)

    def flush(self) -> None:
        """Return when every batch is confirmed."""
        while self._queued_bytes:
            self._retry(self._step)

    def close(self) -> None:
        """Forget what is not confirmed."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _retry(self, attempt: Callable[[float], None]) -> None:
        if self._failed is not None:
            raise self._failed
        try:
            self._cluster.retry(attempt, self._delivery_timeout_ms)
        except BaseException as error:  # an interrupted send has left half a request behind, too
            self._failed = error
            raise

    def _step(self, deadline: float) -> None:
        """Send what may be sent, and hear the next answers."""
        self._send(deadline)
        errors: list[KafkaError] = []
        for leader in self._answered(deadline):
            self._receive(leader, deadline, errors)
        if errors or self._has_refused:
            self._start_over(deadline, errors)

    # Sending

    def _send(self, deadline: float) -> None:
        """Fill up what may be under way."""
        while requests := self._next_requests(deadline):
            for leader, batches in requests.items():
                self._send_request(leader, batches, deadline)

    def _next_requests(self, deadline: float) -> dict[int, list[EncodedBatch]]:
        """The first batch of each partition, for every leader that may have another request under way."""
        requests: dict[int, list[EncodedBatch]] = defaultdict(list)
        sizes: dict[int, int] = defaultdict(int)
        for where, queue in self._waiting.items():
            leader = self._cluster.leader(where, deadline=deadline)
            is_full = len(self._requests[leader]) >= self._max_in_flight or sizes[leader] >= MAX_REQUEST_BYTES
            if not is_full and self._may_follow(queue[0], leader):
                requests[leader].append(queue[0])
                sizes[leader] += len(queue[0].data)
        return requests

    def _may_follow(self, batch: EncodedBatch, leader: int) -> bool:
        """Whether it may be sent although others of its partition are under way: not to another leader, and not where
        one was sent before. A broker that has written that one, and then five others, would not know it any more.
        """
        under_way = self._under_way[batch.where]
        if not under_way:
            return True
        is_again = batch in self._sent_before or any(each in self._sent_before for each in under_way)
        return not is_again and self._sent_to[batch.where] == leader

    def _send_request(self, leader: int, batches: list[EncodedBatch], deadline: float) -> None:
        connection = self._connections.get(leader)
        if connection is None or not connection.is_open:
            connection = self._connections[leader] = self._cluster.open_connection(leader, deadline)
        request = self._request(batches)
        try:
            send_deadline = self._cluster.answer_deadline(deadline)
            connection.send(self._api, request, send_deadline, expects_answer=self._acks != 0)
        except OSError as error:
            self._requests[leader].clear()
            self._start_over(deadline, [network_error(connection, error)])
        for batch in batches:
            self._on_sent(batch, leader)
        if self._acks != 0:
            names = {bytes(topic.topic_id): topic.name for topic in request.topic_data}
            self._requests[leader].append(_Asked({batch.where: batch for batch in batches}, names))

    def _on_sent(self, batch: EncodedBatch, leader: int) -> None:
        queue = self._waiting[batch.where]
        queue.popleft()
        if not queue:
            del self._waiting[batch.where]
        self._under_way[batch.where].append(batch)
        self._sent_to[batch.where] = leader
        if self._acks == 0:
            self._on_written(batch, NO_OFFSET)

    def _request(self, batches: list[EncodedBatch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            topic, partition = batch.where
            if topic not in topics:
                topics[topic] = TopicProduceData(name=topic, topic_id=self._cluster.topic(topic).topic_id)
            topics[topic].partition_data.append(PartitionProduceData(index=partition, records=InPlace(batch.data)))
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=list(topics.values()),
        )

    # Answers

    def _answered(self, deadline: float) -> list[int]:
        """Leaders that have answered, after waiting for one."""
        asked = {self._connections[leader]: leader for leader, requests in self._requests.items() if requests}
        ready = [leader for connection, leader in asked.items() if connection.has_answer]
        if ready or not asked:
            return ready
        wait_seconds = max(0.0, self._cluster.answer_deadline(deadline) - self._cluster.deadline(0))
        readable, _, _ = select.select(list(asked), [], [], wait_seconds)
        return [asked[connection] for connection in readable or asked]

    def _receive(self, leader: int, deadline: float, errors: list[KafkaError]) -> None:
        """One answer; when it does not come, those behind it on the connection do not either."""
        connection = self._connections[leader]
        try:
            response = cast("ProduceResponse", connection.receive(self._cluster.answer_deadline(deadline)).message)
        except OSError as error:
            self._requests[leader].clear()
            errors.append(network_error(connection, error))
            return
        asked = self._requests[leader].popleft()
        for topic in response.responses:
            for answer in topic.partition_responses:
                # By id from version 13 on, by name before: the request had both, the answer has one.
                where = TopicPartition(topic.name or asked.names[topic.topic_id], answer.index)
                self._on_answer(asked.batches[where], answer, errors)

    def _on_answer(self, batch: EncodedBatch, answer: PartitionProduceResponse, errors: list[KafkaError]) -> None:
        """A batch that is not written stays among those under way, and holds the place of those behind it."""
        code = error_code(answer.error_code)
        under_way = self._under_way[batch.where]
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._on_written(batch, answer.base_offset)
            return
        error = KafkaError(code, f"Partition {batch.where}: {_said(answer) or code.message}")
        is_behind_another = under_way[0] is not batch
        if code in _TOO_LARGE and batch.row_count > 1:
            smaller = _smaller(batch)
            place = under_way.index(batch)
            under_way[place : place + 1] = smaller
            self._sent_before.discard(batch)
            self._queued_bytes += sum(len(each.data) for each in smaller) - len(batch.data)
            self._has_refused = True
        elif error.retriable:
            errors.append(error)
        elif code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not is_behind_another:
            raise error

    def _on_written(self, batch: EncodedBatch, base_offset: int) -> None:
        self._under_way[batch.where].remove(batch)
        self._sent_before.discard(batch)
        self._queued_bytes -= len(batch.data)
        end = NO_OFFSET if base_offset == NO_OFFSET else base_offset + batch.row_count
        known = self.written.get(batch.where)
        if known is None:
            self.written[batch.where] = Written(batch.row_count, base_offset, end)
        else:
            told = [offset for offset in (known.base_offset, base_offset) if offset != NO_OFFSET]
            first = min(told, default=NO_OFFSET)  # what had to be sent again is confirmed late
            self.written[batch.where] = Written(known.row_count + batch.row_count, first, max(known.end_offset, end))

    # After a failure

    def _start_over(self, deadline: float, errors: list[KafkaError]) -> None:
        """Hear what is still to come; what is not confirmed waits again, in order. Raises the first error."""
        for leader, requests in self._requests.items():
            while requests:
                self._receive(leader, deadline, errors)
        for where, batches in self._under_way.items():
            if batches:
                self._waiting.setdefault(where, deque()).extendleft(reversed(batches))
                self._sent_before.update(batches)
                batches.clear()
        self._has_refused = False
        if errors:
            raise errors[0]


def _smaller(batch: EncodedBatch) -> list[EncodedBatch]:
    """The same rows in batches of half as many."""
    header = read_header(batch.data)
    columns = decode_columns(batch.data, with_headers=True, check_crcs=False)
    parts = encode_columns(
        columns,
        codec=header.compression,
        max_records=(batch.row_count + 1) // 2,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
    )
    return [EncodedBatch(batch.where, data, read_header(data).record_count) for data in parts]


def _said(answer: PartitionProduceResponse) -> str | None:
    """The broker's words, for the batch or for the first record that it refused."""
    if answer.record_errors:
        return answer.record_errors[0].batch_index_error_message or answer.error_message
    return answer.error_message
