"""The columns of a topic as Spark knows them: those of its own Kafka source, in its order.

They are made from the Arrow schema that the client gives, since Spark wants the two to be equal to the last flag.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import ConfigError

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def row_type(*, with_headers: bool) -> StructType:
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if with_headers:
        fields.append(StructField("headers", HEADERS))
    return StructType(fields)


def check_row_type(given: StructType, *, with_headers: bool) -> None:
    """A schema of the user's own is refused, as by Spark's Kafka source: a topic's columns are fixed."""
    ours = row_type(with_headers=with_headers)
    if given != ours:
        names = ", ".join(ours.fieldNames())
        raise ConfigError(f"A topic has the columns {names}, and no schema can be given: select and cast after load().")
