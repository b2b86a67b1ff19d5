"""Writes Arrow batches into topics: rows to partitions, columns to record batches, and those to their leaders.

    with ArrowWriter(cluster, "orders", codec=Codec.LZ4) as writer:
        for batch in batches:
            writer.write(batch)
    writer.written          # partition -> how many rows, and their offsets

The columns are those of `rows`. Rows of a partition are written in their order.

Rules:
- with acks "all" the writer is idempotent, unless told otherwise: what is sent again is not written twice;
- in a transaction, batches are the transaction's; to commit it is the caller's, after `flush`;
- `write` gathers until batches of a good size can be made, then encodes and sends, and waits only when too much is
  under way. `flush` returns when everything is confirmed. Leaving the `with` flushes, but not after an error;
- what cannot be written is a KafkaError, and then the writer is of no use any more. Rows that were confirmed before
  stay, except in a transaction.

It belongs to one thread, as its cluster does. After a crash nothing is left behind but the rows that were written.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from types import TracebackType
from typing import Literal, Protocol, Self, cast

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.arrow.placement import Placement
from penstock.client.arrow.rows import encodable, rows_of
from penstock.client.arrow.schema import SchemaError
from penstock.client.arrow.sender import DELIVERY_TIMEOUT_MS, MAX_IN_FLIGHT, EncodedBatch, Sender, Written
from penstock.client.cluster import Cluster
from penstock.client.metadata import error_code
from penstock.env.chance import system_chance
from penstock.env.clock import Clock, SystemClock
from penstock.errors import ConfigError, ErrorCode, KafkaError
from penstock.net.slabs import Slabs
from penstock.types import TopicPartition
from penstock.wire.api import Api, init_producer_id, produce
from penstock.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.columns import encode_columns
from penstock.wire.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Codec,
    increment_sequence,
    read_header,
)

BATCH_BYTES = 900_000
"""Below Kafka's default for `max.message.bytes`, headers included."""

MAX_GATHERED_BYTES = 16 << 20
"""Of rows that wait for enough others to make a batch."""

ACKS = {"all": -1, "0": 0, "1": 1, "-1": -1}

Acks = Literal["all", 0, 1, -1]


class Transaction(Protocol):
    """What the writer needs of a transaction, see `client.transactional`. Sequences begin with 0 in each."""

    transactional_id: str

    @property
    def identity(self) -> tuple[int, int]:
        """Producer id and epoch."""

    @property
    def produce_api(self) -> Api: ...

    def add_partitions(self, partitions: list[TopicPartition]) -> None: ...


class ArrowWriter:
    """Writes to one topic, or to those that a column names."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str | None = None,
        *,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        acks: Acks = "all",
        idempotent: bool | None = None,
        transaction: Transaction | None = None,
        partitioner: str = "consistent_random",
        batch_bytes: int = BATCH_BYTES,
        delivery_timeout_ms: float = DELIVERY_TIMEOUT_MS,
        clock: Clock | None = None,
        chance: Random | None = None,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._codec = codec
        self._level = level
        self._acks = _acks(acks)
        self._is_idempotent = _is_idempotent(self._acks, idempotent, transaction)
        self._transaction = transaction
        self._partitioner = partitioner
        self._batch_bytes = batch_bytes
        self._clock = clock or SystemClock()
        self._chance = chance or system_chance()
        self._sender = Sender(
            cluster,
            transaction.produce_api if transaction is not None else produce.API,
            acks=self._acks,
            transactional_id=transaction.transactional_id if transaction is not None else None,
            max_in_flight=MAX_IN_FLIGHT if self._is_idempotent else 1,
            delivery_timeout_ms=delivery_timeout_ms,
        )
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self._slabs = Slabs()
        self._placements: dict[str, Placement] = {}
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = defaultdict(int)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._sender.close()

    @property
    def written(self) -> dict[TopicPartition, Written]:
        """What is confirmed so far."""
        return dict(self._sender.written)

    def write(self, table: pa.RecordBatch | pa.Table) -> None:
        """Take rows. SchemaError before any of them is sent, KafkaError when they, or some before them, fail."""
        batches = table.to_batches() if isinstance(table, pa.Table) else [table]
        for batch in [rows_of(batch, has_topic=self._topic is not None) for batch in batches]:
            if batch.num_rows == 0:
                continue
            if self._gathered and self._gathered[0].schema != batch.schema:
                self._send_gathered()
            self._gathered.append(batch)
            self._gathered_bytes += batch.nbytes
            if self._gathered_bytes >= self._enough_bytes():
                self._send_gathered()

    def flush(self) -> None:
        """Return when everything is confirmed."""
        self._send_gathered()
        self._sender.flush()

    def close(self) -> None:
        """Flush, and close the connections."""
        try:
            self.flush()
        finally:
            self._sender.close()

    # From rows to batches

    def _enough_bytes(self) -> int:
        """A good batch for each partition of the topic, but not without end."""
        if self._topic is None:
            return MAX_GATHERED_BYTES
        return min(self._batch_bytes * self._partition_count(self._topic), MAX_GATHERED_BYTES)

    def _send_gathered(self) -> None:
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        if not gathered:
            return
        rows = gathered[0] if len(gathered) == 1 else pa.concat_batches(gathered)
        if self._topic is not None:
            self._send_rows(self._topic, rows)
            return
        topics = rows.column("topic")
        if topics.null_count:
            raise SchemaError("Column 'topic' has a null; the name of a topic is expected in each row.")
        for topic in pc.unique(topics).to_pylist():
            self._send_rows(topic, rows.filter(pc.equal(topics, topic)))

    def _send_rows(self, topic: str, rows: pa.RecordBatch) -> None:
        placement = self._placements.get(topic)
        if placement is None:
            placement = self._placements[topic] = Placement(topic, self._partitioner, self._chance)
        now_ms = self._clock.now_ms()
        for partition, part in placement.place(rows, self._partition_count(topic), self._batch_bytes):
            self._encode(TopicPartition(topic, partition), part, now_ms)

    def _partition_count(self, topic: str) -> int:
        found = self._cluster.metadata.topics.get(topic)
        if found is None or found.error is not ErrorCode.NONE:
            found = self._cluster.retry(lambda deadline: self._cluster.topic(topic, deadline=deadline))
        return len(found.partitions)

    def _encode(self, where: TopicPartition, rows: pa.RecordBatch, now_ms: int) -> None:
        """Encode one batch after the other and hand it over: what is under way bounds what is in memory."""
        if self._transaction is not None:
            self._transaction.add_partitions([where])
        producer_id, epoch = self._producer()
        encoded = encode_columns(
            encodable(rows, now_ms),
            codec=self._codec,
            level=self._level,
            target_bytes=self._batch_bytes,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences[where] if self._is_idempotent else NO_SEQUENCE,
            is_transactional=self._transaction is not None,
            allocate=self._slabs.take,
        )
        for data in encoded:
            count = read_header(data).record_count
            self._sequences[where] = increment_sequence(self._sequences[where], count)
            self._sender.add(EncodedBatch(where, data, count))

    # Identity

    def _producer(self) -> tuple[int, int]:
        """Producer id and epoch, taken before the first batch."""
        if self._identity is None:
            if self._transaction is not None:
                self._identity = self._transaction.identity
            elif self._is_idempotent:
                self._identity = self._cluster.retry(self._take_id)
            else:
                self._identity = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        return self._identity

    def _take_id(self, deadline: float) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        answer = self._cluster.request(init_producer_id.API, request, deadline=deadline)
        given = cast("InitProducerIdResponse", answer)
        code = error_code(given.error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"The broker gave no producer id: {code.message}")
        return given.producer_id, given.producer_epoch


def _acks(acks: Acks) -> int:
    if str(acks) not in ACKS:
        raise ConfigError(f"acks={acks!r} is not known; 'all', 1 and 0 are.")
    return ACKS[str(acks)]


def _is_idempotent(acks: int, wish: bool | None, transaction: Transaction | None) -> bool:
    """By default when the broker waits for all replicas; a transaction cannot do without."""
    if transaction is not None:
        wish = True
    if wish and acks != ACKS["all"]:
        raise ConfigError("Idempotent and transactional writes need acks='all'.")
    return acks == ACKS["all"] if wish is None else wish
