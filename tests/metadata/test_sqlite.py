"""The SQLite store: what every metadata store must hold, and what a person is told when it cannot be opened."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.metadata import sqlite
from penstock.metadata.sqlite import SqliteStore
from penstock.metadata.store import (
    ABSENT,
    Changes,
    Check,
    Delete,
    DeleteEvent,
    Op,
    Put,
    PutEvent,
    Resync,
    StoreError,
    open_store,
)


def with_store(tmp_path: Path, body: Callable[[SqliteStore], Awaitable[None]]) -> None:
    """Run `body` with a store in tmp_path, and close it."""

    async def run() -> None:
        store = await SqliteStore.open(str(tmp_path / "meta.db"))
        try:
            await body(store)
        finally:
            await store.close()

    asyncio.run(run())


async def put(store: SqliteStore, key: str, value: bytes) -> int:
    return (await store.txn([Put(key, value)])).versions[key]


def test_what_was_put_is_read_back_after_reopening(tmp_path: Path) -> None:
    async def write(store: SqliteStore) -> None:
        result = await store.txn([Put("/a/x", b"1"), Put("/a/y", b"2"), Put("/b", b"3")])
        assert result.ok
        assert await store.get("/a/x") == ("/a/x", b"1", result.versions["/a/x"])

    async def read(store: SqliteStore) -> None:
        assert [(entry.key, entry.value) for entry in await store.list("/a/")] == [("/a/x", b"1"), ("/a/y", b"2")]
        assert [entry.key for entry in await store.list("/")] == ["/a/x", "/a/y", "/b"]
        assert await store.get("/c") is None

    with_store(tmp_path, write)
    with_store(tmp_path, read)


def test_a_prefix_is_a_subtree_and_not_a_beginning_of_names(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await store.txn(
            [Put(key, b"") for key in ("/topics", "/topics/a", "/topics.b", "/topics0", "/topics/a/b", "/t")]
        )
        assert [entry.key for entry in await store.list("/topics/")] == ["/topics/a", "/topics/a/b"]

    with_store(tmp_path, body)


def test_a_refused_transaction_does_nothing_and_names_the_failed_checks(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        version = await put(store, "/a", b"1")
        ops: list[Op] = [Check("/a", version), Check("/b", 7), Check("/a", ABSENT), Put("/c", b""), Delete("/a")]
        result = await store.txn(ops)
        assert not result.ok
        assert result.failed == ("/b", "/a")
        assert [entry.key for entry in await store.list("/")] == ["/a"]

    with_store(tmp_path, body)


def test_a_version_is_never_used_twice_even_after_a_deletion(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        versions = []
        for _ in range(5):
            versions.append(await put(store, "/a", b"same"))
            await store.txn([Delete("/a")])
        assert len(set(versions)) == 5
        assert versions == sorted(versions)

    with_store(tmp_path, body)


def test_of_fifty_that_create_one_key_one_wins(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        async def create(number: int) -> bool:
            return (await store.txn([Check("/leader", ABSENT), Put("/leader", b"%d" % number)])).ok

        won = await asyncio.gather(*(create(number) for number in range(50)))
        assert won.count(True) == 1
        entry = await store.get("/leader")
        assert entry is not None
        assert entry.value == b"%d" % won.index(True)

    with_store(tmp_path, body)


def count_to(tmp_path: Path, clients: int, steps: int) -> None:
    async def body(store: SqliteStore) -> None:
        await put(store, "/counter", b"0")

        async def client() -> None:
            done = 0
            while done < steps:
                entry = await store.get("/counter")
                assert entry is not None
                ops = [Check("/counter", entry.version), Put("/counter", b"%d" % (int(entry.value) + 1))]
                done += (await store.txn(ops)).ok

        await asyncio.gather(*(client() for _ in range(clients)))
        entry = await store.get("/counter")
        assert entry is not None
        assert int(entry.value) == clients * steps

    with_store(tmp_path, body)


def test_a_counter_that_many_increment_loses_no_update(tmp_path: Path) -> None:
    count_to(tmp_path, clients=5, steps=60)


@pytest.mark.slow
def test_a_counter_of_ten_thousand_steps_loses_no_update(tmp_path: Path) -> None:
    count_to(tmp_path, clients=4, steps=2500)


def test_a_watch_begins_with_everything_and_misses_nothing_in_order(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await put(store, "/x/before", b"0")
        watch = store.watch("/x/")
        seen: dict[str, bytes] = {}
        steps: list[int] = []

        async def read() -> None:
            async for answer in watch:
                if isinstance(answer, Resync):
                    seen.clear()
                    seen.update({entry.key: entry.value for entry in answer.entries})
                    continue
                for event in answer.events:
                    if isinstance(event, DeleteEvent):
                        del seen[event.key]
                    else:
                        seen[event.key] = event.value
                        steps.append(int(event.value))

        reading = asyncio.create_task(read())
        for step in range(200):
            await store.txn([Put(f"/x/{step % 7}", b"%d" % step), Put("/y/other", b""), Delete(f"/x/{(step + 3) % 7}")])
        expected = {entry.key: entry.value for entry in await store.list("/x/")}
        async with asyncio.timeout(10):
            while seen != expected:
                await asyncio.sleep(0)
        assert steps == sorted(steps)
        assert steps[-1] == 199
        watch.close()
        await reading

    with_store(tmp_path, body)


def test_nothing_is_missed_between_the_resync_and_the_first_changes(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        watch = store.watch("/")
        await put(store, "/a", b"before")
        first = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        writing = asyncio.ensure_future(put(store, "/a", b"after"))
        await asyncio.sleep(0)
        # The loop stands still until both are done, so that it learns of them in one turn.
        store._thread.submit(lambda: None).result()
        resync = await first
        assert isinstance(resync, Resync)
        assert [entry.value for entry in resync.entries] == [b"before"]
        async with asyncio.timeout(10):
            assert await anext(watch) == Changes((PutEvent("/a", b"after", await writing),))

    with_store(tmp_path, body)


def test_the_changes_of_one_transaction_come_together(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        watch = store.watch("/")
        assert await anext(watch) == Resync(())
        versions = (await store.txn([Put("/a", b"1"), Put("/b", b"2"), Delete("/none")])).versions
        await store.txn([Delete("/a")])
        answer = await anext(watch)
        assert isinstance(answer, Changes)
        first = (PutEvent("/a", b"1", versions["/a"]), PutEvent("/b", b"2", versions["/b"]))
        assert answer.events == (*first, DeleteEvent("/a"))

    with_store(tmp_path, body)


def test_a_watch_that_was_cancelled_before_its_resync_still_gives_it(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await put(store, "/a", b"1")
        watch = store.watch("/")
        first = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await put(store, "/b", b"2")
        answer = await anext(watch)
        assert isinstance(answer, Resync)
        assert [entry.key for entry in answer.entries] == ["/a", "/b"]

    with_store(tmp_path, body)


def test_a_watch_that_nobody_reads_forgets_and_resyncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "MAX_WATCH_EVENTS", 10)

    async def body(store: SqliteStore) -> None:
        watch = store.watch("/")
        await anext(watch)
        for number in range(30):
            await put(store, f"/{number}", b"")
        answer = await anext(watch)
        assert isinstance(answer, Resync)
        assert len(answer.entries) == 30
        await put(store, "/last", b"")
        assert isinstance(await anext(watch), Changes)

    with_store(tmp_path, body)


def test_ephemeral_keys_go_with_their_session(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        session, other = await store.session(1000), await store.session(1000)
        await store.txn([Put("/mine", b"", session), Put("/theirs", b"", other), Put("/kept", b"")])
        watch = store.watch("/")
        await anext(watch)
        await session.close()
        assert session.lost.is_set()
        assert not other.lost.is_set()
        assert await anext(watch) == Changes((DeleteEvent("/mine"),))
        assert [entry.key for entry in await store.list("/")] == ["/kept", "/theirs"]
        with pytest.raises(StoreError, match="session"):
            await store.txn([Put("/mine", b"", session)])

    async def after(store: SqliteStore) -> None:
        assert [entry.key for entry in await store.list("/")] == ["/kept"]

    with_store(tmp_path, body)
    with_store(tmp_path, after)


def test_nothing_runs_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    write = sqlite._Database._write

    def spy(self: sqlite._Database, op: Op, revision: int) -> object:
        threads.add(threading.current_thread().name)
        return write(self, op, revision)

    monkeypatch.setattr(sqlite._Database, "_write", spy)

    async def body(store: SqliteStore) -> None:
        await asyncio.gather(*(put(store, f"/{number}", b"") for number in range(20)))

    with_store(tmp_path, body)
    assert len(threads) == 1
    assert threading.main_thread().name not in threads


def test_a_second_broker_on_the_directory_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        with pytest.raises(ConfigError, match=f"{tmp_path} is in use by another broker"):
            await SqliteStore.open(str(tmp_path / "meta.db"))
        command = [sys.executable, "-c", WRITER, str(tmp_path / "meta.db"), "0"]
        other = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert f"ConfigError: The data directory {tmp_path} is in use by another broker." in other.stderr
        assert (await store.txn([Put("/still/works", b"")])).ok

    with_store(tmp_path, body)


WRITER = """
import asyncio, sys
from penstock.metadata.sqlite import SqliteStore
from penstock.metadata.store import Put
async def main():
    store = await SqliteStore.open(sys.argv[1])
    session = await store.session(1000)
    number = int(sys.argv[2])
    while True:
        ops = [Put(f"/pair/{each}", b"%d" % number) for each in range(20)]
        await store.txn([*ops, Put("/alive", b"", session)])
        print(number, flush=True)
        number += 1
asyncio.run(main())
"""


def test_a_kill_leaves_whole_transactions_and_all_that_were_acknowledged(tmp_path: Path) -> None:
    path = str(tmp_path / "meta.db")
    start = 0
    for round_number in range(8):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, path, str(start)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(3 + 7 * round_number)]
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout if line.endswith("\n")]
        writer.wait()
        writer.stdout.close()
        values: list[int] = []

        async def read(store: SqliteStore, values: list[int] = values) -> None:
            values += [int(entry.value) for entry in await store.list("/pair/")]
            assert await store.get("/alive") is None

        with_store(tmp_path, read)
        assert len(values) == 20
        assert len(set(values)) == 1, "a transaction was torn"
        assert values[0] >= acknowledged[-1], "an acknowledged transaction was lost"
        start = values[0] + 1


def test_a_damaged_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "meta.db").write_bytes(b"this is not a database, not at all" * 200)
    with pytest.raises(ConfigError, match=r"meta.db is damaged: file is not a database. Put back a copy"):
        with_store(tmp_path, lambda store: asyncio.sleep(0))


def test_a_damaged_page_is_found_at_the_start(tmp_path: Path) -> None:
    async def fill(store: SqliteStore) -> None:
        await store.txn([Put(f"/{number:04}", b"x" * 100) for number in range(2000)])

    with_store(tmp_path, fill)
    with open(tmp_path / "meta.db", "r+b") as file:
        for page in range(4, 20):
            file.seek(page * 4096)
            file.write(b"\xee" * 64)
    with pytest.raises(ConfigError, match="is damaged"):
        with_store(tmp_path, lambda store: asyncio.sleep(0))


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    with_store(tmp_path, lambda store: asyncio.sleep(0))
    with sqlite3.connect(tmp_path / "meta.db") as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    before = (tmp_path / "meta.db").read_bytes()
    with pytest.raises(ConfigError, match="newer Penstock"):
        with_store(tmp_path, lambda store: asyncio.sleep(0))
    assert (tmp_path / "meta.db").read_bytes() == before


def test_a_directory_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match="cannot be opened"):
        asyncio.run(SqliteStore.open(str(tmp_path / "file" / "meta.db")))


def test_a_full_disk_refuses_the_transaction_and_only_that(tmp_path: Path) -> None:
    async def body(store: SqliteStore) -> None:
        await put(store, "/a", b"1")
        store._database._db.execute("PRAGMA max_page_count = 12")
        with pytest.raises(StoreError, match="full"):
            await put(store, "/big", b"x" * 1_000_000)
        assert await store.get("/big") is None
        await put(store, "/a", b"2")

    with_store(tmp_path, body)


def test_after_a_failure_of_the_disk_nothing_is_done_and_sessions_are_lost(tmp_path: Path) -> None:
    class BrokenDisk:
        in_transaction = False

        def execute(self, *args: object) -> None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error

        def close(self) -> None: ...

    async def body(store: SqliteStore) -> None:
        session = await store.session(1000)
        watch = store.watch("/")
        await anext(watch)
        waiting = asyncio.ensure_future(anext(watch))
        real, store._database._db = store._database._db, BrokenDisk()  # type: ignore[assignment]
        with pytest.raises(StoreError, match="disk I/O error"):
            await put(store, "/a", b"")
        store._database._db = real
        with pytest.raises(StoreError, match="must be stopped"):
            await put(store, "/a", b"")
        with pytest.raises(StoreError, match="must be stopped"):
            await waiting
        assert session.lost.is_set()

    with_store(tmp_path, body)


def test_a_closed_store_ends_its_watches_and_refuses_calls(tmp_path: Path) -> None:
    async def run() -> None:
        store = await SqliteStore.open(str(tmp_path / "meta.db"))
        watch = store.watch("/")
        await anext(watch)
        ended = asyncio.create_task(drain(watch))
        await asyncio.sleep(0)
        await store.close()
        await ended
        with pytest.raises(StoreError, match="closed"):
            await store.get("/a")
        await store.close()

    async def drain(watch: sqlite.SqliteWatch) -> None:
        async for _ in watch:
            pass

    asyncio.run(run())


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("zk://a,b,c/penstock", "not there yet"),
        ("etcd://a", "is not a metadata store"),
        ("sqlite://", "names no file"),
        ("sqlite://meta.db", "names no file"),
        ("/data/meta.db", "is not a metadata store"),
    ],
)
def test_a_url_that_cannot_be_used_is_a_sentence(url: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        asyncio.run(open_store(url))


@pytest.mark.parametrize("slashes", ["//", "///"])
def test_a_url_opens_the_file_it_names(tmp_path: Path, slashes: str) -> None:
    async def run() -> None:
        url = f"sqlite:{slashes}{tmp_path}/deep/meta.db"
        store = await open_store(url)
        with pytest.raises(ConfigError, match=f"directory {tmp_path}/deep is in use"):
            await open_store(url)
        await store.close()

    asyncio.run(run())
    assert (tmp_path / "deep" / "meta.db").exists()
