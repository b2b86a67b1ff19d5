"""What a log remembers of its idempotent producers, so that a batch sent twice is written once.

For each producer id: its epoch, its last five batches (a client has at most five requests in flight), the epoch of the
transaction coordinator that last ended one of its transactions, and the first offset of the one that is open.

Rules, Kafka's: a producer that is not known may start at any sequence; a new epoch starts at 0; within an epoch each
batch follows the last, and 0 follows 2^31-1; a batch whose first and last sequence are those of one of the last five
is a duplicate, answered with the offsets it has; an older epoch is refused. `check` decides and changes nothing,
`update` is called once the batch is in the log, so a failed write leaves no trace here.

Snapshots, `<offset>.snapshot`, hold the state as of the records below that offset. Kafka's bytes, big endian: int16
version (1), uint32 CRC-32C of all that follows it, int32 number of entries, then for each producer

    int64 producer id   int16 epoch   int32 last sequence   int64 last offset   int32 offset delta   int64 timestamp
    int32 coordinator epoch   int64 first offset of the open transaction or -1

That is the last batch only, so after a restart from a snapshot with nothing to replay a retry of the last batch is
known as a duplicate, and a retry of one before it is out of order, which the client reports as an error: never a
second copy.

After a crash: a snapshot is whole or absent (written under a temporary name, synced, renamed). One that is cut, has the
wrong CRC or another version counts as absent and an older one is taken; the log replays its batches from there.

Expiry. Kafka drops a producer whose last batch carries a timestamp older than `producer.id.expiration.ms`, even one
that is writing old timestamps at this moment. Here a producer that wrote since the last `expire` was seen then, so it
stays. A producer whose transaction is open stays in any case.

Transactions. A transactional batch begins one where none is open for its producer, and only with a guard that shows
that the coordinator knows of it (verification.py). A marker ends it, and raises the producer's epoch to its own: the
batches of the epoch before are then refused, and the next begins at sequence 0. A marker of a coordinator that was
replaced (a smaller epoch of its own) is refused. From transaction version 2 on every transaction has a producer epoch
of its own, so a marker must be of a larger epoch than the last batch, or be the marker that is there, sent again.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Collection, Iterable

from penstock.env.files import Files
from penstock.errors import ErrorCode, KafkaError
from penstock.log.atomic_file import read_or_none, replace, write_atomically
from penstock.log.transaction_index import AbortedTransaction
from penstock.log.transactions import Transactions
from penstock.log.verification import ONGOING, VerificationGuard, Verifications
from penstock.wire.batch_builder import ControlType, EndTxnMarker
from penstock.wire.crc32c import crc32c

BATCHES_KEPT = 5
MAX_SEQUENCE = 2**31 - 1
NO_SEQUENCE = -1
NO_EPOCH = -1
NO_OFFSET = -1
MAX_EPOCH = 2**15 - 1
EPOCH_PER_TRANSACTION_SINCE = 2
"""The transaction version in which the coordinator raises the producer's epoch with each transaction (KIP-890)."""

SNAPSHOT_SUFFIX = ".snapshot"
SNAPSHOT_VERSION = 1

_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6

Batch = tuple[int, int, int, int, int]
"""(base sequence, last sequence, base offset, last offset, largest timestamp) of one batch in the log."""

NO_BATCH: Batch = (NO_SEQUENCE, NO_SEQUENCE, NO_OFFSET, NO_OFFSET, -1)

_logger = logging.getLogger(__name__)


class ProducerStateEntry:
    """One producer, as one log knows it."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "epoch",
        "last_sequence",
        "last_timestamp",
        "producer_id",
        "seen_ms",
        "seen_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_sequence = NO_SEQUENCE
        self.last_timestamp = -1
        self.batches: list[Batch] = []
        self.coordinator_epoch = NO_EPOCH
        self.current_txn_first_offset = NO_OFFSET
        self.seen_ms = -1  # by our own clock, when `expire` last found it had written
        self.seen_offset = NO_OFFSET

    @property
    def last_offset(self) -> int:
        return self.batches[-1][3] if self.batches else NO_OFFSET


class ProducerStateManager:
    """The producers of one log, and their snapshots in its directory."""

    __slots__ = ("_directory", "_files", "_producers", "snapshot_offsets", "transactions", "verifications")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._producers: dict[int, ProducerStateEntry] = {}
        self.transactions = Transactions()
        self.verifications = Verifications()
        self.snapshot_offsets: list[int] = []
        """The snapshots in the directory, ascending; known after `load`."""

    @property
    def entries(self) -> Collection[ProducerStateEntry]:
        return self._producers.values()

    def entry(self, producer_id: int) -> ProducerStateEntry | None:
        return self._producers.get(producer_id)

    def check(self, producer_id: int, epoch: int, base_sequence: int, record_count: int) -> tuple[int, int, int] | None:
        """None: append the batch. A tuple: it is there, as (base offset, last offset, timestamp). Else KafkaError."""
        entry = self._producers.get(producer_id)
        if entry is None:
            return None
        # The common case first. It is no duplicate: five batches never span all of the sequence numbers.
        if epoch == entry.epoch and base_sequence == entry.last_sequence + 1:
            return None
        return _check_unusual(entry, epoch, base_sequence, last_sequence(base_sequence, record_count))

    def update(
        self, producer_id: int, epoch: int, base_sequence: int, base_offset: int, last_offset: int, timestamp: int
    ) -> None:
        """Remember a batch that is in the log; replays and followers call it too, without `check`."""
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerStateEntry(producer_id, epoch)
        batches = entry.batches
        if entry.epoch != epoch:
            entry.epoch = epoch
            batches.clear()
        elif len(batches) == BATCHES_KEPT:
            del batches[0]
        last = base_sequence + last_offset - base_offset
        if last > MAX_SEQUENCE:
            last -= MAX_SEQUENCE + 1
        entry.last_sequence = last
        entry.last_timestamp = timestamp
        batches.append((base_sequence, last, base_offset, last_offset, timestamp))

    # Transactions.

    def start_verification(
        self, producer_id: int, epoch: int, sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """What an append of this batch will need; `ONGOING` when nobody has to be asked."""
        entry = self._producers.get(producer_id)
        if entry is not None:
            if epoch < entry.epoch:
                raise _old_epoch(entry, epoch)
            if epoch == entry.epoch and entry.current_txn_first_offset != NO_OFFSET:
                return ONGOING
        return self.verifications.start(producer_id, epoch, sequence, supports_epoch_bump)

    def check_transactional(
        self, producer_id: int, epoch: int, base_sequence: int, record_count: int, guard: VerificationGuard
    ) -> tuple[int, int, int] | None:
        """As `check`, for a batch that says it is in a transaction. Without a sequence it is the broker's own.

        Where the transaction is not open here, nothing may have ended it since the guard was made.
        """
        entry = self._producers.get(producer_id)
        if entry is None or epoch != entry.epoch or entry.current_txn_first_offset == NO_OFFSET:
            if entry is not None and epoch == entry.epoch:
                duplicate = _duplicate_of(entry, base_sequence, last_sequence(base_sequence, record_count))
                if duplicate is not None:
                    return duplicate
            if entry is not None and epoch < entry.epoch:
                raise _old_epoch(entry, epoch)
            self.verifications.check(producer_id, guard)
            is_unknown = entry is None or not entry.batches
            if base_sequence > (0 if guard.supports_epoch_bump and is_unknown else guard.lowest_sequence):
                raise _out_of_order(producer_id, epoch, base_sequence, "a batch before it is not in the log")
        return None if base_sequence == NO_SEQUENCE else self.check(producer_id, epoch, base_sequence, record_count)

    def check_no_transaction(self, producer_id: int) -> None:
        """A batch that is not transactional cannot be written while its producer has a transaction open."""
        if producer_id in self.transactions.ongoing:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {producer_id} has a transaction open here; this batch is not transactional.",
            )

    def on_transactional_batch(self, producer_id: int, first_offset: int) -> None:
        """A transactional batch is in the log, and `update` knows it."""
        self.verifications.end(producer_id)
        entry = self._producers[producer_id]
        if entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = first_offset
            self.transactions.begin(producer_id, first_offset)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int) -> None:
        """Whether a coordinator may write this marker: KafkaError for an old producer epoch or an old coordinator."""
        entry = self._producers.get(producer_id)
        if entry is None:
            return
        is_too_old = epoch < entry.epoch
        if transaction_version >= EPOCH_PER_TRANSACTION_SINCE and epoch == entry.epoch < MAX_EPOCH:
            # Where nothing is open it is the marker that ended it, sent again.
            is_too_old = entry.current_txn_first_offset != NO_OFFSET
        if is_too_old:
            raise _old_epoch(entry, epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"The marker is of coordinator epoch {coordinator_epoch}; {entry.coordinator_epoch} has written since.",
            )

    def on_marker(
        self, producer_id: int, epoch: int, marker: EndTxnMarker, offset: int, timestamp: int
    ) -> AbortedTransaction | None:
        """A marker is in the log. What it aborts, if anything: the segment's transaction index gets that."""
        self.verifications.end(producer_id)
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerStateEntry(producer_id, epoch)
        if entry.epoch != epoch:
            entry.epoch = epoch
            entry.batches.clear()
            entry.last_sequence = NO_SEQUENCE
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        first_offset, entry.current_txn_first_offset = entry.current_txn_first_offset, NO_OFFSET
        if first_offset == NO_OFFSET:  # an empty transaction: readers need not know of it
            return None
        if marker.control_type is ControlType.COMMIT:
            self.transactions.end(producer_id, offset)
            return None
        last_stable_offset = self.transactions.last_stable_offset_after(producer_id, offset)
        self.transactions.end(producer_id, offset)
        return AbortedTransaction(producer_id, first_offset, offset, last_stable_offset)

    # The rest.

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget the producers that have been idle for `producer.id.expiration.ms`, and say how many."""
        expired = []
        for entry in self._producers.values():
            if entry.last_offset != entry.seen_offset:
                entry.seen_offset = entry.last_offset
                entry.seen_ms = now_ms
            idle_ms = now_ms - max(entry.last_timestamp, entry.seen_ms)
            if idle_ms >= expiration_ms and entry.current_txn_first_offset == NO_OFFSET:
                expired.append(entry.producer_id)
        for producer_id in expired:
            del self._producers[producer_id]
        self.verifications.expire()
        return len(expired)

    def clear(self) -> None:
        """Forget every producer; the snapshots stay."""
        self._producers.clear()
        self.transactions.clear()
        self.verifications.clear()

    def load(self, end_offset: int) -> int | None:
        """Become the newest readable snapshot at or below the offset; replay the log from the offset it returns.

        None when there is no such snapshot: the state is empty, and the whole log is to be replayed.
        """
        self.clear()
        self.snapshot_offsets = self._list_snapshots()
        return self.add_missing(end_offset)

    def add_missing(self, end_offset: int) -> int | None:
        """As `load`, for producers that are not known: after a replay from an older snapshot than the newest, those
        whose batches are all gone."""
        offset, entries = self._newest_snapshot(end_offset)
        missing = [entry for entry in entries if entry.producer_id not in self._producers]
        self._producers |= {entry.producer_id: entry for entry in missing}
        first_offsets = {entry.producer_id: entry.current_txn_first_offset for entry in missing}
        self.transactions.add({each: first for each, first in first_offsets.items() if first != NO_OFFSET})
        return offset

    def _newest_snapshot(self, end_offset: int) -> tuple[int | None, list[ProducerStateEntry]]:
        """The newest that can be read at or below the offset; those that cannot are removed."""
        for offset in reversed(self.snapshot_offsets.copy()):
            if offset <= end_offset:
                entries = self.read_snapshot(offset)
                if entries is not None:
                    return offset, entries
                _logger.warning("%s cannot be read and is not used; the log is replayed instead", self._path(offset))
                self._delete([offset])
        return None, []

    def read_snapshot(self, offset: int) -> list[ProducerStateEntry] | None:
        """The producers as of the offset; None when there is no such snapshot, or it is damaged."""
        return decode_snapshot(read_or_none(self._files, self._path(offset)) or b"")

    def take_snapshot(self, offset: int, *, sync: bool = True) -> None:
        """Write the state, which is that of all records below the offset; on return it survives a crash.

        Without `sync` it may be cut by a crash, and then does not count: the caller syncs the file later, off its loop.
        """
        data = encode_snapshot(self._producers.values())
        if sync:
            write_atomically(self._files, self._path(offset), data)
        else:
            replace(self._files, self._path(offset), data)
        if offset not in self.snapshot_offsets:
            self.snapshot_offsets = sorted([*self.snapshot_offsets, offset])

    def sync_snapshot(self, offset: int) -> None:
        """Make a snapshot that was taken without `sync` survive a crash."""
        file = self._files.open(self._path(offset))
        file.sync()
        file.close()
        self._files.sync_dir(self._directory)

    def delete_snapshots_before(self, offset: int) -> None:
        self._delete([each for each in self.snapshot_offsets if each < offset])

    def delete_snapshots_after(self, offset: int) -> None:
        """Those above the offset, as when the log is truncated to it."""
        self._delete([each for each in self.snapshot_offsets if each > offset])

    def delete_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """All but those at a segment's start and the newest, which a clean stop wrote: no restart needs the others."""
        self._delete([each for each in self.snapshot_offsets[:-1] if each not in segment_base_offsets])

    def _delete(self, offsets: Collection[int]) -> None:
        for offset in offsets:
            self._files.unlink(self._path(offset))
            self.snapshot_offsets.remove(offset)
        if offsets:
            self._files.sync_dir(self._directory)

    def _list_snapshots(self) -> list[int]:
        stems = [os.path.splitext(name) for name in self._files.list(self._directory)]
        return sorted(int(stem) for stem, suffix in stems if suffix == SNAPSHOT_SUFFIX and stem.isdecimal())

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def last_sequence(base_sequence: int, record_count: int) -> int:
    """The sequence of a batch's last record; 0 follows the largest."""
    return (base_sequence + record_count - 1) & MAX_SEQUENCE


def _check_unusual(entry: ProducerStateEntry, epoch: int, base: int, last: int) -> tuple[int, int, int] | None:
    """Whatever is not simply the next batch of the same epoch."""
    if epoch < entry.epoch:
        raise _old_epoch(entry, epoch)
    if epoch > entry.epoch:
        if base != 0:
            raise _out_of_order(entry.producer_id, epoch, base, "a new epoch starts at 0")
        return None
    duplicate = _duplicate_of(entry, base, last)
    if duplicate is None and (base != 0 or entry.last_sequence != MAX_SEQUENCE):
        raise _out_of_order(entry.producer_id, epoch, base, f"the last one here is {entry.last_sequence}")
    return duplicate


def _duplicate_of(entry: ProducerStateEntry, base: int, last: int) -> tuple[int, int, int] | None:
    """Where the batch of the producer's epoch with these sequences is, if it is one of the last five."""
    for batch_base, batch_last, base_offset, last_offset, timestamp in entry.batches:
        if batch_base == base and batch_last == last:
            return base_offset, last_offset, timestamp
    return None


def _old_epoch(entry: ProducerStateEntry, epoch: int) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Producer {entry.producer_id} is at epoch {entry.epoch}; this is of epoch {epoch}.",
    )


def _out_of_order(producer_id: int, epoch: int, base: int, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Producer {producer_id} sent sequence {base} in epoch {epoch}, but {why}.",
    )


def encode_snapshot(entries: Collection[ProducerStateEntry]) -> bytes:
    """A snapshot file's bytes."""
    packed = b"".join([_encode_entry(entry) for entry in entries])
    count = len(entries).to_bytes(4, "big")
    return _HEADER.pack(SNAPSHOT_VERSION, crc32c(count + packed), len(entries)) + packed


def _encode_entry(entry: ProducerStateEntry) -> bytes:
    # A producer known by a transaction marker only has no batch, and Kafka writes it so.
    _, last, base_offset, last_offset, _ = entry.batches[-1] if entry.batches else NO_BATCH
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last,
        last_offset,
        last_offset - base_offset,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def decode_snapshot(data: bytes) -> list[ProducerStateEntry] | None:
    """The producers of a snapshot file; None when it is cut, damaged or of another version."""
    if len(data) < _HEADER.size:
        return None
    version, crc, count = _HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION or crc != crc32c(data[_CRC_END:]) or len(data) != _HEADER.size + count * _ENTRY.size:
        return None
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]


def _decode_entry(fields: Iterable[int]) -> ProducerStateEntry:
    producer_id, epoch, last, last_offset, offset_delta, timestamp, coordinator_epoch, txn_first_offset = fields
    entry = ProducerStateEntry(producer_id, epoch)
    entry.last_sequence = last
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.current_txn_first_offset = txn_first_offset
    if last_offset >= 0:
        base = (last - offset_delta) & MAX_SEQUENCE
        entry.batches.append((base, last, last_offset - offset_delta, last_offset, timestamp))
    return entry
