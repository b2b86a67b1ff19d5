"""What a log knows besides its records, made again from their headers: producers and leader epochs.

Used when a log is opened and after a truncation. A damaged segment is left out, and said so: what the rest shows
still counts.
"""

from __future__ import annotations

import logging

from penstock.errors import KafkaError
from penstock.log.epochs import LeaderEpochs
from penstock.log.producer_state import ProducerStateManager
from penstock.log.segments import Segments
from penstock.wire.records import NO_SEQUENCE, BatchHeader

_logger = logging.getLogger(__name__)


def replay_producers(segments: Segments, producers: ProducerStateManager, end_offset: int) -> None:
    """The newest snapshot at or below the end, and every batch since."""
    start_offset = producers.load(end_offset) or 0
    for segment in segments:
        if segment.end_offset <= start_offset:
            continue
        try:
            for _, header in segment.batches(segment.hint_for(start_offset)):
                if header.base_offset >= start_offset:
                    remember_producer(producers, header)
        except KafkaError as error:
            _logger.error("Producers are not known from the rest of a damaged segment: %s", error)


def remember_producer(producers: ProducerStateManager, header: BatchHeader) -> None:
    """A batch of an idempotent producer is in the log. Markers of transactions have no sequence and are left out."""
    if header.has_producer_id and header.base_sequence != NO_SEQUENCE and not header.is_control:
        producers.update(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        )


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
