"""The metadata store: a small tree of keys that every broker of a cluster agrees on.

Six calls: `get`, `list`, `txn`, `watch`, `session`, `close`. A driver is chosen by URL: `sqlite:///dir/meta.db` is
embedded and for one node; ZooKeeper (`zk://h1,h2,h3/chroot`) is for a cluster.

Rules for drivers and users
- A key is a path: "/topics/orders". An ephemeral key has no keys below it.
  A prefix ends in "/" and means the subtree below it; "/" is everything.
- A value is bytes; what they mean is in `records`. A version is an int of 0 or more that grows with each
  write of its key. It says nothing about other keys, nor about the same key after it was deleted.
- `txn` is all or nothing: every `Check` holds and every write is done, or nothing is. A refused transaction is a
  result, not an exception: re-read, decide again, retry (never skip). When `txn` returns `ok`, the writes survive
  power loss.
- A watch begins with a `Resync` that carries the whole subtree, goes on with `Changes` in commit order, and may send a
  new `Resync` at any time (a reconnect, or a reader that fell too far behind). Between them no change is missed, so
  nobody ever has to list and watch and fear the gap. The changes of one transaction come together where the engine
  can tell; a reader must also bear them one by one.
- An ephemeral key (`Put(..., session=...)`) is deleted by the store when its session ends.

What it does not hold: consumer offsets, group members, anything that changes with each message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from penstock.errors import ConfigError, ErrorCode, KafkaError

ABSENT = -1
"""As the version of a `Check`: the key must not exist."""


class Entry(NamedTuple):
    """One key as it was read."""

    key: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Check:
    """The key still has this version, or does not exist (`ABSENT`)."""

    key: str
    version: int


@dataclass(frozen=True, slots=True)
class Put:
    """Write the key, whatever it held; with a session the key is ephemeral."""

    key: str
    value: bytes
    session: Session | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the key; nothing happens where it is not there."""

    key: str


Op = Check | Put | Delete


@dataclass(frozen=True, slots=True)
class TxnResult:
    """`ok` and the new version of each key that was put; or not ok, nothing done, and the keys whose checks failed."""

    ok: bool
    versions: Mapping[str, int]
    failed: tuple[str, ...] = ()


class PutEvent(NamedTuple):
    key: str
    value: bytes
    version: int


class DeleteEvent(NamedTuple):
    key: str


Event = PutEvent | DeleteEvent


@dataclass(frozen=True, slots=True)
class Resync:
    """The whole subtree as of now: forget what you had."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since the last answer of this watch, in commit order."""

    events: tuple[Event, ...]


class Watch(Protocol):
    """An endless async iterator; it ends when it or the store is closed; StoreError when the store failed."""

    def __aiter__(self) -> Watch: ...

    async def __anext__(self) -> Resync | Changes: ...

    def close(self) -> None: ...


class Session(Protocol):
    """A lease that the driver keeps alive. Once `lost` is set it stays set, and the ephemeral keys go."""

    @property
    def session_id(self) -> int: ...

    @property
    def lost(self) -> asyncio.Event: ...

    async def close(self) -> None:
        """End it and delete its ephemeral keys."""
        ...


class Store(Protocol):
    async def get(self, key: str) -> Entry | None: ...

    async def list(self, prefix: str) -> list[Entry]:
        """The subtree, sorted by key."""
        ...

    async def txn(self, ops: Sequence[Op]) -> TxnResult: ...

    def watch(self, prefix: str) -> Watch: ...

    async def session(self, ttl_ms: int) -> Session: ...

    async def close(self) -> None:
        """End the sessions and the watches; nothing may be called after it."""
        ...


class StoreError(KafkaError):
    """The store could not do its work: a failed disk, a lost connection, a closed store. Retriable for clients."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


async def open_store(url: str) -> Store:
    """The store that the URL names; ConfigError, with a sentence, when it cannot be opened."""
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" and separator:
        from penstock.metadata.sqlite import SqliteStore

        if len(rest) < 2 or not rest.startswith("/"):
            raise ConfigError(f"{url!r} names no file. Write sqlite:///absolute/path/meta.db.")
        return await SqliteStore.open("/" + rest.lstrip("/"))
    if scheme == "zk":
        raise ConfigError(f"{url!r}: the ZooKeeper store is not there yet. Use sqlite:///dir/meta.db for one node.")
    raise ConfigError(f"{url!r} is not a metadata store. Write sqlite:///dir/meta.db.")
