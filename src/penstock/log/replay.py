"""What a log knows besides its records, made again from them: producers, transactions and leader epochs.

Used when a log is opened and after a truncation. Headers are enough, but for the markers that end transactions: those
are read. A damaged segment is left out, and said so: what the rest shows still counts.
"""

from __future__ import annotations

import logging

from penstock.errors import KafkaError
from penstock.log.epochs import LeaderEpochs
from penstock.log.producer_state import ProducerStateManager
from penstock.log.segment import Segment
from penstock.log.segments import Segments
from penstock.log.transaction_index import AbortedTransaction
from penstock.types import Bytes
from penstock.wire.batch_builder import read_end_txn_marker
from penstock.wire.record import iterate_records
from penstock.wire.records import NO_SEQUENCE, BatchHeader, corrupt

_logger = logging.getLogger(__name__)


def replay_producers(
    segments: Segments, producers: ProducerStateManager, end_offset: int, reindex_from: int | None = None
) -> None:
    """The newest snapshot at or below the end, and every batch since.

    With `reindex_from`, a segment's base offset, the transaction indexes of that segment and those after it are made
    anew: then the snapshot is one at or below that offset, and newer ones add what they alone know.
    """
    start_offset = producers.load(end_offset if reindex_from is None else min(end_offset, reindex_from)) or 0
    for segment in segments:
        if segment.end_offset > start_offset:
            aborted = _replay_segment(segment, producers, start_offset)
            if reindex_from is not None and segment.base_offset >= reindex_from:
                segment.replace_aborted(aborted)
    if reindex_from is not None:
        producers.add_missing(end_offset)


def _replay_segment(segment: Segment, producers: ProducerStateManager, start_offset: int) -> list[AbortedTransaction]:
    """The batches from the offset on; which transactions their markers abort."""
    aborted: list[AbortedTransaction] = []
    try:
        for position, header in segment.batches(segment.hint_for(start_offset)):
            if header.base_offset < start_offset:
                continue
            if header.is_control:
                found = remember_marker(producers, header, segment.file.pread(header.size_bytes, position))
                aborted += [found] if found is not None else []
            else:
                remember_producer(producers, header)
    except KafkaError as error:
        _logger.error("Producers are not known from the rest of a damaged segment: %s", error)
    return aborted


def remember_producer(producers: ProducerStateManager, header: BatchHeader) -> None:
    """A batch of data is in the log, maybe of an idempotent producer."""
    if header.has_producer_id and header.base_sequence != NO_SEQUENCE:
        producers.update(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        )
        if header.is_transactional:
            producers.on_transactional_batch(header.producer_id, header.base_offset)


def remember_marker(producers: ProducerStateManager, header: BatchHeader, data: Bytes) -> AbortedTransaction | None:
    """A control batch is in the log: what it aborts, if it is a marker that does. One without records was cleaned."""
    if len(data) < header.size_bytes:
        raise corrupt(f"The control batch at offset {header.base_offset} is cut.")
    record = next(iterate_records(data), None)
    marker = read_end_txn_marker(record) if record is not None else None
    if record is None or marker is None or not header.has_producer_id:
        return None
    return producers.on_marker(header.producer_id, header.producer_epoch, marker, record.offset, record.timestamp)


def rebuild_epochs(segments: Segments, epochs: LeaderEpochs) -> None:
    """The epochs that the batches themselves show."""
    entries: list[tuple[int, int]] = []
    for segment in segments:
        try:
            for _, header in segment.batches():
                if header.partition_leader_epoch > (entries[-1][0] if entries else -1):
                    entries.append((header.partition_leader_epoch, header.base_offset))
        except KafkaError as error:
            _logger.error("Leader epochs are not known from the rest of a damaged segment: %s", error)
    if entries or epochs.entries:  # a new log has nothing to write down
        epochs.replace(entries)
