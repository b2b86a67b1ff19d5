"""The columns of a topic: those of Spark's Kafka source, with its names, types and order.

    key            binary
    value          binary
    topic          string
    partition      int32
    offset         int64
    timestamp      timestamp[us, UTC]     Kafka has milliseconds
    timestampType  int32                  0: the producer's, 1: the broker's
    headers        list<element: struct<key: string, value: binary>>     only when asked for

All are nullable, though only keys, values, headers (where a record has none) and their values are ever null. What is
written has the same columns, see `rows`; `offset` and `timestampType` are the broker's to choose.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("element", HEADER))

FIELDS: dict[str, pa.Field] = {
    name: pa.field(name, kind)
    for name, kind in (
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    )
}


class SchemaError(ValueError):
    """A table that cannot be a topic's: a sentence that names the column, and what it must be."""


def topic_schema(columns: Sequence[str] | None = None, *, with_headers: bool = False) -> pa.Schema:
    """The columns asked for, in that order; all of them, the headers only on wish, when none are named."""
    if columns is None:
        columns = [name for name in FIELDS if with_headers or name != "headers"]
    for name in columns:
        if name not in FIELDS:
            raise SchemaError(f"There is no column {name!r} in a topic. It has {', '.join(FIELDS)}.")
    return pa.schema([FIELDS[name] for name in columns])
