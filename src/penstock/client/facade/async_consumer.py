"""The consumer for asyncio: the same, in a thread of its own, so that the event loop never waits for it.

    async with AsyncConsumer("orders", group="billing") as consumer:
        async for message in consumer:
            await bill(message.value)

It is `Consumer`, called from one thread. A hop to the thread costs as much as many messages, so the iteration brings up
to PREFETCH at once; they are handed out, and done, one by one as in `Consumer`. Where each message is committed by
itself ("sync", at most once) it brings one. confluent-kafka's own AIOConsumer is not used: it hops for each message.

Rules:
- it belongs to one event loop. Several tasks may use it; each call waits its turn;
- a task that is cancelled while it waits loses no message: what had come is handed out next;
- rebalance listeners run in the thread, not in the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack

from penstock.client.facade.consumer import ASSIGN_TIMEOUT_SECONDS, POLL_SECONDS, Consumer
from penstock.client.facade.consumer_settings import ConsumerSettings
from penstock.client.facade.librdkafka import DEFAULT_BOOTSTRAP, confluent_kafka
from penstock.client.facade.message import Message
from penstock.types import TopicPartition

PREFETCH = 200

T = TypeVar("T")


class AsyncConsumer:
    """Reads topics; `raw` is librdkafka's consumer. Settings are those of `Consumer`."""

    def __init__(
        self, topics: str | Iterable[str], bootstrap: str = DEFAULT_BOOTSTRAP, **settings: Unpack[ConsumerSettings]
    ) -> None:
        self._consumer = Consumer(topics, bootstrap, **settings)
        self._thread = ThreadPoolExecutor(1, "penstock-consumer")
        self._turn = asyncio.Lock()
        self._bringing: asyncio.Future[None] | None = None
        """A fetch in the thread; one whose caller was cancelled is waited for by the next."""
        self._commits_first = settings.get("delivery") == "at_most_once"
        self._prefetch = 1 if self._commits_first or settings.get("commit") == "sync" else PREFETCH

    @property
    def raw(self) -> confluent_kafka.Consumer:
        return self._consumer.raw

    @property
    def blocking(self) -> Consumer:
        """The consumer inside, for a producer's transaction; nobody polls it meanwhile."""
        return self._consumer

    @property
    def is_exactly_once(self) -> bool:
        return self._consumer.is_exactly_once

    @property
    def is_at_end(self) -> bool:
        return self._consumer.is_at_end

    @property
    def topics(self) -> list[str]:
        return self._consumer.topics

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._consumer.assignment

    # Messages

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        async with self._turn:
            while not await self._has_messages(self._consumer.bring, self._prefetch, POLL_SECONDS):
                if self._consumer.is_at_end:
                    raise StopAsyncIteration
            return (await self._handed(1))[0]

    async def poll(self, timeout: float = 1.0) -> Message | None:
        """The next message, or None when none came in time."""
        async with self._turn:
            has_any = await self._has_messages(self._consumer.bring, self._prefetch, timeout)
            return (await self._handed(1))[0] if has_any else None

    async def poll_batch(self, size: int, timeout: float = 1.0) -> list[Message]:
        """Up to `size` messages, as many as came in time."""
        async with self._turn:
            await self._has_messages(self._consumer.gather, size, timeout)
            return await self._handed(size)

    async def poll_ready(self, size: int, timeout: float = 1.0) -> list[Message]:
        """What is there already, up to `size` messages; waits only for the first of them."""
        async with self._turn:
            await self._has_messages(self._consumer.bring, size, timeout)
            return await self._handed(size)

    async def batches(self, size: int, timeout: float = 1.0) -> AsyncIterator[list[Message]]:
        """Lists of up to `size` messages; each waits at most `timeout` seconds to be full and has at least one."""
        while not self._consumer.is_at_end:
            batch = await self.poll_batch(size, timeout)
            if batch:
                yield batch

    # Positions

    async def commit(self, *messages: Message) -> None:
        """Remember that these messages, or without any all that were handed out, are done."""
        await self._run(self._consumer.commit, *messages)

    async def commit_async(self, *messages: Message) -> None:
        await self._run(self._consumer.commit_async, *messages)

    async def seek(
        self,
        where: int | datetime | Literal["earliest", "latest"],
        partitions: Iterable[TopicPartition] | None = None,
    ) -> None:
        """Go on reading from an offset, a time, the earliest or the latest message; in all partitions unless named."""
        named = None if partitions is None else [TopicPartition(*each) for each in partitions]
        async with self._turn:
            await self._run(self._consumer.seek, where, named)

    async def pause(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Get nothing from these partitions, or from all, beyond what was brought already."""
        await self._run(self._consumer.pause, partitions)

    async def resume(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        await self._run(self._consumer.resume, partitions)

    async def wait_assigned(self, timeout: float = ASSIGN_TIMEOUT_SECONDS) -> list[TopicPartition]:
        """Wait until the group has given us partitions; what is written from then on is read."""
        async with self._turn:
            return await self._run(self._consumer.wait_assigned, timeout)

    async def committed(self) -> dict[TopicPartition, int | None]:
        return await self._run(self._consumer.committed)

    async def lag(self) -> dict[TopicPartition, int]:
        return await self._run(self._consumer.lag)

    # The end

    async def close(self) -> None:
        """What was handed out is done; commit it as chosen, and leave the group."""
        await self.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._run(self._consumer.__exit__, kind, error, trace)
        finally:
            self._thread.shutdown(wait=False)

    # How a message comes from the thread

    async def _has_messages(self, fetch: Callable[[int, float], None], size: int, timeout: float) -> bool:
        """Fetch, unless something waits already; true when something does then."""
        if self._bringing is None:
            if self._consumer.waiting:
                await self._maybe_finish()
                return True
            self._bringing = asyncio.ensure_future(self._run(self._finish_and, fetch, size, timeout))
        bringing = self._bringing
        try:
            await asyncio.shield(bringing)
        finally:
            if bringing.done():
                self._bringing = None
        return bool(self._consumer.waiting)

    def _finish_and(self, fetch: Callable[[int, float], None], size: int, timeout: float) -> None:
        self._consumer.finish()
        fetch(size, timeout)

    async def _maybe_finish(self) -> None:
        """What is committed one by one is done before the next is handed out; the rest, before the next fetch."""
        if self._prefetch == 1:
            await self._run(self._consumer.finish)

    async def _handed(self, size: int) -> list[Message]:
        """Up to `size` of what waits. From here to the caller nothing is awaited, so that none is lost on the way;
        at most once may lose them, and commits first."""
        self._consumer.mark_done()
        messages = self._consumer.take(size)
        if self._commits_first:
            await self._run(self._consumer.hand, messages)
        else:
            self._consumer.hand(messages)
        return messages

    async def _run(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)
