"""`penstock_mirror`: the penstock sink for copies of topics. It keeps the offset map, and makes missing topics.

    spark.dataSource.register(MirrorDataSource)
    dp.create_sink("copy", "penstock_mirror", {"kafka.bootstrap.servers": TARGET, "source": SOURCE, "topics": "orders"})

Options besides those of the penstock sink: `source` (brokers of the source), `topics` (names with commas between, or a
pattern after a `~`: those that are made in the target, with as many partitions), `offsetMap` (the map's topic).

The rows are those of the source as they are: topic, partition, offset, key, value, headers, timestamp.

How a copy's offsets are known: a task writes its rows of a partition one after another in one transaction, so when the
batch is done they are the last in the partition, and one marker is behind them. That holds because nobody else writes
into the copy; whoever does makes the map wrong.

After a crash between a batch's transactions and its map, Spark repeats the batch, nothing is written, and the map is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.offsets import LATEST, READ_COMMITTED, list_offsets
from penstock.client.producer import Producer
from penstock.errors import ConfigError, ErrorCode, KafkaError
from penstock.spark.pipelines.offset_map import Stretch, map_key
from penstock.spark.sink_task import connect
from penstock.spark.source import PenstockDataSource
from penstock.spark.subscription import Matching, Named, find_partitions
from penstock.spark.writer import TopicStreamWriter, Written
from penstock.types import TopicPartition

OFFSET_MAP = "penstock-offset-map"
OWN_OPTIONS = ("source", "topics", "offsetmap")
MAX_RUNS = 1000
"""Stretches of a partition and batch in the map. More holes than that make one stretch with holes."""

Run = tuple[int, int, int]
"""First source offset, the one behind the last, how many messages."""


class MirrorDataSource(PenstockDataSource):
    """The penstock data source with another sink."""

    @classmethod
    def name(cls) -> str:
        return "penstock_mirror"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return MirrorWriter(self.options, schema)


@dataclass(frozen=True)
class Mirrored(Written):
    """What a task tells the driver: also which offsets it has copied."""

    copied: dict[TopicPartition, list[Run]] = field(default_factory=dict)


class MirrorWriter(TopicStreamWriter):
    """Made for each batch, on the driver; `write` runs in the tasks."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        own = {name.lower(): value for name, value in options.items() if name.lower() in OWN_OPTIONS}
        super().__init__({name: value for name, value in options.items() if name.lower() not in OWN_OPTIONS}, schema)
        for column in ("topic", "partition", "offset"):
            if column not in schema.names:
                raise ConfigError(f"A flow into a mirror has the column {column!r} as it was read.")
        if not self._options.is_exactly_once:
            raise ConfigError("A mirror's map of offsets needs exactlyOnce: leave that option out.")
        self._map_topic = own.get("offsetmap", OFFSET_MAP)
        with connect(self._options) as target:
            make_topics(target, own.get("source", ""), own.get("topics", ""), self._map_topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Mirrored:
        copied: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        written = super().write(_noting(iterator, copied))
        told = {where: _bounded(found) for where, found in copied.items()}
        return Mirrored(written.outcome, written.sink_id, told)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        copied = dict(chain.from_iterable(each.copied.items() for each in messages if isinstance(each, Mirrored)))
        if copied:
            with connect(self._options) as target:
                note_stretches(target, self._map_topic, copied)


def note_stretches(target: Cluster, map_topic: str, copied: Mapping[TopicPartition, Sequence[Run]]) -> None:
    """Add what was copied to the map; it stands at the ends of its partitions."""
    ends = list_offsets(target, dict.fromkeys(copied, LATEST), isolation_level=READ_COMMITTED)
    with Producer(target) as producer:
        for where, found in copied.items():
            marker = 1
            position = ends[where].offset - marker - sum(count for _, _, count in found)
            for source, source_end, count in found:
                stretch = Stretch(source, source_end, position, count)
                producer.send(map_topic, stretch.as_value(), key=map_key(where), partition=0)
                position += count


def make_topics(target: Cluster, source: str, topics: str, map_topic: str) -> None:
    """Those of the source that the target has not, or has with fewer partitions; and the map's."""
    if not source or not topics:
        raise ConfigError("A mirror needs the options 'source' (its brokers) and 'topics'.")
    pattern = topics.removeprefix("~")
    wanted = Matching(pattern) if topics != pattern else Named(tuple(name.strip() for name in topics.split(",")))
    with Cluster(source, client_id="penstock-mirror") as origin:
        found = find_partitions(origin, wanted).partitions
    counts: dict[str, int] = {map_topic: 1}
    for where in found:
        counts[where.topic] = max(counts.get(where.topic, 0), where.partition + 1)
    admin = Admin(target)
    there = {topic.name: len(topic.partitions) for topic in admin.list_topics()}
    for name, count in counts.items():
        if name not in there:
            _create(admin, name, count)
        elif there[name] < count:
            admin.create_partitions(name, count)


def _create(admin: Admin, name: str, count: int) -> None:
    try:
        admin.create_topic(name, partitions=count)
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # another mirror was faster
            raise


def _noting(
    batches: Iterator[pa.RecordBatch], copied: dict[TopicPartition, list[tuple[int, int]]]
) -> Iterator[pa.RecordBatch]:
    """The batches as they are; what passes is noted by partition."""
    for batch in batches:
        for where, start, end in _runs(batch):
            _join(copied[where], (start, end))
        yield batch


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, int, int]]:
    """Neighbours of one partition without a hole between them: the first offset, and the one behind the last."""
    topic, partition = batch.column("topic").dictionary_encode(), batch.column("partition").to_numpy()
    code, offset = topic.indices.to_numpy(), batch.column("offset").to_numpy()
    is_break = (np.diff(offset) != 1) | (np.diff(partition) != 0) | (np.diff(code) != 0)
    starts = [0, *(np.flatnonzero(is_break) + 1).tolist()] if len(offset) else []
    for start, end in zip(starts, [*starts[1:], len(offset)], strict=False):
        where = TopicPartition(topic[start].as_py(), int(partition[start]))
        yield where, int(offset[start]), int(offset[end - 1]) + 1


def _join(known: list[tuple[int, int]], run: tuple[int, int]) -> None:
    if known and known[-1][1] == run[0]:
        known[-1] = (known[-1][0], run[1])
    else:
        known.append(run)


def _bounded(found: list[tuple[int, int]]) -> list[Run]:
    if len(found) <= MAX_RUNS:
        return [(start, end, end - start) for start, end in found]
    return [(found[0][0], found[-1][1], sum(end - start for start, end in found))]
