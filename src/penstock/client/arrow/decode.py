"""What was fetched, as Arrow: raw batches of one partition become columns, and those record batches.

The kernel writes the buffers in Arrow's layout and pyarrow takes them as they are. Checksums are always verified.

Rules:
- only rows of the range, from the offset that was asked for to before its end; control records never; records of
  aborted transactions not when the broker named them, which it does for readers of what is committed;
- a large answer is decoded in pieces: what a compressed batch grows to is bounded, and pieces stay in the processor's
  caches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from penstock.client.arrow.schema import HEADER, HEADERS
from penstock.client.fetcher import Fetched
from penstock.net.slabs import Slabs
from penstock.types import Bytes
from penstock.wire.columns import BinaryColumn, Columns, HeaderColumns, decode_columns
from penstock.wire.records import TIMESTAMP_TYPE_BIT, BatchHeader, corrupt, iterate_headers

PIECE_BYTES = 1 << 20
"""Batches that are decoded at once, one at least."""


class Decoder:
    """Makes record batches of a partition's bytes. The schema says which columns."""

    def __init__(self, schema: pa.Schema, batch_rows: int, batch_bytes: int) -> None:
        self._schema = schema
        self._batch_rows = batch_rows
        self._batch_bytes = batch_bytes
        self._with_headers = "headers" in schema.names
        self._slabs = Slabs()
        self._constants: dict[tuple[str, object], pa.Array] = {}

    def batches(self, fetched: Fetched, end: int) -> Iterator[pa.RecordBatch]:
        """The records of `fetched` before the offset `end`."""
        wanted = _Wanted(fetched, end)
        for piece in _pieces(fetched.batches):
            wanted.types.clear()
            columns = decode_columns(
                piece, with_headers=self._with_headers, is_wanted=wanted, allocate=self._slabs.take
            )
            offsets = memoryview(columns.offsets).cast("q")
            start, stop = bisect_left(offsets, fetched.offset), bisect_left(offsets, end)
            if start < stop:
                batch = self._record_batch(fetched, columns, wanted.types).slice(start, stop - start)
                yield from self._parts(batch)

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Slices of the size that was asked for."""
        rows = batch.num_rows
        most = max(1, min(self._batch_rows, rows * self._batch_bytes // max(1, batch.nbytes)))
        for start in range(0, rows, most):
            yield batch.slice(start, most)

    def _record_batch(self, fetched: Fetched, columns: Columns, types: list[tuple[int, int]]) -> pa.RecordBatch:
        rows = columns.row_count
        arrays = []
        for name in self._schema.names:
            match name:
                case "key" | "value":
                    column = columns.keys if name == "key" else columns.values
                    assert column is not None, "decoding gives both"
                    arrays.append(_binary(pa.binary(), rows, column))
                case "topic":
                    arrays.append(self._constant(name, fetched.where.topic, rows))
                case "partition":
                    arrays.append(self._constant(name, fetched.where.partition, rows))
                case "offset":
                    arrays.append(pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(columns.offsets)], 0))
                case "timestamp":
                    arrays.append(_timestamps(rows, columns.timestamps))
                case "timestampType":
                    arrays.append(self._timestamp_types(types, rows))
                case _:
                    assert columns.headers is not None, "they were asked for"
                    arrays.append(_headers(rows, columns.headers))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _constant(self, name: str, value: object, rows: int) -> pa.Array:
        """The same value in each row: a part of a longer one that was made before."""
        known = self._constants.get((name, value))
        if known is None or len(known) < rows:
            known = pa.repeat(pa.scalar(value, self._schema.field(name).type), rows)
            self._constants[name, value] = known
        return known.slice(0, rows)

    def _timestamp_types(self, types: list[tuple[int, int]], rows: int) -> pa.Array:
        """A batch has one for all of its records; `types` has the batches' numbers of rows and types."""
        if len({kind for _, kind in types}) == 1:
            return self._constant("timestampType", types[0][1], rows)
        return pa.concat_arrays([self._constant("timestampType", kind, count) for count, kind in types])


class _Wanted:
    """Says of each batch, in order, whether it has rows for the reader; notes the types of timestamps of those."""

    def __init__(self, fetched: Fetched, end: int) -> None:
        self._start, self._end = fetched.offset, end
        self._ahead, self._aborting = deque(fetched.aborted), set[int]()
        self.types: list[tuple[int, int]] = []

    def __call__(self, header: BatchHeader) -> bool:
        while self._ahead and self._ahead[0][0] <= header.last_offset:
            self._aborting.add(self._ahead.popleft()[1])
        if header.is_control:
            self._aborting.discard(header.producer_id)
            return False
        is_aborted = header.is_transactional and header.producer_id in self._aborting
        if is_aborted or header.last_offset < self._start or header.base_offset >= self._end:
            return False
        self.types.append((header.record_count, int(bool(header.attributes & TIMESTAMP_TYPE_BIT))))
        return True


def _pieces(batches: memoryview) -> Iterator[memoryview]:
    """Neighbouring batches of up to PIECE_BYTES together; a larger one stands alone."""
    cuts = [0]
    for position, header in iterate_headers(batches):
        if position + header.size_bytes - cuts[-1] > PIECE_BYTES and position > cuts[-1]:
            cuts.append(position)
    cuts.append(len(batches))
    for start, stop in pairwise(cuts):
        yield batches[start:stop]


def _binary(kind: pa.DataType, rows: int, column: BinaryColumn) -> pa.Array:
    validity = pa.py_buffer(column.validity) if column.validity is not None and column.null_count else None
    buffers = [validity, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _timestamps(rows: int, milliseconds: Bytes) -> pa.Array:
    array = pa.Array.from_buffers(pa.timestamp("ms", tz="UTC"), rows, [None, pa.py_buffer(milliseconds)], 0)
    try:
        return array.cast(pa.timestamp("us", tz="UTC"))
    except pa.ArrowInvalid:
        raise corrupt("A record's timestamp is further from 1970 than microseconds in 64 bits reach.") from None


def _headers(rows: int, headers: HeaderColumns) -> pa.Array:
    """Null where a record has none, as Spark's source gives them."""
    count = len(memoryview(headers.values.offsets).cast("B")) // 4 - 1
    keys = _binary(pa.string(), count, headers.keys)
    values = _binary(pa.binary(), count, headers.values)
    entries = pa.StructArray.from_arrays([keys, values], fields=list(HEADER))
    lists = pa.Array.from_buffers(HEADERS, rows, [None, pa.py_buffer(headers.offsets)], 0, children=[entries])
    has_any = pc.greater(pc.list_value_length(lists), 0)
    validity, offsets = has_any.buffers()[1], lists.buffers()[1]
    return pa.Array.from_buffers(HEADERS, rows, [validity, offsets], children=[entries])
