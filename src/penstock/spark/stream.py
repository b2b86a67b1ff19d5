"""A streaming read: Spark asks up to where there is something, then for the tasks of a micro-batch, again and again.

Rules:
- an offset that is not reached by reading enters in a micro-batch of its own, without rows: where a stream starts that
  starts at the end; a partition that is new; with failOnDataLoss=false also a topic that is another now (at its start)
  or a log that ends before what was read (at its end). So each micro-batch reads exactly what lies between two offsets
  that Spark has written down, and reads the same when it is done again after a crash;
- partitions that come to a topic, and topics that come to a pattern, are read from their start;
- data is lost when a log begins behind the next offset or ends before it, when a topic is gone or has another id, or
  when a new partition of a known topic does not begin at 0. That is LostDataError, or a warning;
- a limit is Spark's to give: maxOffsetsPerTrigger holds unless Spark asks for everything. minOffsetsPerTrigger waits,
  maxTriggerDelay at the longest; the first micro-batch of a run and a run of what is available now do not wait;
- with Trigger.AvailableNow the ends are those of the run's beginning: it takes no part in what comes later.

The object lives in a process on the driver as long as the query, and is copied to the executors before it has
connected. After a crash nothing of it is missed: everything that counts is in the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.client.cluster import Cluster
from penstock.client.offsets import LATEST, READ_UNCOMMITTED, list_offsets
from penstock.env.clock import Clock, SystemClock
from penstock.spark.bounds import find_offsets, names_latest
from penstock.spark.brokers import connect
from penstock.spark.loss import report_loss
from penstock.spark.offsets import STARTING, StreamOffset
from penstock.spark.options import ReadOptions
from penstock.spark.progress import GroupProgress
from penstock.spark.ranges import limited, ranges_between
from penstock.spark.reader import read_range, tasks
from penstock.spark.snapshot import Snapshot, take_snapshot
from penstock.types import TopicPartition

Json = dict[str, Any]


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads as long as the query runs."""

    def __init__(self, options: ReadOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._available_now: Snapshot | None = None
        self._last: Snapshot | None = None
        self._first: Json | None = None
        self._triggered_at = float("-inf")

    @cached_property
    def _cluster(self) -> Cluster:
        return connect(self._options.connecting)

    @cached_property
    def _progress(self) -> GroupProgress:
        return GroupProgress(self._options.connecting, self._options.group_id)

    # What Spark asks

    def initialOffset(self) -> Json:  # noqa: N802
        """The same however often it is asked for."""
        if self._first is None:
            is_moving = names_latest(self._options.starting)
            self._first = STARTING if is_moving else self._starting_offset().to_json()
        return self._first

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._available_now = self._snapshot()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Up to where the next micro-batch reads; `start` itself when there is nothing to do."""
        if start == STARTING:
            return self._starting_offset().to_json()
        known = StreamOffset.from_json(start)
        self._progress.publish(known.offsets)
        snapshot = self._snapshot()
        if self._options.is_loss_fatal:
            snapshot.check_complete({where.topic for where in known.offsets})
        end = self._entering(known, snapshot) or self._reading(known, snapshot, limit)
        return start if end == known else end.to_json()

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """For the query's progress: the ends as they were a moment ago, when Spark asked for the latest offset."""
        return StreamOffset(self._last.latest, {}).to_json() if self._last is not None else None

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        known, until = (StreamOffset.from_json({} if each == STARTING else each) for each in (start, end))
        entered = {topic for topic, topic_id in until.topic_ids.items() if not known.is_same_topic(topic, topic_id)}
        ranges = ranges_between(known.offsets, until.offsets)
        return tasks([each for each in ranges if each.topic not in entered | self._replaced(until)], self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(partition.value, self._options)

    def stop(self) -> None:
        self._cluster.close()
        self._progress.close()

    # Steps

    def _snapshot(self) -> Snapshot:
        options = self._options
        self._last = self._available_now or take_snapshot(
            self._cluster, options.subscription, isolation_level=options.isolation_level
        )
        return self._last

    def _starting_offset(self) -> StreamOffset:
        options, snapshot = self._options, self._snapshot()
        snapshot.check_complete()
        offsets = find_offsets(
            self._cluster,
            options.starting,
            snapshot,
            isolation_level=options.isolation_level,
            is_loss_fatal=options.is_loss_fatal,
        )
        return StreamOffset(offsets, snapshot.topic_ids)

    def _entering(self, known: StreamOffset, snapshot: Snapshot) -> StreamOffset | None:
        """What begins somewhere else than where reading stands; None when nothing does."""
        offsets = {where: self._standing(where, offset, known, snapshot) for where, offset in known.offsets.items()}
        kept = {where: offset for where, offset in offsets.items() if offset is not None}
        for where in snapshot.latest.keys() - kept.keys():
            kept[where] = self._new(where, known, snapshot)
        is_same = all(known.is_same_topic(topic, topic_id) for topic, topic_id in snapshot.topic_ids.items())
        return None if kept == known.offsets and is_same else StreamOffset(kept, snapshot.topic_ids)

    def _standing(self, where: TopicPartition, offset: int, known: StreamOffset, snapshot: Snapshot) -> int | None:
        """Where a known partition goes on: at its offset, as a rule; None when it is gone."""
        if where not in snapshot.latest:
            self._report(f"Partition {where} is gone: its topic was deleted while the query was at offset {offset}.")
            return None
        if not known.is_same_topic(where.topic, snapshot.topic_ids.get(where.topic)):
            self._report(f"Topic {where.topic!r} was deleted and created anew while {where} was read up to {offset}.")
            return snapshot.earliest[where]
        if offset < snapshot.earliest[where]:
            earliest = snapshot.earliest[where]
            self._report(
                f"Partition {where}: offsets {offset} to before {earliest} were deleted before they were read."
            )
        if offset > snapshot.latest[where]:
            end = list_offsets(self._cluster, {where: LATEST}, isolation_level=READ_UNCOMMITTED)[where].offset
            if offset > end:  # more than an open transaction that was read before, uncommitted
                self._report(f"Partition {where} ends before offset {end}, but was read up to {offset} before.")
                return end
        return offset

    def _new(self, where: TopicPartition, known: StreamOffset, snapshot: Snapshot) -> int:
        earliest = snapshot.earliest[where]
        if earliest > 0 and any(other.topic == where.topic for other in known.offsets):
            self._report(f"Partition {where} is new, but begins at offset {earliest}: what was before is deleted.")
        return earliest

    def _reading(self, known: StreamOffset, snapshot: Snapshot, limit: ReadLimit) -> StreamOffset:
        """How far to read from where we stand."""
        start = {where: max(offset, snapshot.earliest[where]) for where, offset in known.offsets.items()}
        end = {where: max(offset, snapshot.latest[where]) for where, offset in start.items()}
        if self._waits(sum(end.values()) - sum(start.values()), limit):
            return known
        self._triggered_at = self._clock.monotonic()
        if isinstance(limit, ReadMaxRows):
            end = limited(start, end, limit.max_rows)
        return StreamOffset(end, snapshot.topic_ids)

    def _waits(self, count: int, limit: ReadLimit) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or count >= least or isinstance(limit, ReadAllAvailable) or self._available_now is not None:
            return False
        return self._clock.monotonic() < self._triggered_at + self._options.max_trigger_delay_ms / 1000

    def _replaced(self, until: StreamOffset) -> set[str]:
        """Topics of a micro-batch that is done again which are gone by now, or others."""
        snapshot = self._last or self._snapshot()
        topics = {where.topic for where in until.offsets}
        gone = {topic for topic in topics if not until.is_same_topic(topic, snapshot.topic_ids.get(topic))}
        gone |= topics - {where.topic for where in snapshot.latest}
        for topic in gone:
            self._report(f"Topic {topic!r} was deleted before a micro-batch could be done again.")
        return gone

    def _report(self, what: str) -> None:
        report_loss(what, is_fatal=self._options.is_loss_fatal)
