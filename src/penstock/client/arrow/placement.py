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

from penstock.client.arrow.rows import key_buffers
from penstock.errors import ConfigError, ErrorCode, KafkaError
from penstock.wire.kernel_keys import NO_PARTITION, choose_partitions

BY_KEY = ("consistent_random", "murmur2_random")

RECORD_OVERHEAD = 16
"""More than the lengths and deltas of most records take: rows that are to make one batch must not make two."""

MAX_STRETCH_BYTES = 16 << 20
"""Rows that are placed, and copied if need be, at a time."""

Placed = Iterator[tuple[int, pa.RecordBatch]]


class Placement:
    """Chooses for one topic; remembers which partition is next for rows that do not care."""

    def __init__(self, topic: str, partitioner: str, chance: Random) -> None:
        if partitioner not in BY_KEY:
            raise ConfigError(f"{partitioner!r} is not a partitioner by key; {' and '.join(BY_KEY)} are.")
        self._topic = topic
        self._is_murmur2 = partitioner == "murmur2_random"
        self._next = chance.randrange(1 << 16)

    def place(self, rows: pa.RecordBatch, partition_count: int, batch_bytes: int) -> Placed:
        """The rows of each partition; `batch_bytes` is what rows that do not care fill before the next one's turn."""
        if "partition" in rows.schema.names:
            self._check(rows.column("partition"), partition_count)
        if partition_count == 1 or not _has_choice(rows):
            for stretch in _stretches(rows, batch_bytes):
                yield self._turn(partition_count), stretch
            return
        for stretch in _stretches(rows, min(batch_bytes * partition_count, MAX_STRETCH_BYTES)):
            yield from self._group(stretch, self._chosen(stretch, partition_count))

    def _turn(self, partition_count: int) -> int:
        self._next = (self._next + 1) % partition_count
        return self._next

    def _group(self, rows: pa.RecordBatch, chosen: pa.Array) -> Placed:
        """Stable: the order of a partition's rows stays."""
        order = pc.array_sort_indices(chosen)
        start = 0
        for entry in sorted(pc.value_counts(chosen).to_pylist(), key=lambda each: int(each["values"])):
            stop = start + entry["counts"]
            yield entry["values"], rows if stop - start == rows.num_rows else rows.take(order[start:stop])
            start = stop

    def _chosen(self, rows: pa.RecordBatch, partition_count: int) -> pa.Array:
        """The partition of each row; those that do not care go together."""
        choices = []
        if "partition" in rows.schema.names:
            choices.append(rows.column("partition"))
        if "key" in rows.schema.names:
            choices.append(self._by_key(rows.column("key"), partition_count))
        chosen = pc.coalesce(*choices)
        return chosen.fill_null(self._turn(partition_count)) if chosen.null_count else chosen

    def _by_key(self, keys: pa.Array, partition_count: int) -> pa.Array:
        """Null where there is no key."""
        chosen = bytearray(4 * len(keys))
        out = memoryview(chosen).cast("i")
        choose_partitions(*key_buffers(keys), partition_count, self._is_murmur2, out)
        partitions = pa.Array.from_buffers(pa.int32(), len(keys), [None, pa.py_buffer(chosen)], 0)
        has_none = pc.equal(partitions, NO_PARTITION)
        return pc.replace_with_mask(partitions, has_none, pa.scalar(None, pa.int32()))

    def _check(self, chosen: pa.Array, partition_count: int) -> None:
        bounds = pc.min_max(chosen).as_py()
        for partition in (bounds["min"], bounds["max"]):
            if partition is not None and not 0 <= partition < partition_count:
                raise KafkaError(
                    ErrorCode.INVALID_PARTITIONS,
                    f"Column 'partition' has {partition}, but topic {self._topic!r} has {partition_count} partitions, "
                    "numbered from 0.",
                )


def _has_choice(rows: pa.RecordBatch) -> bool:
    """Whether any row names a partition or has a key."""
    names = [name for name in ("partition", "key") if name in rows.schema.names]
    return any(rows.column(name).null_count < rows.num_rows for name in names)


def _stretches(rows: pa.RecordBatch, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Neighbouring rows of about so many bytes, which need no copy."""
    most = max(1, rows.num_rows * size_bytes // max(1, rows.nbytes + RECORD_OVERHEAD * rows.num_rows))
    for start in range(0, rows.num_rows, most):
        yield rows.slice(start, most)
