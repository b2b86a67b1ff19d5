"""What a handler is given: the broker's parts, and the call it answers.

A handler is `handle(context, call, request)`. It returns the response, None when nothing is to be sent, or a `Later`;
or it is an `async def` that returns the response. A `KafkaError` that it raises becomes the response's own error
code.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import NamedTuple

from penstock.broker.config import BrokerConfig
from penstock.broker.controller.controller import Controller
from penstock.broker.groups.coordinator import GroupCoordinator
from penstock.broker.metrics import Metrics
from penstock.broker.purgatory import Purgatory
from penstock.broker.replicas.group_commit import GroupCommit
from penstock.broker.replicas.manager import ReplicaManager
from penstock.broker.replicas.sessions import FetchSessions
from penstock.broker.transactions.coordinator import TransactionCoordinator
from penstock.env.clock import Clock
from penstock.metadata.image import Image
from penstock.net.server_connection import ServerConnection
from penstock.wire.schema import Struct


class Call(NamedTuple):
    """One request's header, and where it came from."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    connection: ServerConnection


@dataclass(slots=True)
class Context:
    """The broker's parts that handlers use."""

    loop: asyncio.AbstractEventLoop
    executor: Executor
    clock: Clock
    chance: random.Random
    static_config: BrokerConfig
    controller: Controller
    replicas: ReplicaManager
    group_commit: GroupCommit
    purgatory: Purgatory
    sessions: FetchSessions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    metrics: Metrics
    broker_id: int

    @property
    def image(self) -> Image:
        return self.controller.image

    @property
    def config(self) -> BrokerConfig:
        """The settings now in force, dynamic ones included."""
        return self.replicas.config


class Later:
    """A response that comes later: the handler keeps it and calls `finish` once, unless it was cancelled before."""

    __slots__ = ("_answer", "_is_finished", "_make", "is_cancelled", "on_cancel")

    def __init__(self, on_cancel: Callable[[], object] | None = None) -> None:
        self.on_cancel = on_cancel
        self.is_cancelled = False
        self._is_finished = False
        self._make: Callable[[], Struct] | None = None
        self._answer: Callable[[Callable[[], Struct]], None] | None = None

    def finish(self, make: Callable[[], Struct]) -> None:
        """`make` gives the response. It is not called when nobody waits for it, and when it fails the connection ends;
        the caller, who may have others to answer, does not notice."""
        if self.is_cancelled:
            return
        assert not self._is_finished, "an answer is given once"
        self._is_finished = True
        answer, self._answer, self.on_cancel = self._answer, None, None  # both know this one
        if answer is None:
            self._make = make
        else:
            answer(make)

    def take(self) -> Struct | None:
        """Called by dispatch, before `attach`: the response if it is there already, which is then answered."""
        make, self._make = self._make, None
        return None if make is None else make()

    def attach(self, answer: Callable[[Callable[[], Struct]], None]) -> None:
        """Called by dispatch, once: what to do with the response, which may be there already."""
        if self._make is not None:
            answer(self._make)
        else:
            self._answer = answer

    def cancel(self) -> None:
        """Nobody waits any more."""
        self.is_cancelled = True
        on_cancel, self.on_cancel, self._answer = self.on_cancel, None, None
        if on_cancel is not None:
            on_cancel()
