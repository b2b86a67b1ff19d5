"""The producer for asyncio: the same, without blocking the event loop.

    async with AsyncProducer("127.0.0.1:9092") as producer:
        await producer.send("orders", b"...", forget=True)
        delivery = await producer.send_and_wait("orders", b"...")
        future = await producer.send("orders", b"...")          # later: delivery = await future
        async with producer.transaction(): ...                  # with a transactional_id

It is `Producer` with futures of the event loop. Deliveries are told by its thread, all that came at once in one turn of
the loop. confluent-kafka's own AIOProducer is not used: it holds messages back for up to a second to make batches of
them, which librdkafka does already, and it refuses headers.

It belongs to one event loop; messages of concurrent tasks go out in the order in which they were sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from penstock.client.facade.async_consumer import AsyncConsumer
from penstock.client.facade.async_transaction import AsyncTransaction
from penstock.client.facade.client_error import ClientError
from penstock.client.facade.librdkafka import DEFAULT_BOOTSTRAP, confluent_kafka
from penstock.client.facade.message import Delivery
from penstock.client.facade.producer import (
    CLOSE_TIMEOUT_SECONDS,
    MAX_BLOCK_SECONDS,
    ROOM_CHECK_SECONDS,
    Headers,
    OnDelivery,
    Outgoing,
    Producer,
    ProducerSettings,
    buffer_full,
)

DeliveryFuture = asyncio.Future[Delivery]


class AsyncProducer:
    """Sends messages; `raw` is librdkafka's producer."""

    def __init__(self, bootstrap: str = DEFAULT_BOOTSTRAP, **settings: Unpack[ProducerSettings]) -> None:
        self._producer = Producer(bootstrap, **settings)
        self._loop = asyncio.get_running_loop()
        self._order = asyncio.Lock()
        self._told: deque[tuple[DeliveryFuture, Any, Any]] = deque()
        """What librdkafka's thread told and the loop has not heard yet."""
        self._is_waking = False

    @property
    def raw(self) -> confluent_kafka.Producer:
        return self._producer.raw

    async def send(
        self, topic: str, value: Any = None, key: Any = None, headers: Headers | None = None,
        partition: int | None = None, timestamp: datetime | int | None = None,
        *, on_delivery: OnDelivery | None = None, forget: bool = False,
    ) -> DeliveryFuture:  # fmt: skip
        """Send one message; waits only while the buffer is full. The future it gives tells the delivery.

        `on_delivery(delivery, error)` is called in the event loop. A forgotten message that fails goes to `on_error`.
        """
        if self._producer.must_ask_partitions(topic):
            await asyncio.to_thread(self._producer.partition_count, topic)
        message = self._producer.outgoing(topic, value, key, headers, partition, timestamp)
        future: DeliveryFuture = self._loop.create_future()
        if on_delivery is not None:
            future.add_done_callback(partial(_call_back, on_delivery))
        if forget:
            future.add_done_callback(self._look_at)
        async with self._order:
            await self._send_when_room(message, future)
        return future

    async def send_and_wait(
        self, topic: str, value: Any = None, key: Any = None, headers: Headers | None = None,
        partition: int | None = None, timestamp: datetime | int | None = None,
    ) -> Delivery:  # fmt: skip
        """Send one message and wait until it is delivered; KafkaError when it is not."""
        return await (await self.send(topic, value, key, headers, partition, timestamp))

    def transaction(self, consumer: AsyncConsumer | None = None) -> AsyncTransaction:
        """Everything sent in the `async with` becomes visible at once at its end, or never."""
        if consumer is not None and not isinstance(consumer, AsyncConsumer):
            raise TypeError(f"A transaction takes an AsyncConsumer, not {type(consumer).__name__}.")
        return AsyncTransaction(self._producer.transaction(consumer.blocking if consumer is not None else None))

    async def flush(self, timeout: float = CLOSE_TIMEOUT_SECONDS) -> None:
        """Wait until everything sent so far is delivered or has failed."""
        await asyncio.to_thread(self._producer.flush, timeout)
        self._hear()

    async def close(self, timeout: float = CLOSE_TIMEOUT_SECONDS) -> None:
        try:
            await asyncio.to_thread(self._producer.close, timeout)
        finally:
            self._hear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await asyncio.to_thread(self._producer.__exit__, kind, error, trace)
        finally:
            self._hear()

    async def _send_when_room(self, message: Outgoing, future: DeliveryFuture) -> None:
        deadline = self._loop.time() + MAX_BLOCK_SECONDS
        while not self._producer.offer(message, partial(self._tell, future)):
            if self._loop.time() > deadline:
                raise buffer_full(message.topic)
            await asyncio.sleep(ROOM_CHECK_SECONDS)

    def _tell(self, future: DeliveryFuture, error: Any, raw: Any) -> None:
        """In librdkafka's thread: one wake-up of the loop for all that comes before it is awake."""
        self._told.append((future, error, raw))
        if not self._is_waking and not self._loop.is_closed():
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        self._is_waking = False
        while self._told:
            future, error, raw = self._told.popleft()
            if future.done():
                continue
            if error is not None:
                future.set_exception(ClientError(error, f"The message for {raw.topic()!r} was not delivered"))
            else:
                future.set_result(Delivery.of(raw))

    def _look_at(self, future: DeliveryFuture) -> None:
        failure = None if future.cancelled() else future.exception()
        if isinstance(failure, ClientError):
            self._producer.on_forgotten(failure)


def _call_back(on_delivery: OnDelivery, future: DeliveryFuture) -> None:
    if future.cancelled():
        return
    failure = future.exception()
    if isinstance(failure, ClientError):
        on_delivery(None, failure)
    else:
        on_delivery(future.result(), None)
