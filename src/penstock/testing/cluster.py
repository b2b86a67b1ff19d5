"""A real broker inside your test, on a free port, gone without a trace afterwards.

    with Cluster() as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})

It is the broker that `penstock serve` runs, in a thread of this process with an event loop of its own: no Java, no
container, no other process. Any Kafka client connects, from this process or from another. Several clusters live side
by side. `async with` does the same without blocking the caller's event loop.

Rules:
- it listens on loopback only; the port is free at that moment and is kept by `stop()` and a second `start()`;
- without a directory it makes one, forces nothing to disk, and removes it at `close()`, the end of `with`, or with the
  object; in a given one the topics are there again next time;
- settings are Kafka's. The PENSTOCK_* environment of the machine does not reach it: a test is the same everywhere;
- `stop()` ends the thread and the connections and closes the files: after another `start()` everything is there again;
- a failed start leaves nothing behind that was not there before.

One broker per cluster for now. A crash cannot be played here, since thread and test are one process: for `kill -9`
run `penstock serve`.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
import threading
import uuid
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.broker.broker import Broker, World
from penstock.broker.config import BrokerConfig
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster as Connections
from penstock.testing.unsynced_files import UnsyncedFiles

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
Value = str | int | float | bool


class Cluster:
    """A broker for tests: `start()` and `stop()` as often as you like, then `close()`; or for the length of a `with`.

    `settings` are Kafka's by their own names, and keywords are the same with underscores:
    `Cluster(num_partitions=3)` is `Cluster(settings={"num.partitions": 3})`.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        port: int = 0,
        settings: Mapping[str, Value] | None = None,
        **more: Value,
    ) -> None:
        self._given = Path(directory).absolute() if directory is not None else None
        self._settings = {**(settings or {}), **{name.replace("_", "."): value for name, value in more.items()}}
        self._temporary: _TemporaryDirectory | None = None
        self._running: _BrokerThread | None = None
        self.port = port

    @property
    def bootstrap(self) -> str:
        """`host:port`, for `bootstrap.servers`."""
        assert self.port, "the cluster has not been started"
        return f"{HOST}:{self.port}"

    @property
    def directory(self) -> Path:
        """Where the broker keeps its files."""
        if self._given is not None:
            return self._given
        assert self._temporary is not None, "the cluster has not been started"
        return self._temporary.path

    def start(self) -> None:
        """Return when clients can connect; ConfigError when a setting is wrong."""
        assert self._running is None, "the cluster is running"
        is_new = self._given is None and self._temporary is None
        if is_new:
            self._temporary = _TemporaryDirectory()
        world = World(files=UnsyncedFiles()) if self._given is None else World()
        try:
            running = _BrokerThread(BrokerConfig.load(None, {}, self._overrides()), world)
            self.port = running.start()
        except BaseException:
            if is_new:
                self._remove_temporary()
            raise
        self._running = running

    def stop(self) -> None:
        """End the broker and keep its files for the next `start()`; nothing happens when it does not run."""
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def close(self) -> None:
        """Stop, and remove the files unless their directory was given."""
        try:
            self.stop()
        finally:
            self._remove_temporary()

    def create_topic(self, name: str | None = None, partitions: int = 1, **configs: Value) -> str:
        """Create a topic, ready for use, and give its name; without a name, one that nobody else has.

        Settings of the topic come as keywords with underscores: `create_topic(retention_ms=1000)`.
        """
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        texts = {key.replace("_", "."): _text(value) for key, value in configs.items()}
        with Connections(self.bootstrap, client_id="penstock-testing") as connections:
            Admin(connections).create_topic(name, partitions=partitions, configs=texts)
        return name

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def _overrides(self) -> list[str]:
        ours = {"listeners": f"PLAINTEXT://{HOST}:{self.port}", "log.dirs": str(self.directory)}
        return [f"{name}={_text(value)}" for name, value in {**ours, **self._settings}.items()]

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None


class _TemporaryDirectory:
    """Removed when asked, else with the object, at the latest at exit, and without `tempfile`'s warning about that."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
        self.remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _BrokerThread:
    """A broker and the thread whose event loop it lives on."""

    def __init__(self, config: BrokerConfig, world: World) -> None:
        self._config = config
        self._world = world
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._port = 0
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        # A daemon: a test that never stops its cluster must not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._run, name="penstock-cluster", daemon=True)

    def start(self) -> int:
        """The port, once clients can connect."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self._port

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as failure:
            self._failure = failure
            if self._ready.is_set():
                log.exception("the test cluster's broker failed")
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        broker = Broker(self._config, self._world)
        await broker.start()
        self._port = broker.addresses[0][2]
        self._ready.set()
        await self._stopping.wait()
        await broker.stop()


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _text(value: Value) -> str:
    """As it stands in server.properties."""
    return str(value).lower() if isinstance(value, bool) else str(value)
