"""The rows of a table that is written: which columns it may have, and their types as the encoder takes them.

    value      binary or string; null is a tombstone; must be there
    key        binary or string; null is no key
    headers    list<struct<key: string, value: binary or string>>; null is none
    topic      string; needed when the writer was given no topic, and ignored when it was
    partition  integer; null leaves the choice to the key
    timestamp  timestamp of any unit, without a time zone it is UTC; null is now

Other columns are left alone. What is wrong is a `SchemaError` before anything is sent. Nothing is copied where a type
is the encoder's already; strings and bytes have the same layout.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.client.arrow.schema import HEADER, HEADERS, SchemaError
from penstock.wire.columns import BinaryColumn, Columns, HeaderColumns

WRITABLE = ("key", "value", "headers", "topic", "partition", "timestamp")

MILLISECONDS = pa.timestamp("ms")

_TARGETS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "topic": pa.string(),
    "partition": pa.int32(),
    "timestamp": MILLISECONDS,
}


def check_schema(schema: pa.Schema, *, has_topic: bool) -> None:
    """SchemaError when a table of this schema cannot be written."""
    if "value" not in schema.names:
        raise SchemaError(f"There is no column 'value' (binary or string) among {_names(schema)}.")
    if not has_topic and "topic" not in schema.names:
        raise SchemaError(f"No topic is named, and there is no column 'topic' (string) among {_names(schema)}.")
    for name in WRITABLE:
        if schema.names.count(name) > 1:
            raise SchemaError(f"There are {schema.names.count(name)} columns {name!r}; one is expected.")
        if name in schema.names:
            _check_type(name, schema.field(name).type)


def _check_type(name: str, kind: pa.DataType) -> None:
    inner = kind.value_type if kinds.is_dictionary(kind) else kind
    match name:
        case "key" | "value":
            expected, is_right = "binary or string", _is_bytes(inner)
        case "topic":
            expected, is_right = "string", _is_bytes(inner)
        case "partition":
            expected, is_right = "an integer", kinds.is_integer(inner)
        case "timestamp":
            expected, is_right = "a timestamp", kinds.is_timestamp(inner)
        case _:
            expected, is_right = "list<struct<key: string, value: binary>>", _is_headers(inner)
    if not is_right and not kinds.is_null(inner):
        raise SchemaError(f"Column {name!r} is {kind}; {expected} is expected.{_advice(name)}")


def _advice(name: str) -> str:
    return " Encode it first, for example as JSON." if name in ("key", "value") else ""


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (
        kinds.is_binary,
        kinds.is_string,
        kinds.is_large_binary,
        kinds.is_large_string,
        kinds.is_fixed_size_binary,
        kinds.is_binary_view,
        kinds.is_string_view,
    )
    return any(test(kind) for test in tests)


def _is_headers(kind: pa.DataType) -> bool:
    if not (kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)):
        return False
    entry = kind.value_type
    return (
        kinds.is_struct(entry)
        and [entry.field(index).name for index in range(entry.num_fields)] == ["key", "value"]
        and all(_is_bytes(entry.field(index).type) or kinds.is_null(entry.field(index).type) for index in range(2))
    )


def rows_of(batch: pa.RecordBatch, *, has_topic: bool) -> pa.RecordBatch:
    """The columns that are written, in the types that the encoder takes."""
    check_schema(batch.schema, has_topic=has_topic)
    names = [name for name in WRITABLE if name in batch.schema.names and not (has_topic and name == "topic")]
    arrays = {name: _converted(name, batch.column(name)) for name in names}
    return pa.RecordBatch.from_pydict(arrays)


def _converted(name: str, column: pa.Array) -> pa.Array:
    target = _TARGETS[name]
    if column.type == target:
        return column
    try:
        if kinds.is_dictionary(column.type):
            column = column.dictionary_decode()
        if kinds.is_timestamp(column.type):
            # A time zone changes how a moment is shown, not which it is; what is finer than Kafka's ms is cut off.
            return column.cast(pa.timestamp(column.type.unit)).cast(target, safe=False)
        if kinds.is_fixed_size_list(column.type):
            column = column.cast(pa.list_(column.type.value_type))
        return column.cast(target)
    except pa.ArrowException as error:
        raise SchemaError(f"Column {name!r}, {column.type}, cannot be made {target}: {error}") from error


def encodable(rows: pa.RecordBatch, now_ms: int) -> Columns:
    """The buffers of the rows, for `encode_columns`."""
    names = rows.schema.names
    return Columns(
        rows.num_rows,
        _timestamps(rows, now_ms),
        _binary(rows.column("value")),
        _binary(rows.column("key")) if "key" in names else None,
        _headers(rows.column("headers")) if "headers" in names else None,
    )


def key_buffers(column: pa.Array) -> tuple[memoryview, memoryview, memoryview | None]:
    """Data, offsets and validity bits of a binary column, as the kernel takes them."""
    keys = _binary(column)
    validity = None if keys.validity is None else memoryview(keys.validity).cast("B")
    return memoryview(keys.data).cast("B"), memoryview(keys.offsets).cast("B").cast("i"), validity


def _timestamps(rows: pa.RecordBatch, now_ms: int) -> memoryview:
    if "timestamp" not in rows.schema.names:
        return _fixed(pa.repeat(pa.scalar(now_ms, pa.int64()), rows.num_rows), 8)
    column = rows.column("timestamp").cast(pa.int64())
    return _fixed(column.fill_null(now_ms) if column.null_count else column, 8)


def _fixed(column: pa.Array, width: int) -> memoryview:
    start = column.offset * width
    return memoryview(column.buffers()[1])[start : start + len(column) * width]


def _binary(column: pa.Array) -> BinaryColumn:
    """A slice shares its parent's bytes: only offsets and bits are those of its rows."""
    _, offsets, data = column.buffers()
    start = column.offset * 4
    return BinaryColumn(
        memoryview(data) if data is not None else b"",
        memoryview(offsets)[start : start + 4 * (len(column) + 1)] if len(column) else bytes(4),
        _validity(column),
        column.null_count,
    )


def _validity(column: pa.Array) -> memoryview | None:
    if not column.null_count:
        return None
    if column.offset % 8:  # bits that do not begin with a byte are written anew
        return memoryview(pc.is_valid(column).buffers()[1])
    return memoryview(column.buffers()[0])[column.offset // 8 :]


def _headers(column: pa.Array) -> HeaderColumns:
    if column.null_count:  # what a null list points to is anything
        column = pc.if_else(column.is_valid(), column, pa.scalar([], HEADERS))
    entries = column.values
    if entries.null_count or entries.field("key").null_count:
        raise SchemaError(f"Column 'headers' has a header without a key; {HEADER} with a key is expected.")
    return HeaderColumns(_fixed_offsets(column), _binary(_child(entries, "key")), _binary(_child(entries, "value")))


def _fixed_offsets(column: pa.Array) -> memoryview | bytes:
    start = column.offset * 4
    return memoryview(column.buffers()[1])[start : start + 4 * (len(column) + 1)] if len(column) else bytes(4)


def _child(entries: pa.Array, name: str) -> pa.Array:
    return entries.field(name)


def _names(schema: pa.Schema) -> str:
    return ", ".join(schema.names) or "no columns"
