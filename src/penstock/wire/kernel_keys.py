# cython: language_level=3, boundscheck=False, wraparound=False
# mypy: ignore-errors
"""The key kernel: which partition each key of a column goes to, as other clients choose. Compiled where possible.

The same file runs as plain Python, see `kernel`. A column has Arrow's layout: data, int32 offsets (one more than rows)
and validity bits (lowest first), or None when nothing is null.

    CRC-32     of librdkafka's `consistent_random`, so confluent-kafka's default; an empty key is none
    murmur2    of Java's client and librdkafka's `murmur2_random`; an empty key is a key

Rules: an offset out of its column is refused before it is followed. The loop holds no GIL. Where a row has no key the
partition is NO_PARTITION: the caller decides.
"""

from __future__ import annotations

import array

try:
    import cython
except ImportError:
    from penstock.wire import uncompiled as cython

COMPILED = cython.compiled
NO_PARTITION = -1
MAX_PARTITIONS = 0x7FFFFFFF
CRC_POLYNOMIAL = 0xEDB88320
MAX_UINT32 = cython.declare(cython.longlong, 0xFFFFFFFF)
MURMUR2_SEED = cython.declare(cython.longlong, 0x9747B28C)


def _crc_table() -> array.array:
    """The remainders of all bytes for zlib's CRC-32."""
    remainders = list(range(256))
    for _ in range(8):
        remainders = [value >> 1 ^ (CRC_POLYNOMIAL if value & 1 else 0) for value in remainders]
    return array.array("I", remainders)


_CRC_TABLE = _crc_table()


def choose_partitions(
    data: cython.const[cython.uchar][::1],
    offsets: cython.const[cython.int][::1],
    validity: cython.const[cython.uchar][::1] | None,
    partition_count: cython.longlong,
    is_murmur2: cython.bint,
    out: cython.int[::1],
) -> None:
    """The partition of each key by Java's murmur2 or librdkafka's CRC-32; NO_PARTITION where a row has no key."""
    row: cython.Py_ssize_t
    start: cython.Py_ssize_t
    size: cython.Py_ssize_t
    bad: cython.Py_ssize_t = -1
    rows: cython.Py_ssize_t = len(offsets) - 1
    end: cython.Py_ssize_t = len(data)
    has_nulls: cython.bint = validity is not None
    table: cython.const[cython.uint][::1] = _CRC_TABLE
    if rows < 0 or len(out) != rows or (validity is not None and len(validity) < (rows + 7) // 8):
        raise ValueError("A column of keys needs one offset more than there are partitions to choose.")
    if partition_count < 1 or partition_count > MAX_PARTITIONS:
        raise ValueError(f"A topic cannot have {partition_count} partitions.")
    with cython.nogil:
        for row in range(rows):
            out[row] = -1
            if has_nulls and not (validity[row >> 3] >> (row & 7)) & 1:
                continue
            start = offsets[row]
            size = offsets[row + 1] - start
            if start < 0 or size < 0 or size > end - start:
                bad = row
                break
            if is_murmur2:
                out[row] = (_murmur2(data, start, size) & 0x7FFFFFFF) % partition_count
            elif size > 0:
                out[row] = _crc32(data, start, size, table) % partition_count
    if bad >= 0:
        raise ValueError(f"Row {bad} has an offset out of its column.")


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _crc32(
    data: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    table: cython.const[cython.uint][::1],
) -> cython.longlong:
    value: cython.ulonglong = MAX_UINT32
    at: cython.Py_ssize_t
    for at in range(start, start + size):
        value = table[(value ^ data[at]) & 0xFF] ^ (value >> 8)
    return value ^ MAX_UINT32


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _murmur2(
    data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.longlong:
    """MurmurHash2 of 32 bits with the seed of Kafka's Java client; products stay below 64 bits and are cut to 32."""
    value: cython.ulonglong = MURMUR2_SEED
    word: cython.ulonglong
    byte: cython.ulonglong
    shift: cython.int
    at: cython.Py_ssize_t
    whole: cython.Py_ssize_t = start + (size >> 2 << 2)
    value ^= size & MAX_UINT32
    for at in range(start, whole, 4):
        byte = data[at + 3]
        word = data[at] | (data[at + 1] << 8) | (data[at + 2] << 16) | (byte << 24)
        word = (word * 0x5BD1E995) & MAX_UINT32
        word = ((word ^ (word >> 24)) * 0x5BD1E995) & MAX_UINT32
        value = ((value * 0x5BD1E995) & MAX_UINT32) ^ word
    if size & 3:
        shift = 0
        for at in range(whole, start + size):
            byte = data[at]
            value ^= byte << shift
            shift += 8
        value = (value * 0x5BD1E995) & MAX_UINT32
    value = ((value ^ (value >> 13)) * 0x5BD1E995) & MAX_UINT32
    return value ^ (value >> 15)
