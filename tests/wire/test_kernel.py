"""The kernel, compiled and as plain Python: the same columns, the same batches, the same refusals."""

from __future__ import annotations

import array
import random
import sys
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernels import forms, load_source
from penstock.errors import ErrorCode, KafkaError
from penstock.wire import columns as columns_module
from penstock.wire import kernel as installed_kernel
from penstock.wire.batch_builder import ControlType, EndTxnMarker, build_batch, build_end_txn_marker
from penstock.wire.columns import BinaryColumn, Columns, HeaderColumns, decode_columns, encode_columns
from penstock.wire.record import Record, iterate_records
from penstock.wire.records import Codec, check_batch, check_produced, set_log_append_time

KERNELS = forms(installed_kernel)


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Each kernel in turn, also under `columns`."""
    for name in ("Binary", "Decoder", "Encoder"):
        monkeypatch.setattr(columns_module, name, getattr(request.param, name))
    return request.param


maybe_bytes = st.none() | st.binary(max_size=200)
header_lists = st.lists(st.tuples(st.text(max_size=8), maybe_bytes), max_size=3).map(tuple)
rows = st.tuples(st.integers(-1, 2**50), maybe_bytes, maybe_bytes, header_lists)
row_lists = st.lists(rows, min_size=1, max_size=30)
each_kernel = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def records_of(row_list: list[tuple], base_offset: int = 0) -> list[Record]:
    return [Record(base_offset + i, *row) for i, row in enumerate(row_list)]


def to_rows(columns: Columns) -> list[Record]:
    """What Arrow makes of the buffers: the layout is right when Arrow agrees."""
    count = columns.row_count
    offsets = arrow(pa.int64(), count, [None, columns.offsets])
    timestamps = arrow(pa.int64(), count, [None, columns.timestamps])
    keys = binary(columns.keys, count)
    values = binary(columns.values, count)
    headers: list = [()] * count
    if columns.headers is not None:
        header_count = len(columns.headers.keys.offsets) // 4 - 1
        pairs = pa.StructArray.from_arrays(
            [
                arrow(pa.string(), header_count, [None, columns.headers.keys.offsets, columns.headers.keys.data]),
                binary(columns.headers.values, header_count),
            ],
            fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())],
        )
        listed = pa.ListArray.from_arrays(arrow(pa.int32(), count + 1, [None, columns.headers.offsets]), pairs)
        listed.validate(full=True)
        headers = [tuple((pair["key"], pair["value"]) for pair in row) for row in listed.to_pylist()]
    lists = [column.to_pylist() for column in (offsets, timestamps, keys, values)]
    return [Record(*row) for row in zip(*lists, headers, strict=True)]


def arrow(kind: pa.DataType, count: int, buffers: list) -> pa.Array:
    made = pa.Array.from_buffers(kind, count, [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers])
    made.validate(full=True)
    return made


def binary(column: BinaryColumn | None, count: int) -> pa.Array:
    assert column is not None
    made = arrow(pa.binary(), count, [column.validity, column.offsets, column.data])
    assert made.null_count == column.null_count
    return made


def to_columns(batch_records: list[Record]) -> Columns:
    """Columns as a user of Arrow has them."""
    headers = pa.array([value for record in batch_records for _, value in record.headers], pa.binary())
    header_keys = pa.array([key for record in batch_records for key, _ in record.headers], pa.string())
    ends = array.array("i", [0])
    for record in batch_records:
        ends.append(ends[-1] + len(record.headers))
    return Columns(
        len(batch_records),
        array.array("q", [record.timestamp for record in batch_records]).tobytes(),
        column_of(pa.array([record.value for record in batch_records], pa.binary())),
        column_of(pa.array([record.key for record in batch_records], pa.binary())),
        HeaderColumns(ends.tobytes(), column_of(header_keys), column_of(headers)),
    )


def column_of(made: pa.Array) -> BinaryColumn:
    validity, offsets, data = made.buffers()
    offsets = memoryview(offsets or bytes(4)).cast("B")[: 4 * (len(made) + 1)]
    return BinaryColumn(memoryview(data or b""), offsets, None if validity is None else memoryview(validity))


@pytest.mark.parametrize("codec", list(Codec))
@each_kernel
@given(row_list=row_lists, base_offset=st.integers(0, 2**60))
def test_batches_become_columns(kernel: ModuleType, codec: Codec, row_list: list[tuple], base_offset: int) -> None:
    first = records_of(row_list, base_offset)
    second = records_of(row_list[::-1], base_offset + 1000)
    batches = build_batch(first, codec=codec) + build_batch(second, codec=codec)
    assert to_rows(decode_columns(batches, with_headers=True)) == first + second
    without = [record._replace(headers=()) for record in first + second]
    assert to_rows(decode_columns(batches)) == without


@pytest.mark.parametrize("codec", list(Codec))
@each_kernel
@given(row_list=row_lists, target=st.integers(1, 2_000), most=st.integers(1, 20))
def test_columns_become_batches(
    kernel: ModuleType, codec: Codec, row_list: list[tuple], target: int, most: int
) -> None:
    expected = records_of(row_list)
    found: list[Record] = []
    sequence = 5
    for batch in encode_columns(
        to_columns(expected), codec=codec, target_bytes=target, max_records=most, producer_id=9, base_sequence=5
    ):
        header = check_batch(batch, 0, len(batch))
        check_produced(header)
        assert (header.base_sequence, header.producer_id) == (sequence, 9)
        assert header.record_count <= most
        part = list(iterate_records(batch))
        assert header.max_timestamp == max(record.timestamp for record in part)
        found += [record._replace(offset=len(found) + record.offset) for record in part]
        sequence += header.record_count
    assert found == expected


@each_kernel
@given(row_list=row_lists)
def test_the_kernel_writes_the_bytes_that_the_builder_writes(kernel: ModuleType, row_list: list[tuple]) -> None:
    expected = records_of(row_list)
    assert list(encode_columns(to_columns(expected))) == [build_batch(expected)]


def test_append_time_and_control_batches_and_unwanted_ones(kernel: ModuleType) -> None:
    plain = build_batch([Record(0, 1, b"a", b"b")])
    stamped = build_batch([Record(1, 5, None, b"c"), Record(2, 6, None, b"")])
    set_log_append_time(stamped, 0, 99)
    marker = EndTxnMarker(ControlType.COMMIT, 1)
    control = build_end_txn_marker(marker, producer_id=1, producer_epoch=1, timestamp=3, base_offset=3)
    aborted = build_batch([Record(4, 7, None, b"no")], producer_id=66, is_transactional=True)
    batches = plain + stamped + control + aborted + plain[:-1]
    rows_found = to_rows(decode_columns(batches, is_wanted=lambda header: header.producer_id != 66))
    assert rows_found == [Record(0, 1, b"a", b"b"), Record(1, 99, None, b"c"), Record(2, 99, None, b"")]


def test_no_batches_are_no_rows(kernel: ModuleType) -> None:
    empty = decode_columns(b"", with_headers=True)
    assert to_rows(empty) == []
    assert list(encode_columns(empty)) == []


def test_keys_may_be_missing_as_a_whole(kernel: ModuleType) -> None:
    values = BinaryColumn(b"abc", array.array("i", [0, 1, 3]).tobytes())
    (batch,) = encode_columns(Columns(2, array.array("q", [7, 3]).tobytes(), values))
    assert list(iterate_records(batch)) == [Record(0, 7, None, b"a"), Record(1, 3, None, b"bc")]


def test_a_wrong_checksum_is_found_unless_nobody_asks(kernel: ModuleType) -> None:
    batch = build_batch([Record(0, 1, b"key", b"value")])
    batch[batch.index(b"value")] ^= 1
    assert refused(lambda: decode_columns(batch)) is ErrorCode.CORRUPT_MESSAGE
    assert decode_columns(batch, check_crcs=False).row_count == 1


def test_all_bombs_of_a_call_share_one_limit(kernel: ModuleType) -> None:
    bomb = build_batch([Record(0, 1, None, bytes(1 << 20))], codec=Codec.ZSTD)
    assert decode_columns(bomb * 3, limit=4 << 20).row_count == 3
    assert refused(lambda: decode_columns(bomb * 4, limit=4 << 20)) is ErrorCode.CORRUPT_MESSAGE


def test_header_keys_are_made_utf8(kernel: ModuleType) -> None:
    batch = build_batch([Record(0, 0, None, None, (("ok", b""), ("abc", b"x"), ("é", None)))])
    batch[batch.index(b"abc")] = 0xFF
    (row,) = to_rows(decode_columns(batch, with_headers=True, check_crcs=False))
    assert row.headers == (("ok", b""), ("�bc", b"x"), ("é", None))


def refused(call: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()  # type: ignore[operator]
    return caught.value.code


@pytest.mark.parametrize("with_headers", [False, True])
def test_damaged_records_are_refused_or_read_as_the_iterator_reads_them(kernel: ModuleType, with_headers: bool) -> None:
    """The iterator is the plain statement of the format; the kernel must agree with it on every damaged batch."""
    chance = random.Random(5)
    whole = [
        Record(i, 1_000 - i, b"k" * i or None, b"value" * 3, (("h", b"x"), ("i", None))[: i % 3]) for i in range(6)
    ]
    batch = build_batch(whole)
    for _ in range(3_000):
        damaged = bytearray(batch)
        for _ in range(chance.choice((1, 1, 2, 4))):
            damaged[chance.randrange(17, len(damaged))] = chance.choice(
                (0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
        damaged[21:23] = bytes(2)  # attributes: neither a codec nor control
        try:
            expected = list(iterate_records(damaged))
        except KafkaError as error:
            assert refused(lambda d=damaged: decode_columns(d, check_crcs=False)) is error.code  # noqa: PT017 both refuse
            continue
        found = to_rows(decode_columns(damaged, with_headers=with_headers, check_crcs=False))
        assert found == (expected if with_headers else [record._replace(headers=()) for record in expected])


def test_noise_never_reads_past_the_end(kernel: ModuleType) -> None:
    chance = random.Random(9)
    for _ in range(2_000):
        size = chance.randrange(60)
        noise = memoryview(bytes(chance.choice((0, 1, 2, 12, 0x80, 0xFF, chance.randrange(256))) for _ in range(size)))
        decoder = kernel.Decoder(True)
        count = chance.randrange(-1, 9)
        try:
            decoder.measure(noise, count)
            decoder.add(noise, count, 0, 100, 0, False)
            assert len(decoder.columns()["value_data"]) <= size
        except KafkaError as error:
            assert error.code is ErrorCode.CORRUPT_MESSAGE  # noqa: PT017 either outcome is right


def test_bytes_that_change_between_the_passes_are_refused(kernel: ModuleType) -> None:
    small = memoryview(build_batch([Record(0, 0, b"", b"v", (("a", b""),))]))[61:]
    large = memoryview(build_batch([Record(0, 0, b"k" * 99, b"v" * 99, (("a" * 99, b"b" * 99),) * 2)]))[61:]
    for first, second in ((small, large), (large, small)):
        decoder = kernel.Decoder(True)
        decoder.measure(first, 1)
        assert refused(lambda d=decoder, s=second: (d.add(s, 1, 0, 0, 0, False), d.columns()))


def test_more_rows_than_were_measured_are_refused(kernel: ModuleType) -> None:
    section = memoryview(build_batch([Record(0, 0, None, b"v")]))[61:]
    decoder = kernel.Decoder(False)
    decoder.measure(section, 1)
    decoder.add(section, 1, 0, 0, 0, False)
    assert refused(lambda: decoder.add(section, 1, 0, 0, 0, False)) is ErrorCode.CORRUPT_MESSAGE


def test_times_and_offsets_that_no_int64_holds_are_refused(kernel: ModuleType) -> None:
    section = memoryview(build_batch([Record(0, 0, None, b""), Record(1, 5, None, b"")]))[61:]
    for base_offset, last_delta, base_timestamp in ((2**63 - 1, 1, 0), (0, 1, 2**63 - 1), (-1, 1, 0), (0, 0, 0)):
        decoder = kernel.Decoder(False)
        decoder.measure(section, 2)
        assert refused(
            lambda d=decoder, o=base_offset, n=last_delta, t=base_timestamp: d.add(section, 2, o, n, t, False)
        )


@pytest.mark.parametrize("offsets", [[0, -1], [2, 1], [0, 4], [-5, 2], [2**31 - 1, 2**31 - 1], [0], [], [0, 1, 2]])
def test_columns_that_do_not_fit_together_are_a_value_error(kernel: ModuleType, offsets: list[int]) -> None:
    bad = BinaryColumn(b"abc", array.array("i", offsets).tobytes())
    good = BinaryColumn(b"abc", array.array("i", [0, 3]).tobytes())
    one = array.array("q", [1]).tobytes()
    headers = array.array("i", [0, 1]).tobytes()
    for columns in (
        Columns(1, one, bad),
        Columns(1, one, good, bad),
        Columns(1, one, good, None, HeaderColumns(headers, bad, good)),
        Columns(1, one, good, None, HeaderColumns(headers, good, bad)),
        Columns(1, one, good, None, HeaderColumns(bad.offsets, good, good))
        if offsets != [0, -1]
        else Columns(2, one, good),
    ):
        with pytest.raises(ValueError):
            list(encode_columns(columns))


def test_timestamps_too_far_apart_and_short_validity_are_a_value_error(kernel: ModuleType) -> None:
    nine = array.array("i", range(10)).tobytes()
    times = array.array("q", [-(2**63)] + [2**63 - 1] * 8).tobytes()
    with pytest.raises(ValueError, match="Row 1"):
        list(encode_columns(Columns(9, times, BinaryColumn(b"x" * 9, nine))))
    with pytest.raises(ValueError, match="validity"):
        list(encode_columns(Columns(9, bytes(72), BinaryColumn(b"x" * 9, nine, b"\xff"))))


def test_writing_outside_the_target_is_refused(kernel: ModuleType) -> None:
    values = kernel.Binary(memoryview(b"abc"), memoryview(array.array("i", [0, 3])), None)
    encoder = kernel.Encoder(memoryview(array.array("q", [1])), None, values)
    _, size, _ = encoder.fit(0, 100, 100)
    assert encoder.write(0, 1, memoryview(bytearray(size)), 0) == size
    for room, pos in ((size - 1, 0), (size, 1), (size, -1), (0, 0), (size, size), (size, size + 1)):
        with pytest.raises(ValueError):
            encoder.write(0, 1, memoryview(bytearray(room)), pos)
    for start, stop in ((-1, 1), (0, 2), (1, 0)):
        with pytest.raises(ValueError):
            encoder.write(start, stop, memoryview(bytearray(100)), 0)
    for start in (-1, 1):
        with pytest.raises(ValueError):
            encoder.fit(start, 10, 10)


def test_columns_may_be_made_in_memory_that_is_given(kernel: ModuleType) -> None:
    given_memory = []

    def allocate(size: int) -> memoryview:
        given_memory.append(memoryview(bytearray(b"\xff" * size)))
        return given_memory[-1]

    expected = [Record(i, i, b"k" if i % 2 else None, b"v%d" % i, (("h", None),)) for i in range(20)]
    columns = decode_columns(build_batch(expected), with_headers=True, allocate=allocate)
    assert columns.values.data is given_memory[6]
    assert bytes(columns.values.data) == b"".join(record.value or b"" for record in expected)
    assert columns == decode_columns(build_batch(expected), with_headers=True)


def test_a_record_larger_than_the_target_gets_a_batch_of_its_own(kernel: ModuleType) -> None:
    expected = [Record(i, 0, None, b"x" * size) for i, size in enumerate((10, 500, 10, 10))]
    counts = [
        check_batch(batch, 0, len(batch)).record_count
        for batch in encode_columns(to_columns(expected), target_bytes=100)
    ]
    assert counts == [1, 1, 2]


def test_the_source_needs_no_cython_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cython", None)
    plain = load_source("kernel")
    section = memoryview(build_batch([Record(0, 0, None, b"v")]))[61:]
    decoder = plain.Decoder(False)
    decoder.measure(section, 1)
    decoder.add(section, 1, 0, 0, 0, False)
    assert decoder.columns()["value_data"] == b"v"
