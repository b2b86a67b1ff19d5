"""One broker: its parts, put together, started and stopped in order.

Start: take the listeners' addresses, open the metadata store, register, recover the logs, then let clients in.
Stop: clients go, also those that wait for an answer; chores end; the registration goes; then, with no thread at work,
logs are flushed and marked clean. A start that fails is undone in the same order.
Everything from the world outside (clock, files, network, chance) is passed in.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Never

from penstock.broker.config import BrokerConfig
from penstock.broker.config_rules import ConfigRules
from penstock.broker.context import Context
from penstock.broker.controller.controller import Controller
from penstock.broker.controller.liveness import Registration
from penstock.broker.controller.topics import TopicDefaults
from penstock.broker.dispatch import Dispatcher
from penstock.broker.groups.coordinator import GroupCoordinator
from penstock.broker.maintenance import Maintenance
from penstock.broker.metrics import Metrics
from penstock.broker.purgatory import Purgatory
from penstock.broker.replicas.group_commit import GroupCommit
from penstock.broker.replicas.manager import ReplicaManager
from penstock.broker.replicas.sessions import FetchSessions
from penstock.broker.settings.layers import Source
from penstock.broker.transactions.coordinator import TransactionCoordinator
from penstock.env.chance import system_chance
from penstock.env.clock import Clock, SystemClock
from penstock.env.files import Files, SystemFiles
from penstock.env.network import Network, SystemNetwork
from penstock.errors import ConfigError
from penstock.log.manager import LogManager
from penstock.metadata.records import Endpoint
from penstock.metadata.store import Store, StoreError, open_store
from penstock.net.listener import ListenerLimits, Server
from penstock.net.server_connection import Limits

log = logging.getLogger(__name__)

NOT_GIVEN = -1
METADATA_FILE = "penstock-metadata.db"
MAX_THREADS = 4
"""For what would block the loop: syncing, cold reads, making and removing files."""


@dataclass(frozen=True, slots=True)
class World:
    """What a broker is given of the world."""

    clock: Clock = field(default_factory=SystemClock)
    files: Files = field(default_factory=SystemFiles)
    network: Network = field(default_factory=SystemNetwork)
    chance: random.Random = field(default_factory=system_chance)


class Broker:
    """A broker of one process. `start` returns when clients can connect."""

    def __init__(self, config: BrokerConfig, world: World | None = None) -> None:
        self.config = config
        self.world = world or World()
        self.broker_id = config.node_id
        self.addresses: list[tuple[str, str, int]] = []
        """(listener name, host, port) that clients can use, once started."""
        self._executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="penstock")
        self._stack: list[Callable[[], object]] = []
        """What to undo, last first; an entry may return an awaitable."""

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            with contextlib.suppress(Exception):  # it was logged; why the start failed is what matters
                await self.stop()
            raise

    async def _start(self) -> None:
        server = Server(self.world.network, self._executor, self._limits(), self._listener_limits(self.config))
        endpoints = self._bind(server)
        directories = [str(directory.absolute()) for directory in self.config.log_dirs]
        logs = LogManager(self.world.files, self.world.clock, directories)
        store = await self._open_store()
        self._stack += [store.close, logs.close, self._executor.shutdown]
        self.context = self._make_context(store, logs)
        controller = self.context.controller
        controller.add_listener(self.context.replicas.on_image)
        controller.add_listener(self.context.groups.on_image)
        controller.add_listener(self.context.transactions.on_image)
        controller.add_listener(lambda _, delta: self._on_configs(server) if delta.broker_configs_changed else None)
        self._stack.append(controller.stop)
        await controller.start(Registration(self.broker_id, endpoints, self.config.rack))
        logs.broker_epoch = controller.broker_epoch
        self._run(server)

    def _run(self, server: Server) -> None:
        maintenance = Maintenance(self.context.replicas, self.world.clock, self._executor)
        maintenance.start()
        groups, transactions = self.context.groups, self.context.transactions
        groups.start()
        transactions.start()
        self.dispatcher = Dispatcher(self.context)
        self._stack += [
            maintenance.stop,
            self.context.group_commit.stop,
            groups.stop,
            transactions.stop,
            self.dispatcher.stop,
            server.stop,
        ]
        self.server = server
        server.start(self.dispatcher.serve)

    def _bind(self, server: Server) -> tuple[Endpoint, ...]:
        self._stack.append(server.stop_accepting)
        advertised = {listener.name: listener for listener in self.config.advertised_listeners}
        endpoints = []
        for listener in self.config.listeners:
            try:
                port = server.bind(listener.host, listener.port, listener.name)
            except OSError as error:
                raise ConfigError(_why_not_bound(listener.host, listener.port, error)) from error
            self.addresses.append((listener.name, listener.host, port))
            told = advertised.get(listener.name)
            host = told.host if told else ""
            endpoints.append(Endpoint(listener.name, host, told.port if told and told.port else port))
        return tuple(endpoints)

    async def _open_store(self) -> Store:
        directory = self.config.log_dirs[0]
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = f"The data directory {directory} cannot be made: {error.strerror}. Choose another with --data."
            raise ConfigError(why) from error
        url = self.config.get_str("penstock.metadata.url")
        return await open_store(url or f"sqlite:///{directory.absolute() / METADATA_FILE}")

    def _make_context(self, store: Store, logs: LogManager) -> Context:
        loop = asyncio.get_running_loop()
        purgatory = Purgatory(loop)
        needs_sync = self.config.durability == "fsync"
        replicas = ReplicaManager(
            self.broker_id, self.config, logs, purgatory, self._executor, self.world.chance, needs_sync
        )
        controller = Controller(
            store,
            clock=self.world.clock,
            chance=self.world.chance,
            rules=ConfigRules(lambda: replicas.config),
            topic_defaults=lambda: _topic_defaults(replicas.config),
            is_deletion_enabled=lambda: replicas.config.get_bool("delete.topic.enable"),
        )
        group_commit = GroupCommit(loop, self._executor, needs_sync)
        groups = GroupCoordinator(
            loop,
            self.world.clock,
            self.world.chance,
            self._executor,
            self.config,
            controller,
            replicas,
            group_commit,
        )
        transactions = TransactionCoordinator(
            loop, self.world.clock, self._executor, self.config, controller, replicas, group_commit, groups
        )
        return Context(
            loop=loop,
            executor=self._executor,
            clock=self.world.clock,
            chance=self.world.chance,
            static_config=self.config,
            controller=controller,
            replicas=replicas,
            group_commit=group_commit,
            purgatory=purgatory,
            sessions=FetchSessions(self.config.get_int("max.incremental.fetch.session.cache.slots"), self.world.chance),
            groups=groups,
            transactions=transactions,
            metrics=Metrics(),
            broker_id=self.broker_id,
        )

    def _limits(self) -> Limits:
        get = self.config.get_int
        return Limits(get("socket.request.max.bytes"), get("penstock.max.in.flight.requests.per.connection"))

    def _on_configs(self, server: Server) -> None:
        server.listener_limits = self._listener_limits(self.context.config)

    def _listener_limits(self, config: BrokerConfig) -> ListenerLimits:
        get = config.get_int
        return ListenerLimits(
            max_connections=get("max.connections"),
            max_connections_per_ip=get("max.connections.per.ip"),
            per_ip_overrides=config.max_connections_per_ip,
            idle_s=get("connections.max.idle.ms") / 1000,
            partial_request_s=get("penstock.partial.frame.timeout.ms") / 1000,
            backlog=get("socket.listen.backlog.size"),
            send_buffer_bytes=self._given_or_system("socket.send.buffer.bytes"),
            receive_buffer_bytes=self._given_or_system("socket.receive.buffer.bytes"),
        )

    def _given_or_system(self, name: str) -> int:
        """A socket buffer's size where the user gave one; else the system tunes it."""
        return NOT_GIVEN if self.config.source(name) is Source.DEFAULT_CONFIG else self.config.get_int(name)

    async def wait_lost(self) -> Never:
        """Wait until the broker cannot go on, and raise why; whoever waits stops it."""
        try:
            await self.context.controller.wait_lost()
        except Exception as error:
            raise StoreError(f"The broker stops: it cannot follow the metadata any more. {error}") from error
        raise StoreError("The broker stops: it lost its session with the metadata store, and with that its office.")

    async def stop(self) -> None:
        """Undo what was started, last first, all of it; the first failure is raised at the end."""
        failure: Exception | None = None
        while self._stack:
            try:
                done = self._stack.pop()()
                if asyncio.iscoroutine(done):
                    await done
            except Exception as error:
                log.exception("a part of the broker did not stop as it should")
                failure = failure or error
        if failure is not None:
            raise failure


def _topic_defaults(config: BrokerConfig) -> TopicDefaults:
    return TopicDefaults(config.num_partitions, config.default_replication_factor)


def _why_not_bound(host: str, port: int, error: OSError) -> str:
    where = f"[{host}]:{port}" if ":" in host else f"{host or '*'}:{port}"
    hints = {
        errno.EADDRINUSE: "Is another broker running? Try another port with --listen.",
        errno.EADDRNOTAVAIL: "This machine does not have that address.",
    }
    return f"Cannot listen on {where}: {error.strerror or error}. {hints.get(error.errno or 0, 'Check --listen.')}"
