"""A bounded read: the offsets are found while Spark plans, and each range is a task.

What "latest" is, is decided once, when the query is planned: a table that is read twice in one query may be planned
twice, and show different ends. Records that come later are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.client.arrow.reader import DataLossError, read_ranges
from penstock.errors import ConfigError
from penstock.spark.bounds import AtOffsets, Offsets, find_offsets
from penstock.spark.brokers import connect, connect_from_task
from penstock.spark.loss import LostDataError
from penstock.spark.options import ReadOptions
from penstock.spark.ranges import OffsetRange, ranges_between, split
from penstock.spark.snapshot import take_snapshot


@dataclass
class RangePartition(InputPartition):
    """What a task reads; None when there is nothing at all, since Spark makes one task even then."""

    value: OffsetRange | None


class TopicReader(DataSourceReader):
    """Reads once what the options say. It travels to the executors, and holds no connection."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with connect(options.connecting) as cluster:
            snapshot = take_snapshot(cluster, options.subscription, isolation_level=options.isolation_level)
            snapshot.check_complete()
            start, end = (
                find_offsets(
                    cluster,
                    bound,
                    snapshot,
                    isolation_level=options.isolation_level,
                    is_loss_fatal=options.is_loss_fatal,
                )
                for bound in (options.starting, options.ending)
            )
        if isinstance(options.starting, AtOffsets) and isinstance(options.ending, AtOffsets):
            _check_order(start, end)
        return tasks(ranges_between(start, end), options) or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(partition.value, self._options)


def tasks(ranges: list[OffsetRange], options: ReadOptions) -> list[RangePartition]:
    """As many as the options ask for."""
    pieces = split(ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition)
    return [RangePartition(piece) for piece in pieces]


def read_range(wanted: OffsetRange | None, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """In a task: the records of one range, in order."""
    if wanted is None:
        return
    with connect_from_task(options.connecting, options.poll_timeout_ms) as cluster:
        try:
            yield from read_ranges(
                cluster,
                {wanted.where: (wanted.start, wanted.end)},
                with_headers=options.include_headers,
                isolation_level=options.isolation_level,
                timeout_ms=options.poll_timeout_ms,
                on_missing="error" if options.is_loss_fatal else "skip",
            )
        except DataLossError as error:
            raise LostDataError(str(error)) from error


def _check_order(start: Offsets, end: Offsets) -> None:
    for where, offset in start.items():
        if offset > end[where]:
            raise ConfigError(f"Partition {where} is to be read from offset {offset} to before {end[where]}.")
