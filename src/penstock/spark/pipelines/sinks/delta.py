"""`delta`: a flow into a Delta table, written by delta-rs (the package deltalake): no jar, no catalog.

Options: `path` (a directory or an address that delta-rs knows; the table is made with the first batch), `partition`
(columns, with commas between). Anything else is a storage option of delta-rs, such as AWS_REGION.

Exactly once: a batch is one commit of the table, and the commit carries the query's id and the batch id as Delta's own
application transaction. A repeated batch finds its id in the table's log and does nothing.

A batch passes through the driver as Arrow; `maxOffsetsPerTrigger` of the source bounds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.spark.pipelines.sinks import Batch, BatchWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OWN_OPTIONS = ("path", "partition")


def delta_writer(options: Mapping[str, str]) -> BatchWriter:
    try:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    except ImportError:
        raise ConfigError("A sink of format 'delta' needs delta-rs: pip install deltalake.") from None
    path = options.get("path")
    if not path:
        raise ConfigError("A sink of format 'delta' needs the option 'path'.")
    columns = [name.strip() for name in options.get("partition", "").split(",") if name.strip()]
    storage = {name: value for name, value in options.items() if name not in OWN_OPTIONS}

    def write(frame: DataFrame, batch: Batch) -> None:
        if DeltaTable.is_deltatable(path, storage):
            written = DeltaTable(path, storage_options=storage).transaction_version(batch.query_id)
            if written is not None and written >= batch.batch_id:
                return
        noted = CommitProperties(app_transactions=[Transaction(batch.query_id, batch.batch_id)])
        write_deltalake(
            path, frame.toArrow(), mode="append", partition_by=columns or None, storage_options=storage,
            commit_properties=noted,
        )  # fmt: skip

    return write
