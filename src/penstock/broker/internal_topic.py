"""The topic in which a coordinator keeps its state: made when the first client looks for the coordinator.

    key -> partition    Kafka's rule, so that a data directory can change hands: Java's hash of the key, modulo the
                        number of partitions
    partition -> home   what the coordinator keeps of a partition that this broker leads; served when it is loaded

Who asks for a key that lives elsewhere is told NOT_COORDINATOR and looks again; while the partition is being loaded,
COORDINATOR_LOAD_IN_PROGRESS. A log that cannot be read is not served before the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Protocol, TypeVar

from penstock.broker.controller.controller import Controller
from penstock.broker.controller.topics import NewTopic
from penstock.broker.replicas.manager import ReplicaManager
from penstock.broker.replicas.partition import Partition
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import Image

logger = logging.getLogger(__name__)

MAX_REMEMBERED_HASHES = 10_000
MIN_INT32 = -(2**31)

_WRITE_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What a client is told when records could not be written (Kafka's table)."""


class HomeState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    """Its log could not be read."""


ACTIVE = HomeState.ACTIVE
"""Looked at for every request: a name of the module is found faster than a member of an Enum."""


class HasState(Protocol):
    """What a coordinator keeps of one partition."""

    state: HomeState


H = TypeVar("H", bound=HasState)


class InternalTopic:
    """One topic of the broker's own. `new_topic` says what to create, with so many replicas at most."""

    def __init__(self, name: str, controller: Controller, new_topic: Callable[[int], NewTopic]) -> None:
        self.name = name
        self._controller = controller
        self._new_topic = new_topic
        self._image = Image()
        self._creating: asyncio.Task[None] | None = None
        self.partition_count = 0

    @property
    def exists(self) -> bool:
        return self.partition_count > 0

    def create(self) -> asyncio.Task[None]:
        """Created once, however many ask; the task fails when it could not be."""
        if self._creating is None or (self._creating.done() and not self.exists):
            self._creating = asyncio.get_running_loop().create_task(self._create())
        return self._creating

    async def _create(self) -> None:
        topic = self._new_topic(max(len(self._image.brokers), 1))
        answer = (await self._controller.create_topics([topic]))[self.name]
        if isinstance(answer, KafkaError) and answer.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            logger.error("%s could not be created: %s", self.name, answer.message)
            raise answer

    async def stop(self) -> None:
        if self._creating is not None:
            self._creating.cancel()
            await asyncio.gather(self._creating, return_exceptions=True)

    def on_image(self, image: Image) -> None:
        self._image = image
        topic = image.topics.get(self.name)
        self.partition_count = len(topic.partitions) if topic is not None else 0

    def led(self, replicas: ReplicaManager) -> dict[int, Partition]:
        """The partitions of it that this broker leads."""
        return {index: each for index, each in replicas.by_name.get(self.name, {}).items() if each.is_leader}

    def leader_of(self, key: str) -> int:
        """The broker that coordinates the key; COORDINATOR_NOT_AVAILABLE while nobody does."""
        index = partition_for(key, self.partition_count) if self.exists else -1
        partition = self._image.partition(self.name, index)
        if partition is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition.leader

    def home_of(self, key: str, homes: Mapping[int, H]) -> H:
        """Where the key lives, when that is here and can be served."""
        home = homes.get(partition_for(key, self.partition_count)) if self.partition_count else None
        if home is not None and home.state is ACTIVE:
            return home
        is_loading = home is not None and home.state is HomeState.LOADING
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR)

    def log_failure(self, error: KafkaError | None) -> None:
        """For records that no client waits for."""
        if error is not None:
            logger.error("records of %s could not be written: %s", self.name, error.message)


def told(error: KafkaError) -> KafkaError:
    """What a client is told of a failed write."""
    return KafkaError(_WRITE_ERRORS.get(error.code, error.code), error.message)


@lru_cache(maxsize=MAX_REMEMBERED_HASHES)
def partition_for(key: str, partition_count: int) -> int:
    value = java_hash(key)
    return 0 if value == MIN_INT32 else abs(value) % partition_count


def java_hash(text: str) -> int:
    """String.hashCode: 31 * h + c over UTF-16 code units, in 32 bits with a sign."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value
