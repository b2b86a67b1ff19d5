"""`upsert`: a flow into a table of SQLite or PostgreSQL, by primary key: a new row is inserted, a known key updated.

Options: `url` (`sqlite:///path/to/file` or `postgresql://user@host/database`), `table` (it exists and has a primary
key or a unique index on the key), `key` (its columns, with commas between), `delete` (a boolean column of the flow:
where it is true the key's row is deleted). The flow's other columns are the table's columns.

Exactly once: a batch is one transaction of the database, and the same transaction notes the batch id in the table
`penstock_progress`. A repeated batch finds its id there and does nothing, also where triggers of the table count.

Rows are applied in the order in which they stand in their partition: what came last for a key stays. That is the
order of the topic as long as the flow does not move rows between partitions (no join, no repartition).
A batch passes through the driver; `maxOffsetsPerTrigger` of the source bounds it. (It is collected by one job: a job
for each partition, as toLocalIterator makes, fails now and then while other flows run in the same session.)
"""

from __future__ import annotations

import datetime
import decimal
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import ConfigError
from penstock.spark.pipelines.sinks import Batch, BatchWriter, check_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

CHUNK_ROWS = 1000
"""Rows that one call hands to the database."""

BUSY_SECONDS = 60.0
"""How long SQLite waits for another writer."""


def upsert_writer(options: Mapping[str, str]) -> BatchWriter:
    check_options("upsert", options, required=["url", "table", "key"], optional=["delete"])
    database = _database(options["url"])
    key = [name.strip() for name in options["key"].split(",")]
    table, delete = options["table"], options.get("delete")

    def write(frame: DataFrame, batch: Batch) -> None:
        missing = [name for name in [*key, *([delete] if delete else [])] if name not in frame.columns]
        if missing:
            raise ConfigError(f"The flow into table {table!r} has no column {missing[0]!r}.")
        columns = [name for name in frame.columns if name != delete]
        statements = _Statements(table, columns, key, database.mark)
        with closing(database.connect()) as connection:
            if _begin(connection, batch, database):
                for is_deletion, rows in _runs(iter(frame.collect()), delete):
                    _apply(connection, statements, is_deletion, rows)
                _note(connection, batch, database)
            connection.commit()

    return write


class _Statements:
    """The two statements of a table, for rows with these columns."""

    def __init__(self, table: str, columns: Sequence[str], key: Sequence[str], mark: str) -> None:
        self.columns, self.key = columns, key
        names, others = ", ".join(map(_quoted, columns)), [name for name in columns if name not in key]
        action = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in others)
        self.upsert = (
            f"INSERT INTO {_table(table)} ({names}) VALUES ({', '.join([mark] * len(columns))}) "  # noqa: S608
            f"ON CONFLICT ({', '.join(map(_quoted, key))}) DO {f'UPDATE SET {action}' if others else 'NOTHING'}"
        )
        self.delete = f"DELETE FROM {_table(table)} WHERE " + " AND ".join(f"{_quoted(n)} = {mark}" for n in key)  # noqa: S608


def _apply(connection: _Connection, statements: _Statements, is_deletion: bool, rows: Iterable[Row]) -> None:
    statement = statements.delete if is_deletion else statements.upsert
    columns = statements.key if is_deletion else statements.columns
    cursor = connection.cursor()
    while chunk := [tuple(_value(row[name], name) for name in columns) for row in islice(rows, CHUNK_ROWS)]:
        cursor.executemany(statement, chunk)


def _runs(rows: Iterator[Row], delete: str | None) -> Iterator[tuple[bool, Iterator[Row]]]:
    """Rows of one kind that follow each other: order between an update and a deletion matters."""
    yield from groupby(rows, lambda row: bool(delete and row[delete]))


def _begin(connection: _Connection, batch: Batch, database: _Database) -> bool:
    """Open the transaction; True when the batch is not in the database yet."""
    cursor = connection.cursor()
    for statement in database.begin:
        cursor.execute(statement)
    lookup = f"SELECT batch_id FROM penstock_progress WHERE query_id = {database.mark}{database.lock}"  # noqa: S608
    cursor.execute(lookup, (batch.query_id,))
    found = cursor.fetchone()
    return found is None or found[0] < batch.batch_id


def _note(connection: _Connection, batch: Batch, database: _Database) -> None:
    mark = database.mark
    connection.cursor().execute(
        f"INSERT INTO penstock_progress (query_id, batch_id) VALUES ({mark}, {mark}) "  # noqa: S608
        "ON CONFLICT (query_id) DO UPDATE SET batch_id = excluded.batch_id",
        (batch.query_id, batch.batch_id),
    )


PROGRESS_TABLE = "CREATE TABLE IF NOT EXISTS penstock_progress (query_id TEXT PRIMARY KEY, batch_id BIGINT NOT NULL)"


class _Connection(Protocol):
    """What SQLite's and PostgreSQL's connections have in common (PEP 249)."""

    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


class _Database(Protocol):
    @property
    def mark(self) -> str: ...
    @property
    def lock(self) -> str: ...
    @property
    def begin(self) -> Sequence[str]: ...

    def connect(self) -> _Connection: ...


class _Sqlite:
    mark, lock = "?", ""
    begin = ("BEGIN IMMEDIATE", PROGRESS_TABLE)

    def __init__(self, path: str) -> None:
        self._path = path

    def connect(self) -> _Connection:
        return sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)


class _Postgresql:
    mark, lock = "%s", " FOR UPDATE"
    # The lock on the schema's name keeps two drivers from creating the table at the same moment.
    begin = ("SELECT pg_advisory_xact_lock(hashtext('penstock_progress'))", PROGRESS_TABLE)

    def __init__(self, url: str) -> None:
        self._url = url

    def connect(self) -> _Connection:
        try:
            import psycopg
        except ImportError:
            raise ConfigError("A sink into PostgreSQL needs psycopg: pip install 'psycopg[binary]'.") from None
        connection: _Connection = psycopg.connect(self._url)
        return connection


def _database(url: str) -> _Database:
    kind, separator, rest = url.partition("://")
    if kind == "sqlite" and separator:
        return _Sqlite(rest.removeprefix("/"))
    if kind in ("postgresql", "postgres") and separator:
        return _Postgresql(url)
    raise ConfigError(f"{url!r} is no database that upsert knows. Write sqlite:///FILE or postgresql://USER@HOST/NAME.")


def _value(value: Any, column: str) -> Any:
    """As both databases take it; what only one would take is written as text."""
    if isinstance(value, decimal.Decimal | datetime.datetime | datetime.date):
        return str(value)
    if isinstance(value, list | dict | tuple):
        raise ConfigError(f"Column {column!r} is a list, map or struct; make text of it with to_json first.")
    return bytes(value) if isinstance(value, bytearray) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _table(name: str) -> str:
    """`schema.table` is two names."""
    return ".".join(map(_quoted, name.split(".")))
