"""The requests of small transactions, encoded before the clock runs: begin, one message to one partition, commit.

    version 1    AddPartitionsToTxn v0, Produce v10, EndTxn v1, as librdkafka sends them; one epoch, sequences 0, 1, ...
    version 2    Produce v12, EndTxn v5 (KIP-890); the epoch is one more each time, the sequence always 0

Version 2's next epoch comes in the answer to EndTxn. It is known beforehand, as nobody else uses the id. A request
whose answer is CONCURRENT_TRANSACTIONS can be sent again as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

import raw
from benchmarks.broker.frames import CRC_AT, CRC_FROM, SEQUENCE_AT, produce_error_at

VALUE = b"v" * 100
ADD_VERSION = 0
PRODUCE_VERSIONS = {1: 10, 2: 12}
END_VERSIONS = {1: 1, 2: 5}
END_ERROR_AT = {1: 4 + 4 + 4, 2: 4 + 4 + 1 + 4}
"""length, correlation id, tags (from version 3 on), throttle"""
EPOCH_AT = SEQUENCE_AT - 2
EPOCH_FROM_END = {1: 2 + 1, 2: 2 + 1 + 1}
"""Of an EndTxn request: epoch, committed, tags (from version 3 on)."""


class Step(NamedTuple):
    """One request, and where the error code stands in its answer, length included."""

    frame: bytes
    error_at: int


@dataclass(frozen=True, slots=True)
class SmallTransactions:
    """What one transactional id sends, from the epoch that InitProducerId gave it."""

    version: int
    transactional_id: str
    producer_id: int
    epoch: int
    topic: str
    partition: int

    def steps(self, count: int) -> Iterator[Step]:
        """All requests of `count` transactions, in order."""
        add, produce, end = self.add(), self._produce(), self._end()
        for number in range(count):
            if self.version == 1:
                yield add
                yield produce.step(self.epoch, number)
                yield end.step(self.epoch)
            else:
                yield produce.step(self.epoch + number, 0)
                yield end.step(self.epoch + number)

    def add(self) -> Step:
        fields = {
            "v3_and_below_transactional_id": self.transactional_id,
            "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": self.epoch,
            "v3_and_below_topics": [{"name": self.topic, "partitions": [self.partition]}],
        }
        return Step(raw.encode_request("AddPartitionsToTxn", ADD_VERSION, 1, fields), add_error_at(self.topic))

    def _produce(self) -> _ProduceFrame:
        records = raw.batch([VALUE], (self.producer_id, self.epoch, 0), is_transactional=True)
        fields = raw.produce_fields(self.topic, records, self.partition, transactional_id=self.transactional_id)
        frame = raw.encode_request("Produce", PRODUCE_VERSIONS[self.version], 1, fields)
        return _ProduceFrame(bytearray(frame), frame.index(records), len(records), produce_error_at(self.topic, 1))

    def _end(self) -> _EndFrame:
        who = {"transactional_id": self.transactional_id, "producer_id": self.producer_id}
        fields = {**who, "producer_epoch": self.epoch, "committed": True}
        frame = bytearray(raw.encode_request("EndTxn", END_VERSIONS[self.version], 1, fields))
        return _EndFrame(frame, len(frame) - EPOCH_FROM_END[self.version], END_ERROR_AT[self.version])


def add_error_at(topic: str) -> int:
    """length, correlation id, throttle, topics, name, partitions, index"""
    return 4 + 4 + 4 + 4 + 2 + len(topic) + 4 + 4


@dataclass(frozen=True, slots=True)
class _ProduceFrame:
    data: bytearray
    batch_at: int
    batch_bytes: int
    error_at: int

    def step(self, epoch: int, sequence: int) -> Step:
        struct.pack_into(">hi", self.data, self.batch_at + EPOCH_AT, epoch, sequence)
        end = self.batch_at + self.batch_bytes
        struct.pack_into(">I", self.data, self.batch_at + CRC_AT, crc32c(self.data[self.batch_at + CRC_FROM : end]))
        return Step(bytes(self.data), self.error_at)


@dataclass(frozen=True, slots=True)
class _EndFrame:
    data: bytearray
    epoch_at: int
    error_at: int

    def step(self, epoch: int) -> Step:
        struct.pack_into(">h", self.data, self.epoch_at, epoch)
        return Step(bytes(self.data), self.error_at)
