"""Sinks beyond Spark's formats, each a function of a micro-batch: `lake`, `upsert`, `delta`.

Spark may give a sink the same batch twice: after a failure it repeats the batch that it had not noted as done. Each
sink here makes the second time do nothing or the same again, by the batch's identity: the query's id (kept in its
checkpoint) and the batch id. So what arrives in the sink is there exactly once.

A sink is chosen like a format, `dp.create_sink("orders", "lake", {"path": ...})`, and is told its options as text.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Batch:
    """The identity of what is written: the same again when Spark repeats it."""

    query_id: str
    """Of the flow's checkpoint; for a load that is no stream, the flow's name."""
    batch_id: int


BatchWriter = Callable[["DataFrame", Batch], None]


def batch_writer(sink_format: str, options: Mapping[str, str]) -> BatchWriter | None:
    """What writes a batch into such a sink, its options checked; None when the format is Spark's or a data source's."""
    if sink_format == "lake":
        from penstock.spark.pipelines.sinks.lake import lake_writer

        return lake_writer(options)
    if sink_format == "upsert":
        from penstock.spark.pipelines.sinks.upsert import upsert_writer

        return upsert_writer(options)
    if sink_format == "delta":
        from penstock.spark.pipelines.sinks.delta import delta_writer

        return delta_writer(options)
    return None


def check_sink(sink_format: str, options: Mapping[str, str], schema: StructType) -> None:
    """ConfigError or SchemaError for what can be seen before anything runs; of other formats Spark tells, later."""
    if batch_writer(sink_format, options) is None and sink_format == "penstock":
        from penstock.spark.sink_options import parse_sink_options
        from penstock.spark.writer import check_columns

        check_columns(schema, parse_sink_options(options, exactly_once_by_default=True))


def check_options(
    sink: str, options: Mapping[str, str], *, required: Collection[str], optional: Collection[str]
) -> None:
    for name in required:
        if not options.get(name):
            raise ConfigError(f"A sink of format {sink!r} needs the option {name!r}.")
    known = [*required, *optional]
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}."
            raise ConfigError(f"A sink of format {sink!r} has no option {name!r}; {hint}")
