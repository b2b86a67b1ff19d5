"""Topics as Arrow: record batches of columns out of partitions, and into them, without an object per record.

    functions.py    penstock.read, penstock.write and their async twins
    schema.py       the columns and their types
    reader.py       offset ranges of partitions as Arrow batches
    ahead.py        fetches while the reader decodes
    decode.py       what was fetched, as Arrow columns
    writer.py       Arrow batches into partitions
    sender.py       encoded batches to their leaders, several under way, in order, each once
    rows.py         the columns that are written, checked and brought into shape
    placement.py    which row goes to which partition

It needs pyarrow, which is an extra, and nothing of Spark.
"""

from __future__ import annotations

try:
    import pyarrow  # noqa: F401 (only whether it is there)
except ImportError as error:
    raise ImportError(
        "penstock.read and penstock.write need pyarrow. Install it with: pip install 'penstock[client]'"
    ) from error
