"""Which row goes to which partition: by its own word, by its key, or wherever a batch is being filled.

    partition column   as it says; a number that the topic does not have is an error
    key                as librdkafka's `consistent_random` (the default) or `murmur2_random`, which is Java's
    neither            stays with one partition for a batch, then goes on to the next: fewer and larger batches

Rows of one partition keep their order. An empty key is none for `consistent_random`, as librdkafka has it, and is a key
for `murmur2_random`.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.partitioner import PARTITIONERS, Partitioner
from penstock.errors import ConfigError, ErrorCode, KafkaError

BY_KEY = ("consistent_random", "murmur2_random")

Placed = Iterator[tuple[int, pa.RecordBatch]]


class Placement:
    """Chooses for one topic; remembers which partition is next for rows that do not care."""

    def __init__(self, topic: str, partitioner: str, chance: Random) -> None:
        if partitioner not in BY_KEY:
            raise ConfigError(f"{partitioner!r} is not a partitioner by key; {' and '.join(BY_KEY)} are.")
        self._topic = topic
        self._partitioner: Partitioner = PARTITIONERS[partitioner]()
        self._next = chance.randrange(1 << 16)

    def place(self, rows: pa.RecordBatch, partition_count: int, batch_bytes: int) -> Placed:
        """The rows of each partition; `batch_bytes` is what rows that do not care fill before the next one's turn."""
        chosen = self._chosen(rows, partition_count)
        if chosen is None or partition_count == 1:
            yield from self._spread(rows, partition_count, batch_bytes)
            return
        if chosen.null_count:
            chosen = chosen.fill_null(self._turn(partition_count))
        order = pc.array_sort_indices(chosen)
        start = 0
        for entry in sorted(pc.value_counts(chosen).to_pylist(), key=lambda each: int(each["values"])):
            stop = start + entry["counts"]
            yield entry["values"], rows.take(order[start:stop]) if stop - start < rows.num_rows else rows
            start = stop

    def _turn(self, partition_count: int) -> int:
        self._next = (self._next + 1) % partition_count
        return self._next

    def _spread(self, rows: pa.RecordBatch, partition_count: int, batch_bytes: int) -> Placed:
        """Neighbouring rows, which need no copy."""
        most = max(1, rows.num_rows * batch_bytes // max(1, rows.nbytes))
        for start in range(0, rows.num_rows, most):
            yield self._turn(partition_count), rows.slice(start, most)

    def _chosen(self, rows: pa.RecordBatch, partition_count: int) -> pa.Array | None:
        """The partitions, null where a row does not care; None when none cares."""
        chosen = None
        if "partition" in rows.schema.names:
            chosen = rows.column("partition")
            self._check(chosen, partition_count)
        if "key" in rows.schema.names and rows.column("key").null_count < rows.num_rows:
            by_key = self._by_key(rows.column("key"), partition_count)
            chosen = by_key if chosen is None else pc.coalesce(chosen, by_key)
        return None if chosen is None or chosen.null_count == len(chosen) else chosen

    def _by_key(self, keys: pa.Array, partition_count: int) -> pa.Array:
        return pa.array([self._partitioner(key, partition_count) for key in keys.to_pylist()], pa.int32())

    def _check(self, chosen: pa.Array, partition_count: int) -> None:
        bounds = pc.min_max(chosen).as_py()
        for partition in (bounds["min"], bounds["max"]):
            if partition is not None and not 0 <= partition < partition_count:
                raise KafkaError(
                    ErrorCode.INVALID_PARTITIONS,
                    f"Column 'partition' has {partition}, but topic {self._topic!r} has {partition_count} partitions, "
                    "numbered from 0.",
                )
