"""The raw reader: fetches a topic again and again and throws the records away, with as little CPU as it can.

Each connection reads a partition of its own, one fetch at a time, 1 MB each. The head of an answer is read, checked and
used; the records after it are discarded inside the kernel (MSG_TRUNC: no copy to us), because the reader shares the
machine with the broker, and it is the broker that is measured. Every answer must begin with the offset asked for.
Batches have one size that divides 1 MB, so an answer's length says how many there are.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from dataclasses import dataclass, field

from crc32c import crc32c

import raw

from .frames import CRC_AT, CRC_FROM, Batch, FetchAnswer, FetchFrame, fetch_frame
from .loader import RUN_TIMEOUT_SECONDS, check_error, connect

FETCH_BYTES = 1 << 20
DISCARD_BYTES = 1 << 20
BASE_OFFSET_BYTES = 8
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


@dataclass(slots=True)
class _Partition:
    """The reading of one partition from its beginning to `end_offset`, `passes` times."""

    socket: socket.socket
    frame: FetchFrame
    answer: FetchAnswer
    batch: Batch
    end_offset: int
    passes: int
    offset: int = 0
    head: bytearray = field(default_factory=bytearray)
    to_discard: int = 0
    read_bytes: int = 0

    def ask(self) -> None:
        self.head.clear()
        self.socket.send(self.frame.at(self.offset))

    def receive(self, waste: bytearray) -> bool:
        """Take what has come; True at the end of the last pass."""
        if not self.to_discard:
            self._receive_head()
        while self.to_discard:
            try:
                self.to_discard -= self.socket.recv_into(waste, min(self.to_discard, DISCARD_BYTES), socket.MSG_TRUNC)
            except BlockingIOError:
                return False
            if not self.to_discard:
                return self._next()
        return False

    def _receive_head(self) -> None:
        wanted = self.answer.records_at + BASE_OFFSET_BYTES - len(self.head)
        part = self.socket.recv(wanted)
        if not part:
            raise ConnectionError("the broker closed the connection")
        self.head += part
        if len(part) < wanted:
            return
        check_error(self.head, self.answer.error_at)
        found = _LONG.unpack_from(self.head, self.answer.records_at)[0]
        if found != self.offset:
            raise RuntimeError(f"asked for offset {self.offset}, and the answer begins with {found}")
        self.to_discard = 4 + _INT.unpack_from(self.head)[0] - len(self.head)

    def _next(self) -> bool:
        records_bytes = _INT.unpack_from(self.head, self.answer.records_length_at)[0]
        self.read_bytes += records_bytes
        self.offset += records_bytes // len(self.batch.data) * self.batch.records
        if self.offset >= self.end_offset:
            self.offset = 0
            self.passes -= 1
            if self.passes == 0:
                return True
        self.ask()
        return False


def run_reader(port: int, topic: str, partitions: int, batch: Batch, batches: int, passes: int) -> int:
    """Read partitions that hold `batches` batches each, `passes` times; returns the bytes of records."""
    open_partitions: dict[int, _Partition] = {}
    answer = FetchAnswer.of(topic)
    try:
        for index in range(partitions):
            frame = fetch_frame(topic, index, FETCH_BYTES, max_wait_ms=500, min_bytes=1)
            partition = _Partition(connect(port), frame, answer, batch, batches * batch.records, passes)
            partition.socket.setblocking(False)
            open_partitions[partition.socket.fileno()] = partition
        _drive(open_partitions)
        return sum(partition.read_bytes for partition in open_partitions.values())
    finally:
        for partition in open_partitions.values():
            partition.socket.close()


def _drive(partitions: dict[int, _Partition]) -> None:
    deadline = time.monotonic() + RUN_TIMEOUT_SECONDS
    waste = bytearray(DISCARD_BYTES)
    running = len(partitions)
    with select.epoll() as poll:
        for descriptor, partition in partitions.items():
            poll.register(descriptor, select.EPOLLIN)
            partition.ask()
        while running:
            events = poll.poll(5.0)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the run did not end in {RUN_TIMEOUT_SECONDS:.0f} s")
            for descriptor, _ in events:
                if partitions[descriptor].receive(waste):
                    poll.unregister(descriptor)
                    running -= 1


def check_stored(bootstrap: str, topic: str, offset: int, batch: Batch) -> None:
    """One fetch with its records: whole batches, each with a right CRC and the records that were sent."""
    with raw.Connection(bootstrap) as connection:
        records = memoryview(bytes(raw.fetch(connection, topic, offset).records))
    size = len(batch.data)
    for at in range(0, len(records) - size + 1, size):
        stored = records[at : at + size]
        if int.from_bytes(stored[CRC_AT:CRC_FROM], "big") != crc32c(stored[CRC_FROM:]):
            raise RuntimeError(f"a batch at or after offset {offset} has a wrong CRC")
        if stored[CRC_FROM:] != batch.data[CRC_FROM:]:
            raise RuntimeError(f"a batch at or after offset {offset} is not the one that was sent")
