"""A partition's log: batches with offsets, in segments, in a directory of their own. One writer, no threads, no loop.

    <topic>-<partition>/
        00000000000000000000.log .index .timeindex     segments (segment.py), with .txnindex where aborts are
        00000000000000009948.snapshot                  producers as of that offset (producer_state.py)
        leader-epoch-checkpoint                        where each leader's records begin (epochs.py)
        partition.metadata                             the topic's id (partition_metadata.py)

Offsets: `log_start_offset` <= `high_watermark` <= `log_end_offset`; `recovery_point` <= `log_end_offset` is where
unsynced bytes begin. An append counts once its one `pwrite` is whole: then the end moves, producers and indexes
follow. The leader stamps offset and epoch into the caller's buffer and decodes nothing.

Transactions. Batches of a transaction are in the log like any others; a marker, a batch of its own, ends it. What comes
before the first that has not ended, or whose marker is not below the high watermark, is below `last_stable_offset`;
`aborted_transactions` says which producers' batches a reader has to leave out.

Failures. A write that does not fit (short, ENOSPC) is cut off again and is a retriable StorageError; reads go on. Any
other failed write, and every failed sync, fences the log for good: the kernel may have dropped bytes that we believe
written, so no later append is taken until a restart has scanned the files.

After a crash `load_log` checks whatever was beyond the recovery point (loader.py, recovery.py). Syncing is the
caller's to time: `files_to_sync` and `on_synced` let a thread do it; `flush` does it here. Not done here: compaction,
waiting, replication, asking whether a transaction is open (the caller brings a guard, verification.py).
"""

from __future__ import annotations

import errno
import logging
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from penstock.env.clock import Clock
from penstock.env.files import Files
from penstock.errors import ErrorCode, KafkaError, StorageError
from penstock.log.config import LogConfig
from penstock.log.epochs import LeaderEpochs
from penstock.log.producer_state import ProducerStateManager
from penstock.log.reader import LogReader, LogSlice, TimestampOffset
from penstock.log.recovery import Corruption
from penstock.log.replay import remember_marker, remember_producer, replay_producers
from penstock.log.retention import expired_segment_count
from penstock.log.segment import Segment
from penstock.log.segments import Segments
from penstock.log.syncing import Durability, Syncable
from penstock.log.transaction_index import AbortedTransaction
from penstock.log.validate import followed_batches, needs_preparation, prepare_or_raise
from penstock.log.verification import VerificationGuard
from penstock.types import Bytes, TopicPartition
from penstock.wire.batch_builder import END_TXN_MARKER_BYTES, ControlType, EndTxnMarker, build_end_txn_marker
from penstock.wire.crc32c import crc32c
from penstock.wire.key_values import KeyValues, build_key_values
from penstock.wire.records import (
    ATTRIBUTES_AT,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    set_log_append_time,
)

OFFSET_LENGTH_EPOCH = struct.Struct(">qii")
"""The first 16 bytes of a batch; the leader writes them all, the length as it was."""

NO_HEADER = (-1,) * 13
"""Stands for bytes that are too few to hold a header."""

PLAIN_ATTRIBUTES = frozenset(codec.value for codec in Codec)
"""A codec and nothing else: no control, transactional or timestamp bits."""

TRANSACTIONAL_ATTRIBUTES = frozenset(codec.value | TRANSACTIONAL_BIT for codec in Codec)
"""The same in a transaction."""

WritableBytes = memoryview | bytearray

RETRIABLE_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE))
"""Failures after which the file can be put right; the same append may succeed later."""

_logger = logging.getLogger(__name__)

_new = tuple.__new__
"""Makes an AppendResult in a third of the time that calling it takes."""


class AppendResult(NamedTuple):
    """Where a batch is: its first offset and its last. For a duplicate, where the original is."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool


class Log:
    """One partition's log, open for appends and reads. Made by `load_log`."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        segments: Segments,
        epochs: LeaderEpochs,
        producers: ProducerStateManager,
        recovery_point: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.epochs = epochs
        self.producers = producers
        self.segments = segments
        self.corruptions: list[Corruption] = []
        self.is_fenced = False
        self.log_start_offset = segments.first.base_offset
        self.log_end_offset = segments.active.end_offset
        self.high_watermark = self.log_start_offset
        self.last_flush_ms = clock.now_ms()
        self.on_fenced: Callable[[Log, OSError], None] = lambda log, error: None
        self.before_truncate: Callable[[Log], None] = lambda log: None
        self._files = files
        self._clock = clock
        self._reader = LogReader(segments)
        self._transactions = producers.transactions
        self._newest_ms = 0
        """A timestamp up to this was not too far ahead when we looked last, so it is not now: no need for a clock."""
        self._durability = Durability(files, directory, recovery_point, segments.active.base_offset)
        self._closed_size_bytes = segments.closed_size_bytes
        self.update_config(config)

    @property
    def size_bytes(self) -> int:
        return self._closed_size_bytes + self.segments.active.size

    @property
    def recovery_point(self) -> int:
        """Everything below is synced."""
        return self._durability.recovery_point

    @property
    def checkpoint_offset(self) -> int:
        """The recovery point as it may be written down: no segment below needs a scan after a crash, indexes included.

        So it never points into the active segment, whose indexes are written when it is closed.
        """
        active = self.segments.active
        synced = self._durability.checkpoint_offset
        return min(synced, active.base_offset) if active.is_active else synced

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self._is_log_append_time = config.log_append_time
        self._needs_preparation = needs_preparation(config)
        self._own_needs_preparation = needs_preparation(config, is_own=True)
        self._max_batch_bytes = min(config.max_message_bytes, config.segment_bytes)
        self._segment_bytes = config.segment_bytes
        self._newest_ms = self._clock.now_ms() + config.message_timestamp_after_max_ms
        self._roll_timestamp = NO_TIMESTAMP

    # Appending.

    def append_as_leader(
        self, records: WritableBytes, leader_epoch: int, is_own: bool = False, guard: VerificationGuard | None = None
    ) -> AppendResult:
        """Take one batch of a producer: check it, stamp it in place, write it. Nothing has changed when this raises.

        What the broker writes itself (`is_own`) has keys, and no sequence. A transactional batch needs a `guard`.
        """
        if self.is_fenced:
            raise self._fenced_error()
        size = len(records)
        try:
            fields = HEADER.unpack_from(records)
        except struct.error:
            fields = NO_HEADER
        (offset, length, _, magic, crc, attributes, last_delta, _, max_timestamp,
         producer_id, producer_epoch, sequence, count) = fields  # fmt: skip
        append_time_ms = NO_TIMESTAMP
        if (
            offset
            or (self._own_needs_preparation if is_own else self._needs_preparation)
            or length != size - LOG_OVERHEAD
            or magic != MAGIC
            or attributes not in (PLAIN_ATTRIBUTES if guard is None else TRANSACTIONAL_ATTRIBUTES)
            or not 0 < count == last_delta + 1
            or size > self._max_batch_bytes
            or (producer_id >= 0 and sequence < 0)
            or max_timestamp > self._newest_ms
            or crc32c(records[ATTRIBUTES_AT:]) != crc
        ):
            # Something is unusual: all of it is looked at again, slowly, and refused with the right error.
            now_ms = self._clock.now_ms()
            self._newest_ms = now_ms + self.config.message_timestamp_after_max_ms
            records = prepare_or_raise(records, self.config, now_ms, guard is not None)
            append_time_ms = now_ms if self.config.log_append_time else NO_TIMESTAMP
            size = len(records)
            (_, length, _, _, _, attributes, last_delta, _, max_timestamp,
             producer_id, producer_epoch, sequence, count) = HEADER.unpack_from(records)  # fmt: skip
        if producer_id >= 0:
            if guard is not None and attributes & TRANSACTIONAL_BIT:
                first = NO_SEQUENCE if is_own else sequence
                duplicate = self.producers.check_transactional(producer_id, producer_epoch, first, count, guard)
            else:
                duplicate = self.producers.check(producer_id, producer_epoch, sequence, count)
                if self._transactions.ongoing and duplicate is None:
                    self.producers.check_no_transaction(producer_id)
            if duplicate is not None:
                return self._duplicate(*duplicate)
        if leader_epoch != self.epochs.latest_epoch:
            self.assign_leader_epoch(leader_epoch)
        segment, offset = self.segments.active, self.log_end_offset
        last_offset = offset + last_delta
        if (
            segment.size + size > self._segment_bytes
            or max_timestamp >= self._roll_timestamp
            or segment.is_full
            or last_offset > segment.max_offset
        ):
            segment = self._segment_for(size, last_offset, max_timestamp, self._clock.now_ms())
        OFFSET_LENGTH_EPOCH.pack_into(records, 0, offset, length, leader_epoch)
        try:
            segment.append(records, size, last_offset, max_timestamp)
        except OSError as error:
            OFFSET_LENGTH_EPOCH.pack_into(records, 0, 0, length, leader_epoch)  # the caller may offer it again
            raise self._on_append_failed(segment, error) from error
        self.log_end_offset = last_offset + 1
        if producer_id >= 0:
            self.producers.update(producer_id, producer_epoch, sequence, offset, last_offset, max_timestamp)
            if attributes & TRANSACTIONAL_BIT:
                self.producers.on_transactional_batch(producer_id, offset)
        return _new(AppendResult, (offset, last_offset, append_time_ms, self.log_start_offset, False))

    def _duplicate(self, base_offset: int, last_offset: int, timestamp: int) -> AppendResult:
        append_time_ms = timestamp if self.config.log_append_time else NO_TIMESTAMP
        return AppendResult(base_offset, last_offset, append_time_ms, self.log_start_offset, True)

    def start_verification(
        self, producer_id: int, producer_epoch: int, sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """What an append of the transactional batch will need. `ONGOING`: its transaction is known here. Any other:
        ask the coordinator first, then append with it. INVALID_PRODUCER_EPOCH for a producer that was replaced."""
        return self.producers.start_verification(producer_id, producer_epoch, sequence, supports_epoch_bump)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        marker: EndTxnMarker,
        leader_epoch: int,
        transaction_version: int = 0,
    ) -> int:
        """End the producer's transaction; the marker's offset. It is written where nothing is open too, as in Kafka."""
        if self.is_fenced:
            raise self._fenced_error()
        self.producers.check_marker(producer_id, producer_epoch, marker.coordinator_epoch, transaction_version)
        if leader_epoch != self.epochs.latest_epoch:
            self.assign_leader_epoch(leader_epoch)
        now_ms, offset = self._clock.now_ms(), self.log_end_offset
        batch = build_end_txn_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms, base_offset=offset,
            leader_epoch=leader_epoch,
        )  # fmt: skip
        if self._is_log_append_time:
            set_log_append_time(batch, 0, now_ms)
        if marker.control_type is ControlType.ABORT:
            self._recall_aborted(self._segment_for(END_TXN_MARKER_BYTES, offset, now_ms, now_ms))
        segment = self._append_own(batch, END_TXN_MARKER_BYTES, offset, now_ms)
        aborted = self.producers.on_marker(producer_id, producer_epoch, marker, offset, now_ms)
        if aborted is not None:
            segment.add_aborted(aborted)
        return offset

    def append_own(self, pairs: KeyValues, leader_epoch: int) -> int:
        """Take a batch of keys and values that the broker itself writes to an internal topic; its size.

        It is built with the offsets that it gets, so that nothing in it has to be checked or stamped afterwards.
        """
        if self.is_fenced:
            raise self._fenced_error()
        now_ms, offset = self._clock.now_ms(), self.log_end_offset
        batch = build_key_values(pairs, now_ms, base_offset=offset, leader_epoch=leader_epoch)
        size, last_offset = len(batch), offset + len(pairs) - 1
        if self._own_needs_preparation or size > self._max_batch_bytes:
            self.append_as_leader(build_key_values(pairs, now_ms), leader_epoch, is_own=True)
            return size
        if leader_epoch != self.epochs.latest_epoch:
            self.assign_leader_epoch(leader_epoch)
        self._append_own(batch, size, last_offset, now_ms)
        return size

    def _append_own(self, batch: bytearray, size: int, last_offset: int, timestamp: int) -> Segment:
        """Write a batch that was built here, with its offsets. The segment that it is in."""
        segment = self.segments.active
        if (
            segment.size + size > self._segment_bytes
            or timestamp >= self._roll_timestamp
            or segment.is_full
            or last_offset > segment.max_offset
        ):
            segment = self._segment_for(size, last_offset, timestamp, timestamp)
        try:
            segment.append(batch, size, last_offset, timestamp)
        except OSError as error:
            raise self._on_append_failed(segment, error) from error
        self.log_end_offset = last_offset + 1
        return segment

    def _recall_aborted(self, segment: Segment) -> None:
        """The index is read, if it has to be, before an abort is written: after that nothing may fail."""
        with self._reading():
            _ = segment.transaction_index

    def append_as_follower(self, records: Bytes) -> AppendResult:
        """Take what the leader sent, offsets and epochs as they are; a cut batch at the end is left out."""
        if self.is_fenced:
            raise self._fenced_error()
        batches = followed_batches(records, self.log_end_offset, self.epochs.latest_epoch, self.config.compacts)
        base_offset = self.log_end_offset
        if not batches:
            return AppendResult(base_offset, base_offset - 1, NO_TIMESTAMP, self.log_start_offset, False)
        whole = memoryview(records)
        total = batches[-1][0] + batches[-1][1].size_bytes
        groups = [batches] if total <= self.config.segment_bytes else [[batch] for batch in batches]
        for group in groups:
            start, (last_position, last) = group[0][0], group[-1]
            size = last_position + last.size_bytes - start
            max_timestamp = max(header.max_timestamp for _, header in group)
            segment = self._segment_for(size, last.last_offset, max_timestamp, self._clock.now_ms())
            for _, header in group:
                self._note_epoch(header.partition_leader_epoch, header.base_offset)
                if header.is_control:
                    self._recall_aborted(segment)
            try:
                segment.append_all(whole[start : start + size], [header for _, header in group])
            except OSError as error:
                raise self._on_append_failed(segment, error) from error
            self.log_end_offset = last.next_offset
            for position, header in group:
                self._remember(segment, header, whole[position : position + header.size_bytes])
        return AppendResult(
            batches[0][1].base_offset, self.log_end_offset - 1, NO_TIMESTAMP, self.log_start_offset, False
        )

    def _remember(self, segment: Segment, header: BatchHeader, data: memoryview) -> None:
        """A batch of the leader is in the log."""
        if not header.is_control:
            remember_producer(self.producers, header)
            return
        aborted = remember_marker(self.producers, header, data)
        if aborted is not None:
            segment.add_aborted(aborted)

    def assign_leader_epoch(self, epoch: int) -> None:
        """From the log's end on, records are of this leader's epoch; durable before the first of them."""
        if epoch < self.epochs.latest_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"{self.topic_partition} is at leader epoch {self.epochs.latest_epoch}, not {epoch}.",
            )
        self._note_epoch(epoch, self.log_end_offset)

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        if epoch > self.epochs.latest_epoch:
            with self._storage("write the leader epochs of"):
                self.epochs.assign(epoch, start_offset)

    def _segment_for(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> Segment:
        """The active segment, after a roll when these bytes do not fit or its time is over."""
        segment = self.segments.active
        if segment.size == 0:
            return segment
        first = segment.first_timestamp
        roll_ms = self._roll_ms(segment)
        if first is not None and first >= 0:
            self._roll_timestamp = first + roll_ms + 1
            is_due = max_timestamp >= self._roll_timestamp
        else:
            is_due = now_ms - segment.created_ms > roll_ms
        if is_due or segment.is_full or last_offset > segment.max_offset or segment.size + size > self._segment_bytes:
            self.roll()
        return self.segments.active

    def _roll_ms(self, segment: Segment) -> int:
        """segment.ms less the jitter, which is by name and offset, so that partitions do not roll at once."""
        jitter_ms = self.config.segment_jitter_ms
        if not jitter_ms:
            return self.config.segment_ms
        spread = crc32c(f"{self.topic_partition} {segment.base_offset}".encode())
        return self.config.segment_ms - spread % (min(jitter_ms, self.config.segment_ms) + 1)

    def _on_append_failed(self, segment: Segment, error: OSError) -> StorageError:
        """The batch may be in the file in part. Cut it off; when that fails too, or the disk is bad, fence the log."""
        if error.errno not in RETRIABLE_ERRNOS:
            return self.fence(error, "write to")
        try:
            segment.cut_back()
        except OSError as cut_error:
            return self.fence(cut_error, "cut a failed write off")
        return StorageError(f"{self.topic_partition}: the batch could not be written: {error.strerror or error}.")

    # Failures.

    def fence(self, error: OSError, doing: str = "sync") -> StorageError:
        """No more appends, for good: also called when a sync in a thread failed. Reads go on."""
        if not self.is_fenced:
            self.is_fenced = True
            _logger.error("%s is fenced: could not %s it: %s", self.directory, doing, error)
            self.on_fenced(self, error)
        return self._fenced_error()

    def _fenced_error(self) -> StorageError:
        return StorageError(f"{self.topic_partition} takes no writes since its disk failed; the broker's log says why.")

    @contextmanager
    def _storage(self, doing: str, may_retry: bool = True) -> Iterator[None]:
        """An OSError inside becomes a StorageError; one that cannot be put right fences the log."""
        if self.is_fenced:
            raise self._fenced_error()
        try:
            yield
        except OSError as error:
            if may_retry and error.errno in RETRIABLE_ERRNOS:
                raise StorageError(f"{self.topic_partition}: {doing} it failed: {error.strerror or error}.") from error
            raise self.fence(error, doing) from error

    # Reading.

    def read(self, offset: int, max_bytes: int, end_offset: int, minimum_one: bool = True) -> LogSlice | None:
        """Whole batches from the offset on that begin before `end_offset`; None at the end, or when none fits."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} has offsets {self.log_start_offset} to {self.log_end_offset}, not {offset}.",
            )
        if offset >= end_offset or offset == self.log_end_offset:
            return None
        try:
            return self._reader.read(offset, max_bytes, end_offset, minimum_one)
        except OSError as error:
            raise self._read_error(error) from error

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed data end: before the first open transaction, at most at the high watermark."""
        first_unstable = self._transactions.first_unstable_offset
        high_watermark = self.high_watermark
        return high_watermark if first_unstable >= high_watermark else max(first_unstable, self.log_start_offset)

    @property
    def is_unstable(self) -> bool:
        """A transaction is open, or its end is not safe yet, below the high watermark."""
        return self._transactions.first_unstable_offset < self.high_watermark

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that have batches from the offset up to the end; the order is that of markers."""
        with self._reading():
            return self.segments.aborted_between(offset, end_offset)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record at or after the time, in offset order; the one batch that holds it is decoded."""
        with self._reading():
            return self._reader.offset_for_timestamp(timestamp_ms, self.log_start_offset)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record with the largest timestamp."""
        with self._reading():
            return self._reader.max_timestamp_offset(self.log_start_offset)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch at or below the asked one, and where it ends; (-1, -1) when that is not known."""
        return self.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._read_error(error) from error

    def _read_error(self, error: OSError) -> StorageError:
        return StorageError(f"{self.topic_partition} could not be read: {error.strerror or error}.")

    # Syncing.

    def files_to_sync(self) -> tuple[list[Syncable], int]:
        """What to sync, in this order, so that the log is durable up to the offset.

        They touch no state of the log, so a thread may sync them. Then call `on_synced` with the offset, or `fence`.
        """
        return self._durability.start(self.segments, self.log_end_offset), self.log_end_offset

    def on_synced(self, up_to: int) -> None:
        """All below the offset is durable, but for what was truncated while the sync ran."""
        self.last_flush_ms = self._clock.now_ms()
        self._durability.finish(up_to)

    def flush(self, up_to: int | None = None) -> None:
        """Sync here and now, unless the log is durable up to the offset already."""
        if self.recovery_point >= (self.log_end_offset if up_to is None else up_to):
            return
        syncables, end_offset = self.files_to_sync()
        with self._storage("sync", may_retry=False):
            for syncable in syncables:
                syncable.sync()
        self.on_synced(end_offset)

    # Segments come and go.

    def roll(self) -> None:
        """Close the active segment and begin a new one at the log's end; nothing happens when it is empty."""
        closed = self.segments.active
        if closed.size == 0:
            return
        with self._storage("roll"):
            closed.write_indexes()
            self.producers.take_snapshot(self.log_end_offset, sync=False)  # synced with the closed segment
            self.segments.create(self.log_end_offset, self.config, self._clock.now_ms())
        closed.deactivate()
        self._durability.on_closed(closed)
        self._durability.on_created(self.log_end_offset)
        self._on_segments_changed()

    def maybe_roll_by_time(self, now_ms: int) -> None:
        """segment.ms counts without appends too: a quiet topic's last records can then be compacted or deleted."""
        segment = self.segments.active
        if segment.size:
            first = segment.first_timestamp
            since_ms = first if first is not None and first >= 0 else segment.created_ms
            if now_ms - since_ms > self._roll_ms(segment):
                self.roll()

    def enforce_retention(self, now_ms: int) -> int:
        """Delete the segments that need not be kept any more, the active one too; how many."""
        with self._reading():
            count = expired_segment_count(
                list(self.segments), self.config, now_ms, self.log_start_offset, self.high_watermark
            )
        self._delete_first(count)
        return count

    def delete_records(self, before_offset: int) -> int:
        """Records before the offset are gone: whole segments at once, the rest when its segment goes. The new start."""
        if before_offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} has no committed records before {before_offset} (it ends at "
                f"{self.high_watermark}).",
            )
        if before_offset > self.log_start_offset:
            self.log_start_offset = before_offset
            gone = sum(segment.size > 0 and segment.end_offset <= before_offset for segment in self.segments)
            self._delete_first(gone)
        return self.log_start_offset

    def _delete_first(self, count: int) -> None:
        if not count:
            return
        if count == len(self.segments):
            self.roll()
        first_offset = self.segments[count].base_offset
        self.log_start_offset = max(self.log_start_offset, first_offset)  # first: a failure half way must not show
        self._reader.forget_ends()
        with self._storage("delete segments of", may_retry=False):
            self._keep_producers(first_offset)
            for _ in range(count):
                self.segments.delete(0, self._clock.now_ms() + self.config.file_delete_delay_ms)
            self._on_segments_changed()
            self.epochs.truncate_from_start(self.log_start_offset)
            self.producers.delete_snapshots_before(first_offset)

    def _keep_producers(self, first_offset: int) -> None:
        """Before batches go, a durable snapshot of the producers that can only be known from them."""
        if not self.producers.entries:
            return
        if self.producers.read_snapshot(first_offset) is not None:
            self.producers.sync_snapshot(first_offset)
        else:
            self.flush()  # a crash that loses records below a snapshot makes it useless
            self.producers.take_snapshot(self.log_end_offset)

    def truncate_to(self, offset: int) -> None:
        """Forget everything at or above the offset; a batch that holds it goes whole."""
        if offset >= self.log_end_offset:
            return
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
            return
        self._lower_recovery_point(offset)
        self._end_at(offset)  # first: a failure half way must not show
        with self._storage("truncate", may_retry=False):
            while self.segments[-1].base_offset > offset:
                self.segments.delete(-1, self._clock.now_ms() + self.config.file_delete_delay_ms)
            self.segments.reactivate_last()
            self.segments.active.truncate_to(offset)
            self._end_at(self.segments.active.end_offset)
            self.epochs.truncate_from_end(self.log_end_offset)
            self.producers.delete_snapshots_after(self.log_end_offset)
            replay_producers(self.segments, self.producers, self.log_end_offset)
            self._transactions.on_high_watermark(self.high_watermark)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything and go on at the offset: start, end, high watermark, epochs and producers together."""
        self._lower_recovery_point(0)
        with self._storage("truncate", may_retry=False):
            while len(self.segments):
                self.segments.delete(-1, self._clock.now_ms() + self.config.file_delete_delay_ms)
            self.segments.create(offset, self.config, self._clock.now_ms())
            self._durability.on_created(offset)
            self.log_start_offset = self.high_watermark = offset
            self._end_at(offset)
            self.epochs.clear()
            self.producers.clear()
            self.producers.delete_snapshots_after(-1)

    def _lower_recovery_point(self, offset: int) -> None:
        """Made durable first: were the old one still on the disk, a crash would leave new bytes below it unchecked."""
        self._durability.on_truncated(offset)
        with self._storage("checkpoint", may_retry=False):
            self.before_truncate(self)

    def _end_at(self, end_offset: int) -> None:
        self.log_end_offset = end_offset
        self._durability.on_truncated(end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self._on_segments_changed()

    def _on_segments_changed(self) -> None:
        self._closed_size_bytes = self.segments.closed_size_bytes
        self._durability.keep_only(self.segments)
        self._roll_timestamp = NO_TIMESTAMP
        self._reader.forget_ends()

    # The rest.

    def advance_high_watermark(self, offset: int) -> None:
        """It never goes back, except by truncation, and never beyond the log's end."""
        if offset > self.high_watermark:
            self.high_watermark = min(offset, self.log_end_offset)
            if self._transactions.unreplicated:
                self._transactions.on_high_watermark(self.high_watermark)

    def expire_producers(self, now_ms: int) -> int:
        return self.producers.expire(now_ms, self.config.producer_id_expiration_ms)

    def sweep_deleted(self, now_ms: int) -> int:
        """Remove the files of segments that were deleted long enough ago; a thread may do it."""
        return self.segments.sweep_deleted(now_ms)

    def is_flush_due(self, now_ms: int) -> bool:
        """By flush.messages, by flush.ms, or because a segment was closed, which Kafka syncs in any case."""
        unflushed = self.log_end_offset - self.recovery_point
        is_due = unflushed >= self.config.flush_messages or now_ms - self.last_flush_ms >= self.config.flush_ms
        return self._durability.has_closed_segments or (unflushed > 0 and is_due)

    def close(self) -> None:
        """Flush, and write what makes the next start quick. Files in slices stay open as long as the slices do."""
        if not self.is_fenced:
            active = self.segments.active
            with self._storage("close", may_retry=False):
                active.deactivate()
                self._durability.on_closed(active)
                for syncable in self._durability.start(self.segments, self.log_end_offset):
                    syncable.sync()
                self._durability.finish(self.log_end_offset)
                self.producers.take_snapshot(self.log_end_offset)
                self.producers.delete_stray_snapshots(self.segments.base_offsets)
        for segment in self.segments:
            segment.forget_files()
