"""A broker inside the test's own process and event loop, and a small client beside it.

    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            answer = await client.produce("t", batch(b"hello"))

    run(scenario())

It starts in a few milliseconds, its parts can be looked at, and its files can be held up or made to fail (`TestFiles`).
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from penstock.broker.broker import Broker, World
from penstock.broker.config import BrokerConfig
from penstock.broker.controller.configs import Alteration, ConfigChange, ResourceType
from penstock.broker.controller.topics import NewTopic
from penstock.broker.replicas.partition import Partition
from penstock.env.files import File, SystemFile, SystemFiles
from penstock.wire import api as apis
from penstock.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from penstock.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.wire.batch_builder import build_batch
from penstock.wire.compile import codec
from penstock.wire.header import append_request_header, read_response_header, response_has_tags
from penstock.wire.record import Record
from penstock.wire.schema import Struct

TIMEOUT_SECONDS = 60.0
FETCH_KEY, PRODUCE_KEY = 1, 0
LONG_WAIT_MS = 50_000
"""For a fetch that has to be woken: a test that waits this long has failed."""


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """On uvloop, as `penstock serve` does, and not for ever."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(scenario, TIMEOUT_SECONDS))


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that happens soon."""
    while not condition():
        await asyncio.sleep(0.001)


class TestFiles(SystemFiles):
    """The system's files, which can be held up and made to fail."""

    __test__ = False
    __slots__ = ("create_error", "may_sync", "sync_count", "sync_error")

    def __init__(self) -> None:
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.sync_error: OSError | None = None
        self.sync_count = 0
        """Of segments."""
        self.create_error: OSError | None = None
        """For new directories of partitions."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        file = super().open(path, create=create, writable=writable)
        if not path.endswith(".log"):
            return file
        held = _TestFile(file.fileno(), path)
        held.files = self
        file._fd = -1  # type: ignore[attr-defined]  # the descriptor has moved
        return held

    def make_dir(self, path: str) -> None:
        if self.create_error is not None:
            raise self.create_error
        super().make_dir(path)


class _TestFile(SystemFile):
    __slots__ = ("files",)
    files: TestFiles

    def sync(self) -> None:
        assert self.files.may_sync.wait(TIMEOUT_SECONDS)
        self.files.sync_count += 1
        if self.files.sync_error is not None:
            raise self.files.sync_error
        super().sync()


@asynccontextmanager
async def running(directory: Path, *settings: str, files: TestFiles | None = None) -> AsyncIterator[Broker]:
    """A broker on a free port; `settings` are `key=value`."""
    config = BrokerConfig.load(None, {}, ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={directory}", *settings])
    broker = Broker(config, World(files=files) if files is not None else None)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def create_topic(broker: Broker, name: str, partitions: int = 1, **configs: str) -> None:
    pairs = tuple((key.replace("_", "."), value) for key, value in configs.items())
    results = await broker.context.controller.create_topics([NewTopic(name, partitions, 1, configs=pairs)])
    assert not isinstance(results[name], Exception), results[name]


async def set_config(broker: Broker, kind: ResourceType, name: str, **configs: str) -> None:
    changes = tuple(ConfigChange(key.replace("_", "."), value) for key, value in configs.items())
    alterations = [Alteration(kind, name, changes)]
    (error,) = await broker.context.controller.alter_configs(alterations, is_incremental=True)
    assert error is None, error


def partition(broker: Broker, topic: str, index: int = 0) -> Partition:
    return broker.context.replicas.by_name[topic][index]


def batch(*values: bytes, timestamp_ms: int | None = None, **fields: Any) -> bytes:
    """One batch of these values, of now unless said."""
    now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    records = [Record(number, now_ms, None, value, ()) for number, value in enumerate(values)]
    return bytes(build_batch(records, **fields))


class Client:
    """One connection that speaks through our own codec."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._sent: list[tuple[int, int]] = []
        self._correlation_id = 0

    async def call(self, key: int, version: int, request: Struct) -> Any:
        self.send(key, version, request)
        return await self.receive()

    def send(self, key: int, version: int, request: Struct) -> None:
        self._correlation_id += 1
        self._sent.append((key, version))
        self.writer.write(frame(key, version, request, self._correlation_id))

    async def receive(self) -> Any:
        """The response to the oldest request that has none yet."""
        key, version = self._sent.pop(0)
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        data = await self.reader.readexactly(size)
        reading = codec(apis.load(key).response, version)
        _, position = read_response_header(data, 0, response_has_tags(key, reading.is_flexible))
        return reading.decode(data, position, 10_000_000)[0]

    async def produce(self, topic: str, records: bytes | None, index: int = 0, acks: int = -1) -> Any:
        """The partition's answer; None with acks 0."""
        self.send(PRODUCE_KEY, 9, produce_request(topic, records, index, acks))
        if acks == 0:
            self._sent.pop()
            return None
        return (await self.receive()).responses[0].partition_responses[0]

    async def fetch(self, topic: str, offset: int = 0, **fields: Any) -> Any:
        """The partition's answer, or the whole response when it has no partition."""
        response = await self.call(FETCH_KEY, 12, fetch_request({topic: {0: offset}}, **fields))
        return response.responses[0].partitions[0] if response.responses else response


def frame(key: int, version: int, request: Struct, correlation_id: int = 1) -> bytes:
    """A request as it travels."""
    writing = codec(apis.load(key).request, version)
    out = bytearray(4)
    append_request_header(out, key, version, correlation_id, "test", writing.is_flexible)
    writing.encode(request, out, [])
    struct.pack_into(">i", out, 0, len(out) - 4)
    return bytes(out)


def produce_request(topic: str, records: bytes | None, index: int = 0, acks: int = -1) -> ProduceRequest:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(index, records)])
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[data])


def fetch_request(
    offsets: dict[str, dict[int, int]],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50_000_000,
    partition_max_bytes: int = 1_000_000,
    session: tuple[int, int] = (0, -1),
    forgotten: dict[str, list[int]] | None = None,
) -> FetchRequest:
    """`offsets` by topic and partition; `session` is id and epoch."""
    topics = [
        FetchTopic(
            topic,
            partitions=[
                FetchPartition(index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
                for index, offset in wanted.items()
            ],
        )
        for topic, wanted in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        forgotten_topics_data=[ForgottenTopic(topic, partitions=gone) for topic, gone in (forgotten or {}).items()],
    )


@asynccontextmanager
async def connected(broker: Broker) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.addresses[0][2], limit=1 << 26)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
