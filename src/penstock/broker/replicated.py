"""State that lives in a partition of an internal topic: written as records, read back at the start.

    append    the records of one decision as one batch, so that a crash keeps all of them or none;
              `on_committed` is called once they cannot be lost any more, in the order of the appends;
              with a producer the batch is part of its transaction, and counts or not as the marker says
    load      every committed record, oldest first, a piece at a time so that the loop stays free; markers too

On one node a record is committed when it is in the log or, with `penstock.durability=fsync`, when it is on disk; then
appends that wait share a sync. A batch that failed is not in the log, or not on disk, and does not count.

Loading stops at the end that the log had when it began, and at a hole: it never waits for offsets that do not come
(B20). Bytes that are no records end it with an error: a state with holes must not be served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from penstock.broker.replicas.group_commit import GroupCommit
from penstock.broker.replicas.partition import Partition
from penstock.env.clock import Clock
from penstock.errors import ErrorCode, KafkaError
from penstock.log.reader import LogSlice
from penstock.log.verification import VerificationGuard
from penstock.types import Bytes
from penstock.wire.key_values import KeyValues, build_key_values
from penstock.wire.record import iterate_records
from penstock.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, BatchHeader, check_batch, corrupt

ALL_IN_SYNC = -1
OnCommitted = Callable[[KafkaError | None], None]
T = TypeVar("T")
Decode = Callable[[Bytes, Bytes | None, BatchHeader], Sequence[T]]
"""What a record's key and value say, in a batch with this header."""
NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class ReplicatedLog:
    """The records of one partition of an internal topic."""

    def __init__(
        self,
        partition: Partition,
        clock: Clock,
        group_commit: GroupCommit,
        executor: Executor,
        load_buffer_bytes: int,
    ) -> None:
        self.partition = partition
        self._clock = clock
        self._group_commit = group_commit
        self._executor = executor
        self._load_buffer_bytes = load_buffer_bytes
        self.commits_at_once = not group_commit.is_needed
        """What is in the log is committed: there is no disk to wait for."""

    def append(
        self,
        pairs: KeyValues,
        on_committed: OnCommitted,
        producer: tuple[int, int] = NO_PRODUCER,
        guard: VerificationGuard | None = None,
    ) -> None:
        """`on_committed` gets None, or why the records do not count; maybe before this returns.

        `producer` is the id and the epoch of the one in whose transaction they are, `guard` the proof that it is open.
        """
        try:
            self._write(pairs, producer, guard)
        except KafkaError as error:
            on_committed(error)
            return
        if self.commits_at_once:
            on_committed(None)
        else:
            self._group_commit.wait((self.partition,), lambda failed: on_committed(self._failure(failed)))

    def append_at_once(self, pairs: KeyValues) -> None:
        """As `append`, where an append is a commit (`commits_at_once`). KafkaError: why the records do not count."""
        assert self.commits_at_once, "the disk has to be waited for"
        self.partition.append_own(pairs)

    def _write(self, pairs: KeyValues, producer: tuple[int, int], guard: VerificationGuard | None) -> None:
        if producer == NO_PRODUCER:
            self.partition.append_own(pairs)
        else:
            batch = build_key_values(pairs, self._clock.now_ms(), *producer)
            self.partition.append(memoryview(batch), ALL_IN_SYNC, is_own=True, guard=guard)

    def _failure(self, failed: frozenset[Partition]) -> KafkaError | None:
        if self.partition in failed:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk failed before the records were safe")
        return None

    async def load(self, decode: Decode[T], take: Callable[[T], None]) -> int:
        """`decode` each record in a thread, and `take` what it gives here, in order; how many were taken.

        `decode` gives nothing for what is to be passed over. KafkaError when the log cannot be read.
        """
        log = self.partition.log
        loop = asyncio.get_running_loop()
        offset, end_offset, count = log.log_start_offset, log.high_watermark, 0
        while offset < end_offset:
            piece = log.read(offset, self._load_buffer_bytes, end_offset)
            if piece is None:
                break
            taken, offset = await loop.run_in_executor(self._executor, partial(_decode_piece, piece, offset, decode))
            for each in taken:
                take(each)
            count += len(taken)
        return count


def _decode_piece(piece: LogSlice, offset: int, decode: Decode[T]) -> tuple[list[T], int]:
    """In a thread: what the records are from the offset on, and where the next piece begins."""
    data = piece.file.pread(piece.size, piece.position)
    if len(data) < piece.size:
        raise corrupt(f"{piece.file.path} is shorter than it was.")
    decoded: list[T] = []
    position, next_offset = 0, offset
    while position < len(data):
        header = check_batch(data, position, len(data))
        for record in iterate_records(data, position):
            if record.key is not None and record.offset >= offset:
                decoded += decode(record.key, record.value, header)
        position += header.size_bytes
        next_offset = header.next_offset
    return decoded, next_offset
