"""Reads ranges of offsets as Arrow: each partition from its start to before its end, and then it is over.

    for batch in read_ranges(cluster, {TopicPartition("orders", 0): (0, 1_000_000)}): ...

A thread fetches ahead while the caller decodes and works; what it has in stock is bounded.

Rules:
- every record of the ranges that the isolation level lets us see comes exactly once, a partition's in order; partitions
  mix. Offsets may have holes (markers of transactions, aborted records, compaction): a range ends when its end is
  reached by any batch, or when the partition says that nothing more is there before it;
- a leader that is lost is looked for until `timeout_ms` is over; reading goes on at the same offset;
- records that were deleted before we came are `DataLossError`, which names partition and offsets. With
  `on_missing="skip"` reading goes on at the first offset that there is. The same holds for a range that ends behind the
  partition's end;
- a topic that was deleted and created anew in between is a `DataLossError` too, or the end of its ranges: what is at
  the same offsets now are other records;
- a range that an open transaction holds up is waited for until `timeout_ms` passes without a record.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Literal

import pyarrow as pa

from penstock.client.arrow.ahead import Ahead
from penstock.client.arrow.decode import Decoder
from penstock.client.arrow.schema import topic_schema
from penstock.client.cluster import DEFAULT_TIMEOUT_MS, Cluster
from penstock.client.fetcher import Fetched, Fetcher
from penstock.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets
from penstock.env.clock import Clock, SystemClock
from penstock.errors import ErrorCode, KafkaError
from penstock.net.slabs import Slabs
from penstock.types import TopicId, TopicPartition

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Partition -> first offset, and the offset behind the last."""

BATCH_ROWS = 10_000
BATCH_BYTES = 6 << 20
MAX_FETCH_BYTES = 8 << 20
PARTITION_FETCH_BYTES = 4 << 20
AHEAD_BYTES = 8 << 20
"""Fetched and not yet decoded, beside one answer that is on its way."""

FETCH_SLAB_BYTES = 10 << 20
"""Answers of less than this come into memory that is used again: all but those with a batch of several megabytes."""

END_GRACE_SECONDS = 3.0
"""A leader that was just elected may show an older end for a moment."""


class DataLossError(KafkaError):
    """Records of a range are not there: the partition begins after them, or ends before them."""

    def __init__(self, where: TopicPartition, wanted: int, earliest: int, latest: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Partition {where}: offset {wanted} is wanted, but the log has {earliest} to before {latest}. "
            "Records were deleted by retention, or the topic was created anew.",
        )
        self.where, self.wanted, self.earliest, self.latest = where, wanted, earliest, latest


def read_ranges(
    cluster: Cluster,
    ranges: Ranges,
    *,
    columns: Sequence[str] | None = None,
    with_headers: bool = False,
    isolation_level: int = READ_COMMITTED,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
    timeout_ms: float | None = None,
    on_missing: Literal["error", "skip"] = "error",
) -> Iterator[pa.RecordBatch]:
    """The records of the ranges; `columns` as in `schema`, all but the headers when None."""
    reader = RangeReader(
        cluster,
        ranges,
        schema=topic_schema(columns, with_headers=with_headers),
        isolation_level=isolation_level,
        batch_rows=batch_rows,
        batch_bytes=batch_bytes,
        timeout_ms=timeout_ms,
        on_missing=on_missing,
    )
    return reader.batches()


class RangeReader:
    """One reading of some ranges."""

    def __init__(
        self,
        cluster: Cluster,
        ranges: Ranges,
        *,
        schema: pa.Schema,
        isolation_level: int = READ_COMMITTED,
        batch_rows: int = BATCH_ROWS,
        batch_bytes: int = BATCH_BYTES,
        timeout_ms: float | None = None,
        on_missing: Literal["error", "skip"] = "error",
        clock: Clock | None = None,
    ) -> None:
        self.schema = schema
        self._cluster = cluster
        self._ranges = {where: (start, end) for where, (start, end) in ranges.items() if start < end}
        self._isolation_level = isolation_level
        self._batch_rows = batch_rows
        self._batch_bytes = batch_bytes
        self._timeout_ms = DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms
        self._on_missing = on_missing
        self._clock = clock or SystemClock()
        self._progress_at = 0.0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of it; whoever stops earlier closes the iterator, and with it the thread and its connections."""
        if not self._ranges:
            return
        decoder = Decoder(self.schema, self._batch_rows, self._batch_bytes)
        with self._cluster.twin() as twin, Ahead(self._fetch(twin), _size_of, AHEAD_BYTES) as ahead:
            for fetched in ahead:
                yield from decoder.batches(fetched, self._ranges[fetched.where][1])

    def _fetch(self, cluster: Cluster) -> Generator[Fetched, None, None]:
        """In the thread: what the partitions deliver, until each is at its end."""
        starts = {where: start for where, (start, _) in self._ranges.items()}
        fetcher = Fetcher(
            cluster,
            starts,
            max_bytes=MAX_FETCH_BYTES,
            partition_max_bytes=PARTITION_FETCH_BYTES,
            timeout_ms=self._timeout_ms,
            isolation_level=self._isolation_level,
            allocate=Slabs(FETCH_SLAB_BYTES).take,
        )
        with fetcher:
            topic_ids = {where.topic: cluster.retry(_topic_id_of(cluster, where.topic)) for where in starts}
            self._progress_at = self._clock.monotonic()
            while fetcher.positions:
                try:
                    polled = fetcher.poll()
                except KafkaError as error:
                    if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                        raise
                    self._check_same_topics(fetcher, topic_ids)
                    self._on_out_of_range(fetcher)
                    continue
                self._check_same_topics(fetcher, topic_ids)
                yield from (fetched for fetched in polled if fetched.where in fetcher.positions)
                self._stop_at_ends(fetcher, has_progress=bool(polled))

    def _check_same_topics(self, fetcher: Fetcher, topic_ids: Mapping[str, TopicId]) -> None:
        """Before anything of an answer is given out: a topic that has another id now is another topic."""
        for where, position in list(fetcher.positions.items()):
            known = fetcher.cluster.metadata.topics.get(where.topic)
            if known is None or known.topic_id == topic_ids[where.topic] or known.error is not ErrorCode.NONE:
                continue
            if self._on_missing == "error":
                raise DataLossError(where, position, *self._bounds(fetcher.cluster, where))
            fetcher.stop(where)

    def _stop_at_ends(self, fetcher: Fetcher, *, has_progress: bool) -> None:
        now = self._clock.monotonic()
        if has_progress:
            self._progress_at = now
            fetcher.end_offsets.clear()  # from now on: who has answered since, and had nothing
        for where, position in list(fetcher.positions.items()):
            if position >= self._ranges[where][1]:
                fetcher.stop(where)
            elif now - self._progress_at > END_GRACE_SECONDS and where in fetcher.end_offsets:
                self._on_silence(fetcher, where, now - self._progress_at)

    def _on_silence(self, fetcher: Fetcher, where: TopicPartition, waited_seconds: float) -> None:
        """Its leader answers and has nothing: the partition ends early, or a transaction is open, or all is read."""
        end, visible = self._ranges[where][1], fetcher.end_offsets[where]
        if visible >= end:
            fetcher.stop(where)
            return
        earliest, latest = self._bounds(fetcher.cluster, where)
        if latest < end and self._on_missing == "error":
            raise DataLossError(where, end - 1, earliest, latest)
        if latest < end and visible >= latest:
            fetcher.stop(where)
        elif waited_seconds * 1000 > self._timeout_ms:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Partition {where} can be read up to offset {visible} only, {end} is wanted: a transaction is open "
                "there. Wait for its end, or read uncommitted records too.",
            )

    def _on_out_of_range(self, fetcher: Fetcher) -> None:
        """Find out which partitions lack their offset: go on at their first one, or say what is gone."""
        for where, position in list(fetcher.positions.items()):
            earliest, latest = self._bounds(fetcher.cluster, where)
            if earliest <= position <= latest:
                continue
            if self._on_missing == "error":
                raise DataLossError(where, position, earliest, latest)
            if position < earliest < self._ranges[where][1]:
                fetcher.positions[where] = earliest
            else:
                fetcher.stop(where)

    def _bounds(self, cluster: Cluster, where: TopicPartition) -> tuple[int, int]:
        earliest = list_offsets(cluster, {where: EARLIEST})[where].offset
        return earliest, list_offsets(cluster, {where: LATEST})[where].offset


def _topic_id_of(cluster: Cluster, topic: str) -> Callable[[float], TopicId]:
    return lambda deadline: cluster.topic(topic, deadline=deadline).topic_id


def _size_of(fetched: Fetched) -> int:
    return len(fetched.batches)
