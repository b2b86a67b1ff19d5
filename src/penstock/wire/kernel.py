# cython: language_level=3, boundscheck=False, wraparound=False
# mypy: ignore-errors
"""The record kernel: the records of a batch to columns, and columns to the records of a batch. Compiled where possible.

One source in Cython's pure-Python mode. `setup.py` compiles it to C; without a compiler this same file runs, with the
same results and a three-hundredth of the speed (`benchmarks/kernel.py`). So it is written in what both understand: a
pointer in the compiled form is a `memoryview` in the other, and both are read as `data[i]`. Only `kernel_keys` is too.

Bytes of one record, all lengths and deltas as zigzag varints:

    length, attributes (int8, unused), timestamp delta, offset delta,
    key size or -1, key, value size or -1, value, header count, then per header: key size, key, value size or -1, value

Columns have Arrow's layout: int64 values; binary as data + int32 offsets (one more than rows) + validity bits (lowest
first); headers as a list: offsets into one column of keys and one of values.

Rules: every read is held against the end of the record it is in, and that against the end of the buffer. Memory is
taken for what was measured, never for what a batch declares, and every write is held against it.
The loops hold no GIL. What is wrong is CORRUPT_MESSAGE, as everywhere for records.

The lines above this text: Cython's own checks would see the views only, not the pointers, and refuse an empty column;
mypy does not know the types of C.

It knows neither batch headers, nor compression, nor Arrow itself: `columns.py` does.
"""

from __future__ import annotations

from penstock.errors import ErrorCode, KafkaError

try:
    import cython
except ImportError:
    from penstock.wire import uncompiled as cython

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
    from cython.cimports.libc.string import memcpy

COMPILED = cython.compiled
MIN_RECORD_SIZE = cython.declare(cython.Py_ssize_t, 7)
"""Length, attributes, two deltas, no key, no value, no headers: a byte each."""
MAX_INT32 = cython.declare(cython.longlong, 0x7FFFFFFF)
MAX_INT64 = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
MIN_INT64 = cython.declare(cython.longlong, -MAX_INT64 - 1)


@cython.final
@cython.cclass
class Decoder:
    """Records to columns: `measure` each batch, then `add` each in the same order, then take the `columns`.

    Two passes over bytes that are warm after the first cost less than memory that was taken and not needed.
    """

    with_headers: cython.bint
    allocate: object
    buffers: dict

    # What was measured: the room that the columns have.
    rows: cython.Py_ssize_t
    key_bytes: cython.Py_ssize_t
    value_bytes: cython.Py_ssize_t
    headers: cython.Py_ssize_t
    header_key_bytes: cython.Py_ssize_t
    header_value_bytes: cython.Py_ssize_t

    # What is written so far.
    row: cython.Py_ssize_t
    key_end: cython.Py_ssize_t
    value_end: cython.Py_ssize_t
    header: cython.Py_ssize_t
    header_key_end: cython.Py_ssize_t
    header_value_end: cython.Py_ssize_t
    key_nulls: cython.Py_ssize_t
    value_nulls: cython.Py_ssize_t
    header_value_nulls: cython.Py_ssize_t

    offsets: cython.p_longlong
    timestamps: cython.p_longlong
    key_offsets: cython.p_int
    key_data: cython.p_uchar
    key_validity: cython.p_uchar
    value_offsets: cython.p_int
    value_data: cython.p_uchar
    value_validity: cython.p_uchar
    header_offsets: cython.p_int
    header_key_offsets: cython.p_int
    header_key_data: cython.p_uchar
    header_value_offsets: cython.p_int
    header_value_data: cython.p_uchar
    header_value_validity: cython.p_uchar

    def __init__(self, with_headers: cython.bint, allocate: object = None) -> None:
        """`allocate(size)` gives writable memory, aligned for integers; by default it is a new bytearray."""
        self.with_headers = with_headers
        self.allocate = allocate
        self.buffers = {}
        self.rows = self.key_bytes = self.value_bytes = 0
        self.headers = self.header_key_bytes = self.header_value_bytes = 0
        self.row = self.key_end = self.value_end = 0
        self.header = self.header_key_end = self.header_value_end = 0
        self.key_nulls = self.value_nulls = self.header_value_nulls = 0

    def measure(self, records: cython.const[cython.uchar][::1], count: cython.Py_ssize_t) -> None:
        """Reads through the `count` records that fill `records` exactly, and adds up the room they need."""
        data: cython.p_uchar
        bad: cython.Py_ssize_t
        end: cython.Py_ssize_t = len(records)
        assert not self.buffers, "measure all batches before the first is added"
        if count < 0 or count > end // MIN_RECORD_SIZE:
            raise _corrupt(f"{end} bytes cannot hold {count} records.")
        if cython.compiled:
            data = cython.cast(cython.p_uchar, cython.address(records[0]))
        else:
            data = records
        with cython.nogil:
            bad = self._measure(data, end, count)
        if bad >= 0:
            raise _corrupt(f"Record {bad} of the {count} in a batch is malformed.")
        self.rows += count
        largest: cython.Py_ssize_t = max(self.key_bytes, self.value_bytes)
        largest = max(largest, self.header_key_bytes, self.header_value_bytes, self.rows, self.headers)
        if largest > MAX_INT32:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "Columns end at 2 GiB: decode fewer batches at a time.")

    def add(
        self,
        records: cython.const[cython.uchar][::1],
        count: cython.Py_ssize_t,
        base_offset: cython.longlong,
        last_offset_delta: cython.longlong,
        base_timestamp: cython.longlong,
        is_append_time: cython.bint,
    ) -> None:
        """The `count` records that fill `records` exactly; with append time, `base_timestamp` is every record's."""
        data: cython.p_uchar
        bad: cython.Py_ssize_t
        end: cython.Py_ssize_t = len(records)
        if count < 0 or count > self.rows - self.row:
            raise _corrupt(f"{count} records are more than were measured.")
        if base_offset < 0 or last_offset_delta < 0 or base_offset > MAX_INT64 - last_offset_delta:
            raise _corrupt(f"A batch at offset {base_offset} cannot reach {last_offset_delta} further.")
        if not self.buffers:
            self._allocate()
        if cython.compiled:
            data = cython.cast(cython.p_uchar, cython.address(records[0]))
        else:
            data = records
        with cython.nogil:
            bad = self._add(data, end, count, base_offset, last_offset_delta, base_timestamp, is_append_time)
        if bad >= 0:
            raise _corrupt(f"Record {bad} of the {count} in a batch is malformed.")
        self.row += count

    def columns(self) -> dict[str, bytearray | memoryview]:
        """The buffers by name. They are not zeroed when taken, so all of each must have been written."""
        if not self.buffers:
            self._allocate()
        if (
            self.row != self.rows
            or self.key_end != self.key_bytes
            or self.value_end != self.value_bytes
            or self.header != self.headers
            or self.header_key_end != self.header_key_bytes
            or self.header_value_end != self.header_value_bytes
        ):
            raise _corrupt("The records are not those that were measured.")
        return self.buffers

    def null_counts(self) -> tuple[int, int, int]:
        """How many keys, values and header values are null."""
        return self.key_nulls, self.value_nulls, self.header_value_nulls

    @cython.cfunc
    def _allocate(self) -> cython.void:
        rows: cython.Py_ssize_t = self.rows
        self.offsets = _int64s(self._buffer("offsets", 8 * rows))
        self.timestamps = _int64s(self._buffer("timestamps", 8 * rows))
        self.key_offsets = _int32s(self._buffer("key_offsets", 4 * (rows + 1)))
        self.key_data = _bytes(self._buffer("key_data", self.key_bytes))
        self.key_validity = _bytes(self._buffer("key_validity", (rows + 7) // 8))
        self.value_offsets = _int32s(self._buffer("value_offsets", 4 * (rows + 1)))
        self.value_data = _bytes(self._buffer("value_data", self.value_bytes))
        self.value_validity = _bytes(self._buffer("value_validity", (rows + 7) // 8))
        self.key_offsets[0] = self.value_offsets[0] = 0
        if self.with_headers:
            self._allocate_headers()

    @cython.cfunc
    def _allocate_headers(self) -> cython.void:
        headers: cython.Py_ssize_t = self.headers
        self.header_offsets = _int32s(self._buffer("header_offsets", 4 * (self.rows + 1)))
        self.header_key_offsets = _int32s(self._buffer("header_key_offsets", 4 * (headers + 1)))
        self.header_key_data = _bytes(self._buffer("header_key_data", self.header_key_bytes))
        self.header_value_offsets = _int32s(self._buffer("header_value_offsets", 4 * (headers + 1)))
        self.header_value_data = _bytes(self._buffer("header_value_data", self.header_value_bytes))
        self.header_value_validity = _bytes(self._buffer("header_value_validity", (headers + 7) // 8))
        self.header_offsets[0] = self.header_key_offsets[0] = self.header_value_offsets[0] = 0

    @cython.cfunc
    def _buffer(self, name: str, size: cython.Py_ssize_t) -> object:
        buffer: object
        if self.allocate is not None:
            buffer = self.allocate(size)
            assert len(buffer) == size
        elif cython.compiled:
            buffer = PyByteArray_FromStringAndSize(cython.NULL, size)
        else:
            buffer = bytearray(size)
        self.buffers[name] = buffer
        return buffer

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure(self, data: cython.p_uchar, end: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """-1, or the index of the record that is malformed; bytes behind the last one count as one more record."""
        index: cython.Py_ssize_t
        pos: cython.Py_ssize_t = 0
        stop: cython.Py_ssize_t
        size: cython.longlong
        for index in range(count):
            size, pos = _read_varint(data, pos, end)
            if pos < 0 or size < MIN_RECORD_SIZE - 1 or size > end - pos:
                return index
            stop = pos + size
            size, pos = _read_varint(data, pos + 1, stop)
            if pos < 0:
                return index
            size, pos = _read_varint(data, pos, stop)
            if pos < 0:
                return index
            size, pos = _read_varint(data, pos, stop)
            if pos < 0 or size < -1 or size > stop - pos:
                return index
            if size > 0:
                self.key_bytes += size
                pos += size
            size, pos = _read_varint(data, pos, stop)
            if pos < 0 or size < -1 or size > stop - pos:
                return index
            if size > 0:
                self.value_bytes += size
                pos += size
            if not self._walk_headers(data, pos, stop, False):
                return index
            pos = stop
        return -1 if pos == end else count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _add(
        self,
        data: cython.p_uchar,
        end: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        base_offset: cython.longlong,
        last_offset_delta: cython.longlong,
        base_timestamp: cython.longlong,
        is_append_time: cython.bint,
    ) -> cython.Py_ssize_t:
        """-1, or the index of the record that is malformed or was not so when it was measured."""
        index: cython.Py_ssize_t
        row: cython.Py_ssize_t = self.row
        pos: cython.Py_ssize_t = 0
        stop: cython.Py_ssize_t
        size: cython.longlong
        delta: cython.longlong
        for index in range(count):
            size, pos = _read_varint(data, pos, end)
            if pos < 0 or size < MIN_RECORD_SIZE - 1 or size > end - pos:
                return index
            stop = pos + size
            delta, pos = _read_varint(data, pos + 1, stop)  # the byte of attributes means nothing yet
            if is_append_time:
                delta = 0
            if pos < 0 or not _sum_fits(base_timestamp, delta):
                return index
            self.timestamps[row] = base_timestamp + delta
            delta, pos = _read_varint(data, pos, stop)
            if pos < 0 or delta < 0 or delta > last_offset_delta:
                return index
            self.offsets[row] = base_offset + delta
            pos = self._add_key_and_value(data, pos, stop, row)
            if pos < 0 or not self._walk_headers(data, pos, stop, True):
                return index
            if self.with_headers:
                self.header_offsets[row + 1] = self.header
            pos = stop
            row += 1
        return -1 if pos == end else count

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _add_key_and_value(
        self, data: cython.p_uchar, pos: cython.Py_ssize_t, stop: cython.Py_ssize_t, row: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """The position behind the value, or -1."""
        size: cython.longlong
        bit: cython.uchar = 1 << (row & 7)
        if bit == 1:
            self.key_validity[row >> 3] = self.value_validity[row >> 3] = 0
        size, pos = _read_varint(data, pos, stop)
        if pos < 0 or size < -1 or size > stop - pos or size > self.key_bytes - self.key_end:
            return -1
        if size >= 0:
            _copy(self.key_data, self.key_end, data, pos, size)
            self.key_end += size
            self.key_validity[row >> 3] |= bit
            pos += size
        else:
            self.key_nulls += 1
        self.key_offsets[row + 1] = self.key_end
        size, pos = _read_varint(data, pos, stop)
        if pos < 0 or size < -1 or size > stop - pos or size > self.value_bytes - self.value_end:
            return -1
        if size >= 0:
            _copy(self.value_data, self.value_end, data, pos, size)
            self.value_end += size
            self.value_validity[row >> 3] |= bit
            pos += size
        else:
            self.value_nulls += 1
        self.value_offsets[row + 1] = self.value_end
        return pos

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _walk_headers(
        self, data: cython.p_uchar, pos: cython.Py_ssize_t, stop: cython.Py_ssize_t, is_adding: cython.bint
    ) -> cython.bint:
        """The headers must end where the record does. They are checked also when nobody wants them."""
        index: cython.Py_ssize_t
        count: cython.longlong
        count, pos = _read_varint(data, pos, stop)
        if pos < 0 or count < 0 or count > (stop - pos) >> 1:  # a header takes two bytes or more
            return False
        for index in range(count):  # noqa: B007 a typed variable makes it a loop of C
            pos = self._walk_header(data, pos, stop, is_adding)
            if pos < 0:
                return False
        return pos == stop

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _walk_header(
        self, data: cython.p_uchar, pos: cython.Py_ssize_t, stop: cython.Py_ssize_t, is_adding: cython.bint
    ) -> cython.Py_ssize_t:
        """The position behind the header, or -1."""
        key_at: cython.Py_ssize_t
        key_size: cython.longlong
        size: cython.longlong
        key_size, key_at = _read_varint(data, pos, stop)
        if key_at < 0 or key_size < 0 or key_size > stop - key_at:
            return -1
        size, pos = _read_varint(data, key_at + key_size, stop)
        if pos < 0 or size < -1 or size > stop - pos:
            return -1
        if self.with_headers:
            if not is_adding:
                self.headers += 1
                self.header_key_bytes += key_size
                self.header_value_bytes += max(size, 0)
            elif not self._add_header(data, key_at, key_size, pos, size):
                return -1
        return pos + size if size > 0 else pos

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _add_header(
        self,
        data: cython.p_uchar,
        key_at: cython.Py_ssize_t,
        key_size: cython.Py_ssize_t,
        value_at: cython.Py_ssize_t,
        value_size: cython.Py_ssize_t,
    ) -> cython.bint:
        """False when it was not so when it was measured."""
        header: cython.Py_ssize_t = self.header
        bit: cython.uchar = 1 << (header & 7)
        if (
            header >= self.headers
            or key_size > self.header_key_bytes - self.header_key_end
            or value_size > self.header_value_bytes - self.header_value_end
        ):
            return False
        if bit == 1:
            self.header_value_validity[header >> 3] = 0
        _copy(self.header_key_data, self.header_key_end, data, key_at, key_size)
        self.header_key_end += key_size
        self.header_key_offsets[header + 1] = self.header_key_end
        if value_size >= 0:
            _copy(self.header_value_data, self.header_value_end, data, value_at, value_size)
            self.header_value_end += value_size
            self.header_value_validity[header >> 3] |= bit
        else:
            self.header_value_nulls += 1
        self.header_value_offsets[header + 1] = self.header_value_end
        self.header = header + 1
        return True


@cython.final
@cython.cclass
class Binary:
    """A column of bytes to be encoded: Arrow's binary layout; no validity bits mean that nothing is null."""

    owners: tuple
    data: cython.p_uchar
    data_size: cython.Py_ssize_t
    offsets: cython.p_int
    validity: cython.p_uchar
    has_validity: cython.bint
    rows: cython.Py_ssize_t

    def __init__(
        self,
        data: cython.const[cython.uchar][::1],
        offsets: cython.const[cython.int][::1],
        validity: cython.const[cython.uchar][::1] | None,
    ) -> None:
        self.owners = (data, offsets, validity)
        self.rows = len(offsets) - 1
        self.data_size = len(data)
        self.has_validity = validity is not None
        if self.rows < 0 or (validity is not None and len(validity) < (self.rows + 7) // 8):
            raise ValueError("A column needs one offset more than it has rows, and a validity bit for each row.")
        if cython.compiled:
            self.data = cython.cast(cython.p_uchar, cython.address(data[0]))
            self.offsets = cython.cast(cython.p_int, cython.address(offsets[0]))
            if validity is not None:
                self.validity = cython.cast(cython.p_uchar, cython.address(validity[0]))
        else:
            self.data = data
            self.offsets = offsets
            self.validity = validity

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _size(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """How many bytes the row has; -1 when it is null, -2 when its offsets are not inside the data."""
        start: cython.Py_ssize_t
        stop: cython.Py_ssize_t
        if self.has_validity and not (self.validity[row >> 3] >> (row & 7)) & 1:
            return -1
        start = self.offsets[row]
        stop = self.offsets[row + 1]
        if start < 0 or stop < start or stop > self.data_size:
            return -2
        return stop - start


@cython.final
@cython.cclass
class Encoder:
    """Columns to records: `fit` says which rows make the next batch, `write` writes them."""

    rows: cython.Py_ssize_t
    owners: tuple
    timestamps: cython.p_longlong
    has_keys: cython.bint
    keys: Binary
    values: Binary
    has_headers: cython.bint
    header_offsets: cython.p_int
    header_keys: Binary
    header_values: Binary

    def __init__(
        self,
        timestamps: cython.const[cython.longlong][::1],
        keys: Binary | None,
        values: Binary,
        header_offsets: cython.const[cython.int][::1] | None = None,
        header_keys: Binary | None = None,
        header_values: Binary | None = None,
    ) -> None:
        self.rows = len(timestamps)
        self.owners = (timestamps, header_offsets)
        self.has_keys = keys is not None
        self.has_headers = header_offsets is not None
        self.values = values
        self.keys = keys if keys is not None else values
        self.header_keys = header_keys if header_keys is not None else values
        self.header_values = header_values if header_values is not None else values
        if self.values.rows != self.rows or self.keys.rows != self.rows:
            raise ValueError("All columns must have the same number of rows.")
        if self.header_keys.rows != self.header_values.rows:
            raise ValueError("There must be as many header keys as header values.")
        if header_offsets is not None and len(header_offsets) != self.rows + 1:
            raise ValueError("Headers need one offset more than there are rows.")
        if cython.compiled:
            self.timestamps = cython.cast(cython.p_longlong, cython.address(timestamps[0]))
            if header_offsets is not None:
                self.header_offsets = cython.cast(cython.p_int, cython.address(header_offsets[0]))
        else:
            self.timestamps = timestamps
            self.header_offsets = header_offsets

    def fit(
        self, start: cython.Py_ssize_t, most_bytes: cython.Py_ssize_t, most_rows: cython.Py_ssize_t
    ) -> tuple[int, int, int]:
        """The rows from `start` that make the next batch: (row behind the last, bytes, largest timestamp).

        At least one row, however large it is.
        """
        stop: cython.Py_ssize_t = start
        total: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t = 0
        latest: cython.longlong = MIN_INT64
        if start < 0 or start >= self.rows:
            raise ValueError(f"There is no row {start}.")
        with cython.nogil:
            while stop < self.rows and (stop == start or stop - start < most_rows):
                size = self._size(stop, start)
                if size < 0:
                    break
                size += _varint_size(size)
                if stop > start and total + size > most_bytes:
                    break
                total += size
                latest = max(latest, self.timestamps[stop])
                stop += 1
        if size < 0:
            raise ValueError(f"Row {stop} has an offset out of its column, or is too large for a record.")
        return stop, total, latest

    def write(
        self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, out: cython.uchar[::1], pos: cython.Py_ssize_t
    ) -> int:
        """The rows as records, from `pos` in `out`; the position behind them."""
        target: cython.p_uchar
        end: cython.Py_ssize_t = len(out)
        row: cython.Py_ssize_t
        if start < 0 or start > stop or stop > self.rows or pos < 0:
            raise ValueError(f"There are no rows {start} to {stop}.")
        if cython.compiled:
            target = cython.address(out[0])
        else:
            target = out
        with cython.nogil:
            for row in range(start, stop):
                pos = self._write(row, start, target, pos, end)
                if pos < 0:
                    break
        if pos < 0:
            raise ValueError("The rows do not fit, or are not those that were measured.")
        return pos

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _size(self, row: cython.Py_ssize_t, first: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The bytes of a record behind its length, or -1 when a column is wrong."""
        base: cython.longlong = self.timestamps[first]
        timestamp: cython.longlong = self.timestamps[row]
        size: cython.Py_ssize_t
        key_size: cython.Py_ssize_t = -1
        value_size: cython.Py_ssize_t
        if not _difference_fits(timestamp, base):
            return -1
        if self.has_keys:
            key_size = self.keys._size(row)
        value_size = self.values._size(row)
        if key_size < -1 or value_size < -1:
            return -1
        size = 1 + _varint_size(timestamp - base) + _varint_size(row - first)
        size += _varint_size(key_size) + max(key_size, 0) + _varint_size(value_size) + max(value_size, 0)
        if self.has_headers:
            value_size = self._headers_size(row)
            if value_size < 0:
                return -1
            size += value_size
        else:
            size += 1
        return size if size <= MAX_INT32 else -1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _headers_size(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        start: cython.Py_ssize_t = self.header_offsets[row]
        stop: cython.Py_ssize_t = self.header_offsets[row + 1]
        header: cython.Py_ssize_t
        key_size: cython.Py_ssize_t
        value_size: cython.Py_ssize_t
        size: cython.Py_ssize_t
        if start < 0 or stop < start or stop > self.header_keys.rows:
            return -1
        size = _varint_size(stop - start)
        for header in range(start, stop):
            key_size = self.header_keys._size(header)
            value_size = self.header_values._size(header)
            if key_size < 0 or value_size < -1:
                return -1
            size += _varint_size(key_size) + key_size + _varint_size(value_size) + max(value_size, 0)
        return size

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _write(
        self,
        row: cython.Py_ssize_t,
        first: cython.Py_ssize_t,
        out: cython.p_uchar,
        pos: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """The position behind the record, or -1 when it has no room before `end`."""
        header: cython.Py_ssize_t
        size: cython.Py_ssize_t = self._size(row, first)
        if size < 0 or size + _varint_size(size) > end - pos:
            return -1
        pos = _write_varint(out, pos, size)
        out[pos] = 0
        pos = _write_varint(out, pos + 1, self.timestamps[row] - self.timestamps[first])
        pos = _write_varint(out, pos, row - first)
        if self.has_keys:
            pos = _write_bytes(self.keys, row, out, pos)
        else:
            pos = _write_varint(out, pos, -1)
        pos = _write_bytes(self.values, row, out, pos)
        if not self.has_headers:
            out[pos] = 0
            return pos + 1
        pos = _write_varint(out, pos, self.header_offsets[row + 1] - self.header_offsets[row])
        for header in range(self.header_offsets[row], self.header_offsets[row + 1]):
            pos = _write_bytes(self.header_keys, header, out, pos)
            pos = _write_bytes(self.header_values, header, out, pos)
        return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _write_bytes(
    column: Binary, row: cython.Py_ssize_t, out: cython.p_uchar, pos: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    size: cython.Py_ssize_t = column._size(row)
    pos = _write_varint(out, pos, size)
    if size > 0:
        _copy(out, pos, column.data, column.offsets[row], size)
        pos += size
    return pos


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _write_varint(out: cython.p_uchar, pos: cython.Py_ssize_t, value: cython.longlong) -> cython.Py_ssize_t:
    raw: cython.ulonglong = (value << 1) ^ (value >> 63)
    while raw >= 0x80:
        out[pos] = (raw & 0x7F) | 0x80
        raw >>= 7
        pos += 1
    out[pos] = raw
    return pos + 1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _varint_size(value: cython.longlong) -> cython.Py_ssize_t:
    raw: cython.ulonglong = (value << 1) ^ (value >> 63)
    size: cython.Py_ssize_t = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _difference_fits(value: cython.longlong, base: cython.longlong) -> cython.bint:
    """Whether `value - base` is an int64, see `_sum_fits`."""
    if base >= 0:
        return value >= MIN_INT64 + base
    return value <= MAX_INT64 + base


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _read_varint(
    data: cython.p_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """The zigzag varint at `pos` and the position behind it; that is -1 when it does not end in time."""
    raw: cython.longlong
    second: cython.longlong
    if pos + 1 < end:  # one byte or two, in line: nearly all are this short
        raw = data[pos]
        if raw < 0x80:
            return (raw >> 1) ^ -(raw & 1), pos + 1
        second = data[pos + 1]
        if second < 0x80:
            raw = (raw & 0x7F) | (second << 7)
            return (raw >> 1) ^ -(raw & 1), pos + 2
    return _read_long_varint(data, pos, end)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _read_long_varint(
    data: cython.p_uchar, pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    byte: cython.ulonglong
    raw: cython.ulonglong = 0
    half: cython.longlong
    sign: cython.longlong
    shift: cython.int = 0
    while pos < end and shift < 64:
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == 63 and byte > 1:
                return 0, -1
            half = raw >> 1
            sign = raw & 1
            return half ^ -sign, pos
        shift += 7
    return 0, -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    data: cython.p_uchar,
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    if cython.compiled:
        memcpy(out + at, data + start, size)
    else:
        out[at : at + size] = data[start : start + size]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sum_fits(base: cython.longlong, delta: cython.longlong) -> cython.bint:
    """Whether the sum is an int64: C would wrap round without a word, Python would not."""
    if delta >= 0:
        return base <= MAX_INT64 - delta
    return base >= MIN_INT64 - delta


@cython.cfunc
def _bytes(buffer: object) -> cython.p_uchar:
    view: cython.uchar[::1]
    if cython.compiled:
        view = buffer
        return cython.address(view[0])
    else:
        return memoryview(buffer)


@cython.cfunc
def _int32s(buffer: object) -> cython.p_int:
    if cython.compiled:
        return cython.cast(cython.p_int, _bytes(buffer))
    else:
        return memoryview(buffer).cast("i")


@cython.cfunc
def _int64s(buffer: object) -> cython.p_longlong:
    if cython.compiled:
        return cython.cast(cython.p_longlong, _bytes(buffer))
    else:
        return memoryview(buffer).cast("q")


def _corrupt(message: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
