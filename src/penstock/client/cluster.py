"""A cluster as a client sees it: connections to its brokers, what is known of its topics, and who leads what.

    with Cluster("127.0.0.1:9092") as cluster:
        cluster.topic("orders").partitions
        cluster.request(describe_cluster.API, DescribeClusterRequest())          # any broker
        cluster.request(fetch.API, request, node_id=cluster.leader(partition))   # this one

Any broker that answers tells where the others are; after that a request for a partition goes straight to its leader.

Rules:
- a first broker that does not answer is an error at once; one that was reached before is retried until the deadline;
- `retry` runs an attempt again while its error is retriable and time is left; each round asks for metadata anew, and a
  `Watcher` hears of it, so that nobody waits in silence;
- whatever fails on a connection closes it, and the next request opens another;
- a topic that does not exist is an error at once, not a reason to wait: a person waits for the answer.

It belongs to one thread; another gets a `twin`. It knows nothing of records; `producer` and `fetcher` do.
"""

from __future__ import annotations

import copy
import socket
import time
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Protocol, Self, TypeVar, cast

from penstock.client.address import Address, parse_bootstrap
from penstock.client.metadata import NO_LEADER, Metadata, PartitionInfo, TopicInfo
from penstock.env.clock import Clock, SystemClock
from penstock.errors import ErrorCode, KafkaError
from penstock.net.connection import BlockingConnection
from penstock.types import TopicPartition
from penstock.wire.api import Api, metadata
from penstock.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.wire.schema import Struct

DEFAULT_TIMEOUT_MS = 30_000
REQUEST_TIMEOUT_MS = 40_000
"""For one answer: more than any wait that a request asks the broker for, less than a delivery may take."""

CONNECT_TIMEOUT_MS = 10_000
"""For one address: a host that drops packets must not use up the time for the others."""

FIRST_BACKOFF_SECONDS = 0.05
MAX_BACKOFF_SECONDS = 1.0

T = TypeVar("T")


class UnknownTopicError(KafkaError):
    """No topic of that name; Kafka calls it retriable, but for a person it is the answer."""

    def __init__(self, topic: str) -> None:
        message = f"There is no topic {topic!r}. Create it with `penstock topic create {topic}`."
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        self.topic = topic

    @property
    def retriable(self) -> bool:
        return False


class NotKafkaError(ConnectionError):
    """Something answered, but not as a broker does."""


class Watcher(Protocol):
    """Whoever wants to know that a call does not get on, and that it does again."""

    def on_retry(self, error: KafkaError, waited_seconds: float, left_seconds: float) -> None:
        """Before each new attempt; the time left is infinite where the caller has set no end."""

    def on_success(self) -> None:
        """A new attempt did it."""


class Unwatched:
    """Nobody wants to know."""

    def on_retry(self, error: KafkaError, waited_seconds: float, left_seconds: float) -> None:
        pass

    def on_success(self) -> None:
        pass


class Cluster:
    """Connections, metadata and retries."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "penstock",
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
        watcher: Watcher | None = None,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._watcher = watcher or Unwatched()
        self._first: BlockingConnection | None = None
        self._connections: dict[int, BlockingConnection] = {}
        self.metadata = Metadata()
        """What was heard last; `refresh` replaces it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in [*self._connections.values(), *filter(None, [self._first])]:
            connection.close()
        self._connections.clear()
        self._first = None

    def twin(self) -> Cluster:
        """The same cluster for another thread: what is known is shared, connections are not. The caller closes it."""
        twin = copy.copy(self)
        twin._first, twin._connections = None, {}
        return twin

    def deadline(self, timeout_ms: float | None = None) -> float:
        """The moment at which a call that starts now gives up; it never does when the time is infinite."""
        return self._clock.monotonic() + (self._timeout_ms if timeout_ms is None else timeout_ms) / 1000

    def answer_deadline(self, deadline: float) -> float:
        """For the answer to one request: a broker that hangs must leave time to try again."""
        return min(deadline, self.deadline(REQUEST_TIMEOUT_MS))

    # Requests

    def request(
        self, api: Api, message: Struct, *, node_id: int | None = None, deadline: float | None = None
    ) -> Struct:
        """One request and its answer, to this broker or to any; a failed connection is NETWORK_EXCEPTION."""
        deadline = self.deadline() if deadline is None else deadline
        connection = self.connection(node_id, deadline) if node_id is not None else self._any_connection(deadline)
        try:
            return connection.request(api, message, self.answer_deadline(deadline))
        except OSError as error:
            raise network_error(connection, error) from error

    def request_controller(self, api: Api, message: Struct, deadline: float) -> Struct:
        """A request that changes the cluster: to its controller where that is known."""
        if not self.metadata.nodes:
            self.refresh((), deadline=deadline)
        controller = self.metadata.controller_id
        return self.request(api, message, node_id=controller if controller >= 0 else None, deadline=deadline)

    def retry(self, attempt: Callable[[float], T], timeout_ms: float | None = None) -> T:
        """`attempt(deadline)` until it succeeds, fails for good, or the deadline is near."""
        deadline = self.deadline(timeout_ms)
        backoff = FIRST_BACKOFF_SECONDS
        failed_at: float | None = None
        while True:
            try:
                result = attempt(deadline)
            except KafkaError as error:
                now = self._clock.monotonic()
                if not error.retriable or now + backoff >= deadline:
                    raise
                failed_at = now if failed_at is None else failed_at
                self._watcher.on_retry(error, now - failed_at, deadline - now)
            else:
                if failed_at is not None:
                    self._watcher.on_success()
                return result
            self._sleep(backoff)
            backoff = min(2 * backoff, MAX_BACKOFF_SECONDS)
            self.forget_topics()

    # Connections

    def connection(self, node_id: int, deadline: float) -> BlockingConnection:
        """The connection to this broker that all share, opened at the first use."""
        known = self._connections.get(node_id)
        if known is None or not known.is_open:
            known = self._connections[node_id] = self.open_connection(node_id, deadline)
        return known

    def open_connection(self, node_id: int, deadline: float) -> BlockingConnection:
        """A connection of the caller's own, for requests that wait long: nothing else has to wait behind them."""
        if node_id not in self.metadata.nodes:
            self.refresh((), deadline=deadline)
        address = self.metadata.nodes.get(node_id)
        if address is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"Broker {node_id} is not in the cluster now.")
        try:
            return self._open(address, deadline)
        except OSError as error:
            said = f"Broker {node_id} says that it is at {address}, but it does not answer there: {_reason(error)}."
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{said} Check its advertised.listeners.") from error

    def _any_connection(self, deadline: float) -> BlockingConnection:
        """One that is open; else the first address that answers, of the brokers known and those given at the start."""
        for connection in [*self._connections.values(), *filter(None, [self._first])]:
            if connection.is_open:
                return connection
        failures: dict[Address, OSError] = {}
        for address in dict.fromkeys([*self.metadata.nodes.values(), *self._bootstrap]):
            try:
                self._first = self._open(address, deadline)
            except OSError as error:
                failures[address] = error
            else:
                return self._first
        # Before the first answer this is final: nobody waits 30 s to learn of a mistyped port.
        code = ErrorCode.NETWORK_EXCEPTION if self.metadata.nodes else ErrorCode.BROKER_NOT_AVAILABLE
        reasons = "; ".join(f"{address}: {_reason(error)}" for address, error in failures.items())
        raise KafkaError(code, f"No broker answered at {reasons}. {_hint(list(failures.values()))}")

    def _open(self, address: Address, deadline: float) -> BlockingConnection:
        deadline = min(deadline, self.deadline(CONNECT_TIMEOUT_MS))
        try:
            return BlockingConnection.open(address.host, address.port, self._client_id, self._clock, deadline)
        except KafkaError as error:
            said = str(error).removesuffix(".")
            raise NotKafkaError(f"what answers there does not speak Kafka's protocol ({said})") from error
        except UnicodeError as error:  # Python's words for a name with an empty or too long part
            raise socket.gaierror(socket.EAI_NONAME, "that is no host's name") from error

    # Metadata

    def refresh(
        self, topics: Collection[str] | None, *, deadline: float | None = None, may_create: bool = False
    ) -> Metadata:
        """Ask for these topics, for all (None), or for the brokers only (an empty collection)."""
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=may_create)
        response = cast("MetadataResponse", self.request(metadata.API, request, deadline=deadline))
        self.metadata = self.metadata.updated(response, is_complete=topics is None)
        return self.metadata

    def forget_topics(self) -> None:
        """Leaders have moved, or may have: the next look-up asks."""
        self.metadata = Metadata(self.metadata.cluster_id, self.metadata.controller_id, self.metadata.nodes)

    def topic(self, name: str, *, deadline: float | None = None, may_create: bool = False) -> TopicInfo:
        """The topic, from the cache where it is known; KafkaError when it does not exist or cannot be used."""
        found = self.metadata.topics.get(name)
        if found is None or found.error is not ErrorCode.NONE:
            found = self.refresh([name], deadline=deadline, may_create=may_create).topics.get(name)
        if found is None or (found.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not may_create):
            raise UnknownTopicError(name)
        if found.error is ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise KafkaError(found.error, f"{name!r} is not a topic's name: letters, digits, '.', '_' and '-' may be.")
        if found.error is not ErrorCode.NONE:
            raise KafkaError(found.error, f"Topic {name!r}: {found.error.message}")
        return found

    def partition(self, where: TopicPartition, *, deadline: float | None = None) -> PartitionInfo:
        """What is known of one partition; KafkaError when the topic has no such number."""
        found = self.topic(where.topic, deadline=deadline)
        for partition in found.partitions:
            if partition.partition == where.partition:
                return partition
        count = len(found.partitions)
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic {where.topic!r} has no partition {where.partition}: it has {count}, numbered from 0.",
        )

    def leader(self, where: TopicPartition, *, deadline: float | None = None) -> int:
        """The node that leads the partition; LEADER_NOT_AVAILABLE, which is retriable, while there is none."""
        leader = self.partition(where, deadline=deadline).leader
        if leader == NO_LEADER:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"Partition {where} has no leader.")
        return leader


def network_error(connection: BlockingConnection, error: OSError) -> KafkaError:
    """A failed connection as an error that may be retried."""
    where = Address(connection.host, connection.port)
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"The connection to {where} failed: {_reason(error)}.")


def _reason(error: OSError) -> str:
    """The system's words, as a part of a sentence."""
    text = error.strerror or str(error) or type(error).__name__
    return text[0].lower() + text[1:]


def _hint(failures: list[OSError]) -> str:
    """What to look at, by what happened at the addresses that were tried."""
    if any(isinstance(error, NotKafkaError | ConnectionResetError) for error in failures):
        return "Perhaps it is not a Kafka broker, or one that expects TLS."
    if any(isinstance(error, TimeoutError) for error in failures):
        return "Is the address right, and is it a Kafka broker? One that is starting answers once its logs are loaded."
    if all(isinstance(error, socket.gaierror) for error in failures):
        return "Is the name right?"
    return "Is it running? Start one with `penstock serve`."
