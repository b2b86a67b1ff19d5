"""The append of a transactional produce request that its connection repeats (produce_memo): the short way.

The transactional id, the topic and the partition are those of the request that was remembered. What
transactional_produce does step by step is done here in one go where nothing has to be waited for: the log says whether
it knows the transaction; if not, the coordinator is asked, or told, and has the record in its log when it returns; then
the batch is appended.

Whatever is unusual is a KafkaError, and the request is served again the long way, which finds the same and answers
it: another request of the connection is being verified, the coordinator refuses, the batch is not transactional. What
was done until then does no harm: a partition that is in the transaction already is not added again, and the guard of
a producer is the same as long as nothing was written.
"""

from __future__ import annotations

import struct
from collections.abc import Sized

from penstock.broker.context import Context
from penstock.broker.replicas.partition import Partition
from penstock.broker.transactional_produce import ADDS_SINCE, VERIFICATION_SETTING
from penstock.broker.transactions.metadata import TV_2
from penstock.errors import ErrorCode, KafkaError
from penstock.log.log import AppendResult
from penstock.log.verification import ONGOING
from penstock.wire.records import ATTRIBUTES_AT, HEADER_SIZE, TRANSACTIONAL_BIT

_PRODUCER = struct.Struct(">h20xqhi")
"""Of a batch, from its attributes on: those, the producer's id and epoch, the first sequence."""


class TransactionalAppend:
    """Called as `Partition.append` is. `waiting` is the connection's line of requests that are being verified."""

    __slots__ = ("_adds", "_context", "_partition", "_transactional_id", "_waiting", "_where")

    def __init__(
        self, context: Context, transactional_id: str, version: int, partition: Partition, waiting: Sized
    ) -> None:
        self._context = context
        self._transactional_id = transactional_id
        self._adds = version >= ADDS_SINCE
        self._partition = partition
        self._where = frozenset((partition.log.topic_partition,))
        self._waiting = waiting

    def __call__(self, records: memoryview, acks: int) -> AppendResult:
        if self._waiting or len(records) < HEADER_SIZE:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        attributes, producer_id, producer_epoch, sequence = _PRODUCER.unpack_from(records, ATTRIBUTES_AT)
        if not attributes & TRANSACTIONAL_BIT or producer_id < 0:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        partition = self._partition
        guard = partition.start_verification(producer_id, producer_epoch, sequence, self._adds)
        if guard is not ONGOING:
            self._verify(producer_id, producer_epoch)
        return partition.append(records, acks, guard=guard)

    def _verify(self, producer_id: int, producer_epoch: int) -> None:
        transactions = self._context.transactions
        if self._adds:
            is_in = transactions.add_at_once(self._transactional_id, producer_id, producer_epoch, self._where, TV_2)
        else:
            is_in = not self._context.config.get_bool(VERIFICATION_SETTING) or transactions.is_in_transaction(
                self._transactional_id, producer_id, producer_epoch, self._where
            )
        if not is_in:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
