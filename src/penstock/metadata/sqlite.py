"""The metadata store in one SQLite file, for a broker that is a cluster of its own.

    table entries(key TEXT PRIMARY KEY, value BLOB, version INTEGER, session INTEGER)     session: ephemeral, or NULL
    table counters(name TEXT PRIMARY KEY, value INTEGER)                                  'revision' and 'session'
    PRAGMA user_version = 1, the version of this schema

A key's version is the store's revision, which grows by one with each transaction that writes: no version is ever
used twice, also not for a key that was deleted and written again.

Rules
- Every statement runs in one thread of our own, in the order of the calls: the event loop never waits for the disk, and
  a reader sees whole transactions only. Watches are told from that thread, right after the commit.
- Write-ahead log with synchronous=FULL: a commit is on the disk before `txn` returns.
- The file is locked for as long as it is open. A second broker on the same directory is refused with a sentence.
- The first failed write to the disk, or a damaged page, closes the store for good: every later call raises, sessions
  are lost. A full disk is not that: the transaction is undone, and the next one may succeed.

After a crash: SQLite finishes or forgets the last transaction. The lock died with its process, and so did every
session: opening deletes all ephemeral keys.
Not here: a second process (that is what ZooKeeper is for), and ttl: a session lives exactly as long as its process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from penstock.errors import ConfigError
from penstock.metadata.store import (
    ABSENT,
    Changes,
    Check,
    Delete,
    DeleteEvent,
    Entry,
    Event,
    Op,
    Put,
    PutEvent,
    Resync,
    StoreError,
    TxnResult,
)

SCHEMA_VERSION = 1

MAX_WATCH_EVENTS = 100_000
"""A watch that nobody reads holds this many events; then it forgets them and will resync. It bounds memory only."""

_SCHEMA = (
    "CREATE TABLE entries(key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, session INTEGER)",
    "CREATE TABLE counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    "INSERT INTO counters VALUES('revision', 0), ('session', 0)",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

P = ParamSpec("P")
T = TypeVar("T")


class SqliteStore:
    """A `Store`; made by `open`."""

    def __init__(self, database: _Database, thread: ThreadPoolExecutor) -> None:
        self._database = database
        self._thread = thread
        self._loop = asyncio.get_running_loop()
        self._watches: list[SqliteWatch] = []
        self._sessions: dict[int, SqliteSession] = {}
        self._is_closed = False

    @classmethod
    async def open(cls, path: str) -> SqliteStore:
        """Open or make the file; ConfigError when another process has it, or when it is damaged or too new."""
        thread = ThreadPoolExecutor(1, "penstock-metadata")
        try:
            database = await asyncio.get_running_loop().run_in_executor(thread, _Database, path)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(database, thread)

    async def get(self, key: str) -> Entry | None:
        return await self._run(self._database.get, key)

    async def list(self, prefix: str) -> list[Entry]:
        return await self._run(self._database.list, _checked(prefix))

    async def txn(self, ops: Sequence[Op]) -> TxnResult:
        for op in ops:
            if isinstance(op, Put) and op.session is not None and op.session.session_id not in self._sessions:
                raise StoreError(f"The session of {op.key!r} has ended.")
        return await self._run(self._txn, ops)

    def watch(self, prefix: str) -> SqliteWatch:
        watch = SqliteWatch(self, _checked(prefix))
        self._watches.append(watch)
        return watch

    async def session(self, ttl_ms: int) -> SqliteSession:
        """`ttl_ms` is of no use here: nobody else could notice that this process is late."""
        session = SqliteSession(self, await self._run(self._database.next_session))
        self._sessions[session.session_id] = session
        return session

    async def close(self) -> None:
        """End sessions and watches, close the file, and give up the lock."""
        if self._is_closed:
            return
        for session in list(self._sessions.values()):
            with contextlib.suppress(StoreError):
                await session.close()
        self._is_closed = True
        for watch in list(self._watches):
            watch.close()
        await self._loop.run_in_executor(self._thread, self._database.close)
        self._thread.shutdown()

    async def _run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it in the database's thread. A caller that is cancelled does not stop what has begun there."""
        if self._is_closed:
            raise StoreError("The metadata store is closed.")
        try:
            return await self._loop.run_in_executor(self._thread, lambda: call(*args, **kwargs))
        except StoreError:
            if self._database.failure:
                self._on_failure()
            raise

    def _txn(self, ops: Sequence[Op]) -> TxnResult:
        """In the database's thread: commit, then hand the events to the loop before the caller's own answer."""
        result, events = self._database.txn(ops)
        if events:
            self._loop.call_soon_threadsafe(self._publish, events)
        return result

    def _publish(self, events: tuple[Event, ...]) -> None:
        for watch in self._watches:
            watch.on_events(events)

    def _on_failure(self) -> None:
        for session in self._sessions.values():
            session.lost.set()
        for watch in self._watches:
            watch.wake()

    async def _resync(self, watch: SqliteWatch) -> Resync:
        """The subtree, with the watch armed between the transactions that it holds and those that it does not."""

        def read() -> Resync:
            entries = self._database.list(watch.prefix)
            self._loop.call_soon_threadsafe(watch.arm)
            return Resync(tuple(entries))

        return await self._run(read)

    async def _end_session(self, session: SqliteSession) -> None:
        if self._sessions.pop(session.session_id, None) is None:
            return
        session.lost.set()
        keys = await self._run(self._database.session_keys, session.session_id)
        if keys:
            await self._run(self._txn, [Delete(key) for key in keys])


class SqliteWatch:
    """A `Watch`: events wait here, in commit order, until they are read."""

    def __init__(self, store: SqliteStore, prefix: str) -> None:
        self._store = store
        self.prefix = prefix
        self._events: deque[Event] = deque()
        self._is_armed = False
        self._needs_resync = True
        self._is_closed = False
        self._ready = asyncio.Event()

    def __aiter__(self) -> SqliteWatch:
        return self

    async def __anext__(self) -> Resync | Changes:
        if not self._needs_resync:
            await self._ready.wait()
        if self._is_closed:
            raise StopAsyncIteration
        if failure := self._store._database.failure:
            raise StoreError(failure)
        if self._needs_resync:
            return await self._resync()
        events = tuple(self._events)
        self._events.clear()
        self._ready.clear()
        return Changes(events)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._store._watches.remove(self)
            self.wake()

    def arm(self) -> None:
        """What was read up to now is in the resync; what is published from now on is news."""
        self._events.clear()
        self._ready.clear()
        self._is_armed = True

    def on_events(self, events: tuple[Event, ...]) -> None:
        if not self._is_armed:
            return
        self._events.extend(event for event in events if event.key.startswith(self.prefix))
        if len(self._events) > MAX_WATCH_EVENTS:
            self._events.clear()
            self._is_armed = False
            self._needs_resync = True
            self.wake()
        elif self._events:
            self.wake()

    def wake(self) -> None:
        self._ready.set()

    async def _resync(self) -> Resync:
        """Cancelled on the way, or overrun since it was armed, it is still needed the next time."""
        resync = await self._store._resync(self)
        self._needs_resync = not self._is_armed
        return resync


class SqliteSession:
    """A `Session` that lives until it is closed, the store is, or the disk fails."""

    def __init__(self, store: SqliteStore, session_id: int) -> None:
        self._store = store
        self.session_id = session_id
        self.lost = asyncio.Event()

    async def close(self) -> None:
        await self._store._end_session(self)


class _Database:
    """The file itself; every call is made in the store's thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.failure = ""
        is_new = not os.path.exists(path)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if is_new:
                _create(path)
            self._db = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise
            if is_new:
                _sync_dir(os.path.dirname(path))
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(_why_not_open(path, error)) from None

    def _prepare(self) -> None:
        """Take the lock, check the file, make the schema, and forget the sessions of the process before."""
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = OFF"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("BEGIN EXCLUSIVE")
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise ConfigError(
                f"{self._path} was written by a newer Penstock (its schema is version {version}, this one knows "
                f"{SCHEMA_VERSION}). Use the newer one."
            )
        if version == 0:
            for statement in _SCHEMA:
                self._db.execute(statement)
        else:
            found = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
        self._db.execute("DELETE FROM entries WHERE session IS NOT NULL")
        self._db.execute("COMMIT")

    def get(self, key: str) -> Entry | None:
        with self._guarded():
            row = self._db.execute("SELECT key, value, version FROM entries WHERE key = ?", (key,)).fetchone()
        return Entry(*row) if row else None

    def list(self, prefix: str) -> list[Entry]:
        query = "SELECT key, value, version FROM entries WHERE key >= ? AND key < ? ORDER BY key"
        # "/" + 1 is "0": the first key after every key of the subtree.
        with self._guarded():
            return [Entry(*row) for row in self._db.execute(query, (prefix, prefix[:-1] + "0"))]

    def txn(self, ops: Sequence[Op]) -> tuple[TxnResult, tuple[Event, ...]]:
        with self._guarded():
            self._db.execute("BEGIN IMMEDIATE")
            failed = tuple(op.key for op in ops if isinstance(op, Check) and self._version(op.key) != op.version)
            if failed:
                self._db.execute("ROLLBACK")
                return TxnResult(False, {}, failed), ()
            revision = self._next("revision")
            events = tuple(event for op in ops if (event := self._write(op, revision)) is not None)
            # A transaction of checks and nothing else reads one moment and leaves no trace.
            self._db.execute("COMMIT" if events else "ROLLBACK")
        return TxnResult(True, {event.key: revision for event in events if isinstance(event, PutEvent)}), events

    def next_session(self) -> int:
        with self._guarded():
            return self._next("session")

    def session_keys(self, session_id: int) -> tuple[str, ...]:
        with self._guarded():
            rows = self._db.execute("SELECT key FROM entries WHERE session = ? ORDER BY key", (session_id,))
            return tuple(row[0] for row in rows)

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.close()

    def _version(self, key: str) -> int:
        row = self._db.execute("SELECT version FROM entries WHERE key = ?", (key,)).fetchone()
        return ABSENT if row is None else int(row[0])

    def _next(self, counter: str) -> int:
        query = "UPDATE counters SET value = value + 1 WHERE name = ? RETURNING value"
        return int(self._db.execute(query, (counter,)).fetchone()[0])

    def _write(self, op: Op, revision: int) -> Event | None:
        if isinstance(op, Put):
            session_id = op.session.session_id if op.session else None
            row = (op.key, op.value, revision, session_id)
            self._db.execute("INSERT OR REPLACE INTO entries VALUES(?, ?, ?, ?)", row)
            return PutEvent(op.key, op.value, revision)
        if isinstance(op, Delete):
            gone = self._db.execute("DELETE FROM entries WHERE key = ?", (op.key,)).rowcount
            return DeleteEvent(op.key) if gone else None
        return None

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Undo what failed; and after a failure of the disk, do nothing ever again."""
        if self.failure:
            raise StoreError(self.failure)
        try:
            yield
        except sqlite3.Error as error:
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            message = f"The metadata in {self._path} could not be read or written: {error}."
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_FULL:
                message += " The broker must be stopped: what the disk holds is not known."
                self.failure = message
            raise StoreError(message) from None


def _checked(prefix: str) -> str:
    assert prefix[0] == prefix[-1] == "/", f"{prefix!r} is not a prefix: it begins and ends with /"
    return prefix


def _create(path: str) -> None:
    """An empty file for its owner only: it will hold credentials. SQLite gives its write-ahead log the same mode."""
    # Never opened where it exists: closing any descriptor of the file would end this process's locks on it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _sync_dir(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _why_not_open(path: str, error: Exception) -> str:
    directory = os.path.dirname(path)
    if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _IN_USE:
        return f"The data directory {directory} is in use by another broker. Stop it, or choose another directory."
    if isinstance(error, sqlite3.OperationalError | OSError):
        return f"The metadata in {path} cannot be opened: {error}. Is {directory} a directory that you may write to?"
    return (
        f"The metadata in {path} is damaged: {error}. Put back a copy of this file; the logs of the topics are "
        "not touched by this."
    )


_IN_USE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
