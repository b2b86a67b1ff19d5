"""One partition on this broker: its log, who leads it, and what of it is committed.

With one replica a message is committed as soon as it is in the log, or, when `penstock.durability` is `fsync`, as
soon as it is on disk. The high watermark, the last stable offset and the log end are read together as one `Offsets`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from penstock.broker.purgatory import Purgatory, Waiter
from penstock.errors import ErrorCode, KafkaError
from penstock.log.log import AppendResult, Log
from penstock.log.verification import VerificationGuard
from penstock.metadata.image import INTERNAL_TOPICS, PartitionImage
from penstock.wire.batch_builder import END_TXN_MARKER_BYTES, ControlType, EndTxnMarker
from penstock.wire.key_values import KeyValues

NO_EPOCH = -1
MAX_REMEMBERED_MARKERS = 64
"""Commit and abort of the coordinators' epochs, which hardly ever change."""


class Offsets(NamedTuple):
    """One consistent look at a partition."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int


class Partition:
    """A partition that this broker replicates."""

    __slots__ = (
        "_broker_id",
        "_min_insync_replicas",
        "_own_refusal",
        "_purgatory",
        "_refusal",
        "_visible_bytes",
        "bytes_in",
        "bytes_out",
        "is_disk_full",
        "is_leader",
        "isr_size",
        "leader_epoch",
        "log",
        "messages_in",
        "needs_sync",
        "state",
        "waiters",
    )

    def __init__(self, broker_id: int, log: Log, state: PartitionImage, purgatory: Purgatory, needs_sync: bool) -> None:
        self._broker_id = broker_id
        self._purgatory = purgatory
        self.log = log
        self.needs_sync = needs_sync
        """An append counts only after fdatasync: the high watermark is moved by `on_synced`."""
        self.waiters: set[Waiter] = set()
        self.messages_in = 0
        self.bytes_in = 0
        self._visible_bytes = 0
        """How much of `bytes_in` readers were told of; kept only where appends wait for the disk."""
        self.bytes_out = 0
        self.is_disk_full = False
        self.apply(state)
        self.on_config()

    def apply(self, state: PartitionImage) -> None:
        """Take over the state that the controller decided."""
        self.state = state
        self.is_leader = state.leader == self._broker_id
        self.isr_size = len(state.isr)
        self.leader_epoch = state.leader_epoch
        if self.is_leader:
            log = self.log
            log.advance_high_watermark(log.recovery_point if self.needs_sync else log.log_end_offset)
        self._decide_refusal()
        self._purgatory.on_change(self)

    def retire(self) -> None:
        """The topic is gone: nothing more is taken, and whoever waits learns so."""
        self.is_leader = False
        self._decide_refusal()
        self._purgatory.on_change(self)

    def set_disk_full(self, is_disk_full: bool) -> None:
        """Writes stop before the disk is really full, so that checkpoints and metadata can still be written."""
        self.is_disk_full = is_disk_full
        self._decide_refusal()

    def _decide_refusal(self) -> None:
        """Why appends are refused, decided when it changes, so that an append looks at one thing."""
        self._refusal: tuple[ErrorCode, str | None] | None = None
        if not self.is_leader:
            self._refusal = (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
        elif self.is_disk_full:
            self._refusal = (ErrorCode.KAFKA_STORAGE_ERROR, "the disk is nearly full (penstock.disk.reserve.bytes)")
        self._own_refusal = self._refusal
        if self.log.topic_partition.topic in INTERNAL_TOPICS and self.is_leader:
            self._refusal = (ErrorCode.INVALID_TOPIC_EXCEPTION, "only the broker itself writes to an internal topic")

    def on_config(self) -> None:
        """As in Kafka, no more in-sync replicas are asked for than the partition has."""
        self._min_insync_replicas = min(self.log.config.min_insync_replicas, len(self.state.replicas))

    def append(
        self, records: memoryview, acks: int, is_own: bool = False, guard: VerificationGuard | None = None
    ) -> AppendResult:
        """Append a producer's batch as leader. KafkaError says why not; nothing was written then.

        `is_own` is for what the broker writes to its internal topics, all of it with keys; `guard` for a batch of a
        transaction, from `start_verification`.
        """
        refusal = self._own_refusal if is_own else self._refusal
        if refusal is not None:
            raise KafkaError(*refusal)
        if acks == -1 and self.isr_size < self._min_insync_replicas:
            raise self._not_enough_replicas()
        log = self.log
        result = log.append_as_leader(records, self.leader_epoch, is_own, guard)
        base_offset, last_offset, _, _, is_duplicate = result
        if not is_duplicate:
            size = len(records)
            self.bytes_in += size
            self.messages_in += last_offset - base_offset + 1
            if not self.needs_sync:
                log.high_watermark = last_offset + 1
                if self.waiters:
                    self._purgatory.on_data(self, size)
        return result

    def append_own(self, pairs: KeyValues) -> None:
        """Append keys and values that the broker itself writes to an internal topic, as one batch, with acks all."""
        if self._own_refusal is not None:
            raise KafkaError(*self._own_refusal)
        if self.isr_size < self._min_insync_replicas:
            raise self._not_enough_replicas()
        log = self.log
        size = log.append_own(pairs, self.leader_epoch)
        self.bytes_in += size
        self.messages_in += len(pairs)
        if not self.needs_sync:
            log.high_watermark = log.log_end_offset
            if self.waiters:
                self._purgatory.on_data(self, size)

    def start_verification(
        self,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        supports_epoch_bump: bool,
        is_own: bool = False,
    ) -> VerificationGuard:
        """What an append of a transactional batch will need: `ONGOING`, or a guard and the coordinator's word for it.

        `supports_epoch_bump` says that the producer uses transaction version 2: Produce from version 12 on.
        """
        refusal = self._own_refusal if is_own else self._refusal
        if refusal is not None:
            raise KafkaError(*refusal)
        return self.log.start_verification(producer_id, producer_epoch, sequence, supports_epoch_bump)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int = 0,
    ) -> int:
        """Write the marker that ends the producer's transaction here; its offset.

        KafkaError, and nothing is written: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR,
        INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED. Where appends wait for the disk the caller waits too,
        with `GroupCommit.wait`: readers see what it ends only after that.
        """
        if self._own_refusal is not None:
            raise KafkaError(*self._own_refusal)
        if self.isr_size < self._min_insync_replicas:
            raise self._not_enough_replicas()
        log = self.log
        marker = _marker(committed, coordinator_epoch)
        offset = log.append_marker(producer_id, producer_epoch, marker, self.leader_epoch, transaction_version)
        self.messages_in += 1
        self.bytes_in += END_TXN_MARKER_BYTES
        if not self.needs_sync:
            log.advance_high_watermark(offset + 1)
            if self.waiters:
                self._purgatory.on_data(self, END_TXN_MARKER_BYTES)
        return offset

    def _not_enough_replicas(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self.isr_size} replicas are in sync and min.insync.replicas is {self._min_insync_replicas}",
        )

    def on_synced(self, end_offset: int, bytes_in: int) -> None:
        """Everything before `end_offset` is on disk; when the sync began, so many bytes had come in."""
        if end_offset > self.log.high_watermark:
            self.log.advance_high_watermark(end_offset)
            if self.waiters:
                self._purgatory.on_data(self, bytes_in - self._visible_bytes)
        self._visible_bytes = bytes_in

    def check_leader(self, current_leader_epoch: int) -> None:
        """Raise unless this broker leads in the epoch that the client believes in (-1: it does not say). KIP-320."""
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            is_old = current_leader_epoch < self.leader_epoch
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch at or below the asked one, and where it ends. The log learns of a new epoch with its first
        batch, so that a start does not write to every partition; until then the epoch is empty and ends with the log.
        """
        if leader_epoch == self.leader_epoch:
            return leader_epoch, self.log.log_end_offset
        return self.log.epoch_end_offset(leader_epoch)

    def offsets(self) -> Offsets:
        log = self.log
        return Offsets(log.log_start_offset, log.high_watermark, log.last_stable_offset, log.log_end_offset)

    def delete_records(self, before_offset: int) -> int:
        """Move the log's start up to `before_offset` (-1: the high watermark). The new log start offset."""
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if "delete" not in self.log.config.cleanup_policy:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "records can only be deleted where cleanup.policy includes delete"
            )
        offset = self.log.high_watermark if before_offset == -1 else before_offset
        if not 0 <= offset <= self.log.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is beyond the high watermark {self.log.high_watermark}"
            )
        return self.log.delete_records(offset)


@lru_cache(maxsize=MAX_REMEMBERED_MARKERS)
def _marker(committed: bool, coordinator_epoch: int) -> EndTxnMarker:
    return EndTxnMarker(ControlType.COMMIT if committed else ControlType.ABORT, coordinator_epoch)
