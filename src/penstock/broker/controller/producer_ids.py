"""Producer ids: numbers that are handed out once and never again.

The store holds the first id that nobody has. A broker takes a block of them by moving that number forward, durably, and
then hands the block out from memory. After a crash the rest of the block is lost, and no id is given twice: with 63
bits there are enough.
"""

from __future__ import annotations

import asyncio

from penstock.errors import ErrorCode, KafkaError
from penstock.metadata import records
from penstock.metadata.records import CounterRecord
from penstock.metadata.store import ABSENT, Check, Op, Put, Store

BLOCK_SIZE = 1000
"""Kafka's: one write to the store for a thousand producers."""

MAX_ATTEMPTS = 100
"""Each lost race means that another broker took a block; a hundred in a row means that something is broken."""

MAX_PRODUCER_ID = 2**63 - 1


class ProducerIds:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._next = 0
        self._end = 0
        self._taking = asyncio.Lock()

    async def next(self) -> int:
        """An id that no producer of this cluster ever had."""
        while self._next == self._end:
            async with self._taking:
                if self._next == self._end:
                    self._next, self._end = await self._take_block()
        producer_id = self._next
        self._next += 1
        return producer_id

    async def _take_block(self) -> tuple[int, int]:
        key = records.PRODUCER_IDS_KEY
        for _ in range(MAX_ATTEMPTS):
            entry = await self._store.get(key)
            counter = records.decode_counter(key, entry.value) if entry else CounterRecord(0)
            taken = CounterRecord(counter.next + BLOCK_SIZE, counter.extra)
            if taken.next > MAX_PRODUCER_ID:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been handed out.")
            ops: list[Op] = [Check(key, entry.version if entry else ABSENT), Put(key, taken.encode())]
            if (await self._store.txn(ops)).ok:
                return counter.next, taken.next
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "No block of producer ids could be taken; try again.")
