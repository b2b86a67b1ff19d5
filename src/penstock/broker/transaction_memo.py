"""The requests with which a connection begins and ends its transactions: served without decoding them anew.

    AddPartitionsToTxn    up to version 3: a producer puts its partitions into every transaction with the same bytes
    EndTxn                the same bytes but for the producer's epoch and the outcome, which stand at the end

A connection remembers the bytes of a request that was done, without the correlation id, with what they ask and the
answer. A request with the same bytes goes straight to the coordinator, which decides as always. This saves two thirds
of the time of the one and a quarter of the other's.

Whatever is unusual takes the long way, which says why: the coordinator refuses, or has to wait for the disk, or a
partition is gone.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from penstock.broker.context import Context
from penstock.broker.transactions.decide import ProducerIdAndEpoch
from penstock.broker.transactions.metadata import TV_0, TV_2
from penstock.broker.transactions.versions import BATCHED_SINCE, EPOCH_PER_TRANSACTION_SINCE
from penstock.errors import KafkaError
from penstock.types import TopicPartition
from penstock.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from penstock.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from penstock.wire.compile import codec

ADD_PARTITIONS_KEY = 24
END_TXN_KEY = 26
FLEXIBLE_SINCE = 3
"""Of EndTxn."""
BODY_AT = 8
"""API key, version and correlation id come before."""
MAX_MEMOS = 64
"""Of each kind and connection; beyond that all are forgotten and learned again."""
MAX_BYTES = 1024
MAX_PARTITIONS = 16
"""Longer ones, and those with more partitions, take the long way."""

_CORRELATION_ID = struct.Struct(">i")
_CORRELATION_ID_AT = 4
_END = struct.Struct(">h?")
"""The end of an EndTxn request: epoch and outcome; a section of no tags follows in flexible versions."""
_PRODUCER = struct.Struct(">qh")
_PRODUCER_FROM_END = _PRODUCER.size + 1
"""In EndTxn's answer, before the tags."""


class _Added(NamedTuple):
    version: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    answer: bytes


class _Ended(NamedTuple):
    version: int
    transactional_id: str
    producer_id: int
    answer: bytes


class TransactionMemos:
    """What one connection repeats."""

    __slots__ = ("_added", "_ended")

    def __init__(self) -> None:
        self._added: dict[bytes, _Added] = {}
        self._ended: dict[bytes, _Ended] = {}

    def serve_add(self, context: Context, frame: memoryview, version: int, correlation_id: int) -> bytearray | None:
        """The answer to an AddPartitionsToTxn that is known, None for any other."""
        memo = self._added.get(bytes(frame[BODY_AT:])) if len(frame) <= MAX_BYTES else None
        if memo is None:
            return None
        known_version, transactional_id, producer_id, producer_epoch, partitions, answer = memo
        image = context.controller.image
        if known_version != version or None in [image.partition(topic, index) for topic, index in partitions]:
            return None
        try:
            is_done = context.transactions.add_at_once(transactional_id, producer_id, producer_epoch, partitions, TV_0)
        except KafkaError:
            return None  # nothing was written; the long way says why
        return _answered(answer, correlation_id) if is_done else None

    def serve_end(self, context: Context, frame: memoryview, version: int, correlation_id: int) -> bytearray | None:
        """The answer to an EndTxn that is known, None for any other."""
        end_at = _end_at(frame, version)
        memo = self._ended.get(bytes(frame[BODY_AT:end_at])) if BODY_AT < end_at <= MAX_BYTES else None
        if memo is None or memo.version != version or not _has_usual_end(frame, version, end_at):
            return None
        _, transactional_id, producer_id, answer = memo
        epoch, is_commit = _END.unpack_from(frame, end_at)
        has_epoch = version >= EPOCH_PER_TRANSACTION_SINCE
        try:
            producer = ProducerIdAndEpoch(producer_id, epoch)
            ended = context.transactions.end_at_once(transactional_id, producer, is_commit, TV_2 if has_epoch else TV_0)
        except KafkaError:
            return None  # nothing was decided; the long way says why
        if ended is None:
            return None
        out = _answered(answer, correlation_id)
        if has_epoch:
            _PRODUCER.pack_into(out, len(out) - _PRODUCER_FROM_END, *ended)
        return out

    def learn_add(
        self,
        frame: memoryview,
        version: int,
        request: AddPartitionsToTxnRequest,
        response: AddPartitionsToTxnResponse,
        answer: bytearray,
    ) -> None:
        """Remember a request that was answered, unless something was refused or it is of another kind."""
        results = response.results_by_topic_v3_and_below
        codes = [each.partition_error_code for topic in results for each in topic.results_by_partition]
        is_usual = 0 < len(codes) <= MAX_PARTITIONS and not any(codes)
        if version >= BATCHED_SINCE or not is_usual or len(frame) > MAX_BYTES:
            return
        topics = request.v3_and_below_topics
        if len(self._added) >= MAX_MEMOS:
            self._added.clear()
        self._added[bytes(frame[BODY_AT:])] = _Added(
            version,
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions),
            bytes(answer),
        )

    def learn_end(
        self,
        frame: memoryview,
        position: int,
        version: int,
        request: EndTxnRequest,
        response: EndTxnResponse,
        answer: bytearray,
    ) -> None:
        """Remember a request that was answered without an error. Its body, from `position` on, must be as we would
        write it: with tags, or with bytes after it, the epoch stands elsewhere."""
        end_at = _end_at(frame, version)
        if response.error_code or end_at > MAX_BYTES or frame[position:] != _encoded(request, version):
            return
        if len(self._ended) >= MAX_MEMOS:
            self._ended.clear()
        known = _Ended(version, request.transactional_id, request.producer_id, bytes(answer))
        self._ended[bytes(frame[BODY_AT:end_at])] = known


def _encoded(request: EndTxnRequest, version: int) -> bytearray:
    out = bytearray()
    codec(EndTxnRequest, version).encode(request, out, [])
    return out


def _end_at(frame: memoryview, version: int) -> int:
    """Where the epoch stands in an EndTxn request with the usual end."""
    return len(frame) - _END.size - (1 if version >= FLEXIBLE_SINCE else 0)


def _has_usual_end(frame: memoryview, version: int, end_at: int) -> bool:
    """The outcome is a 0 or a 1, and there are no tags."""
    return frame[end_at + 2] <= 1 and (version < FLEXIBLE_SINCE or frame[-1] == 0)


def _answered(answer: bytes, correlation_id: int) -> bytearray:
    out = bytearray(answer)
    _CORRELATION_ID.pack_into(out, _CORRELATION_ID_AT, correlation_id)
    return out
