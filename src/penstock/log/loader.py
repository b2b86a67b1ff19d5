"""From a partition's directory to an open log: segments, epochs and producers, in agreement with each other.

The order matters. Epochs are read first, for the scan checks batches against them. Segments come next and decide
where the log ends. Then the epochs and the producers are cut to that end, or made again from the batches where their
own files cannot be trusted: the records are the truth, all else follows.
"""

from __future__ import annotations

import logging

from penstock.env.clock import Clock
from penstock.env.files import Files
from penstock.log.config import LogConfig
from penstock.log.epochs import LeaderEpochs
from penstock.log.index_file import CorruptIndexError
from penstock.log.log import Log
from penstock.log.open_segments import OpenSegments
from penstock.log.producer_state import ProducerStateManager
from penstock.log.recovery import load_segments
from penstock.log.replay import rebuild_epochs, replay_producers
from penstock.log.segments import Segments
from penstock.log.transaction_index import TRANSACTION_INDEX_SUFFIX, check_sane
from penstock.types import TopicPartition

_logger = logging.getLogger(__name__)


def load_log(
    files: Files,
    clock: Clock,
    open_segments: OpenSegments,
    directory: str,
    topic_partition: TopicPartition,
    topic_id: bytes,
    config: LogConfig,
    *,
    is_clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    high_watermark: int = 0,
) -> Log:
    """Open what the directory holds, or begin an empty log there; after an unclean stop it is scanned first."""
    segments = Segments(files, open_segments, directory)
    epochs = LeaderEpochs(files, directory)
    producers = ProducerStateManager(files, directory)
    epochs_are_known = epochs.load()
    first_unsynced = None if is_clean else recovery_point
    corruptions = load_segments(files, directory, segments, config, first_unsynced, epochs)
    if len(segments):
        segments.reactivate_last()
    if not len(segments) or segments.active.end_offset < log_start_offset:
        _start_anew(segments, config, log_start_offset, clock.now_ms())
    end_offset = segments.active.end_offset
    synced = (
        end_offset if is_clean else min(recovery_point, end_offset)
    )  # what a scan read may be in the page cache only
    log = Log(files, clock, directory, topic_partition, topic_id, config, segments, epochs, producers, synced)
    log.corruptions = corruptions
    segments.active.created_ms = clock.now_ms()
    log.log_start_offset = max(log.log_start_offset, log_start_offset)
    log.high_watermark = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
    if epochs_are_known:
        epochs.truncate_from_end(log.log_end_offset)
    else:
        rebuild_epochs(segments, epochs)
    replay_producers(segments, producers, log.log_end_offset, _first_to_reindex(files, directory, segments))
    producers.transactions.on_high_watermark(log.high_watermark)
    producers.delete_snapshots_after(log.log_end_offset)
    producers.delete_snapshots_before(segments.first.base_offset)
    return log


def _first_to_reindex(files: Files, directory: str, segments: Segments) -> int | None:
    """Where the first segment begins whose transaction index cannot be trusted; the others are taken as they are."""
    names = set(files.list(directory))
    for segment in segments:
        path = segment.path(TRANSACTION_INDEX_SUFFIX)
        segment.has_aborted = path.removeprefix(f"{directory}/") in names
        try:
            if segment.has_aborted:
                check_sane(files, path, segment.base_offset, segment.end_offset)
        except CorruptIndexError as error:
            _logger.warning("%s; it is made anew.", error)
            segment.is_scanned = True
    return next((segment.base_offset for segment in segments if segment.is_scanned), None)


def _start_anew(segments: Segments, config: LogConfig, start_offset: int, now_ms: int) -> None:
    """Nothing is left at or above the log's start: the records that an unclean stop lost had already been deleted."""
    while len(segments):
        segments.delete(-1, now_ms)
    segments.create(start_offset, config, now_ms)
