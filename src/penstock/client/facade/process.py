"""Read, process, write: a loop over a consumer's messages that sends what a function makes of each.

    def invoice(message):
        return Send("invoices", make_invoice(message.value), key=message.key)

    with Consumer("orders", group="billing", delivery="exactly_once") as consumer, \\
         Producer(transactional_id="billing-1") as producer:
        process(consumer, producer, invoice)

The function gets a message and gives what goes out: nothing (None), one `Send`, or several. The consumer's `delivery`
says what a crash in the middle does:

    exactly_once     position and output are committed in one transaction: each message counts once, whatever dies
    at_least_once    the output is delivered, then the position is committed: output may be doubled
    at_most_once     the position is committed, then the output is sent: output may be missing

Exactly once is about what `read_committed` readers of the output see, and about the position. The function itself may
run again for a message whose transaction was aborted, so what it does elsewhere must bear that.

Rules:
- up to `batch_size` messages that are there go into one transaction; it does not wait for more;
- a transaction that was aborted (a rebalance, trouble with the broker) is done again, at most MAX_ATTEMPTS times in a
  row; any other failure, such as a message that is too large for its topic, ends the loop with the consumer back
  where the transaction began;
- several programs share the work by the group; each has a transactional id of its own, the same each time it runs.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from penstock.client.facade.async_consumer import AsyncConsumer
from penstock.client.facade.async_producer import AsyncProducer
from penstock.client.facade.client_error import TransactionAborted
from penstock.client.facade.consumer import POLL_SECONDS, Consumer
from penstock.client.facade.message import Message
from penstock.client.facade.producer import Headers

log = logging.getLogger("penstock.client")

BATCH_SIZE = 500
MAX_ATTEMPTS = 20
MAX_PAUSE_SECONDS = 1.0

_EXPECTED = "not a Send, a list of them or None"


class Send(NamedTuple):
    """A message to be sent; the fields are those of `Producer.send`."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers | None = None
    partition: int | None = None
    timestamp: datetime | int | None = None


Output = Send | Iterable[Send] | None
Function = Callable[[Message], Output]
AsyncFunction = Callable[[Message], Output | Awaitable[Output]]


class Outlet(Protocol):
    """What `process` needs of a producer."""

    def send(
        self, topic: str, value: Any = None, key: Any = None, headers: Headers | None = None,
        partition: int | None = None, timestamp: datetime | int | None = None,
    ) -> Any: ...  # fmt: skip

    def transaction(self, consumer: Consumer | None = None) -> AbstractContextManager[Any]: ...


def process(
    consumer: Consumer, producer: Outlet, fn: Function, *, batch_size: int = BATCH_SIZE,
    stop: threading.Event | None = None,
) -> int:  # fmt: skip
    """Until `stop` is set, or the end with `stop_at_end`; how many messages were processed."""
    if not isinstance(consumer, Consumer):
        raise TypeError(f"process takes a Consumer first, not {type(consumer).__name__}.")
    count = attempt = 0
    while not consumer.is_at_end and not (stop is not None and stop.is_set()):
        batch = consumer.poll_ready(batch_size, POLL_SECONDS)
        if not batch:
            continue
        try:
            if consumer.is_exactly_once:
                with producer.transaction(consumer):
                    _send_all(producer, fn, batch)
            else:
                for delivery in _send_all(producer, fn, batch):
                    delivery.result()
        except TransactionAborted as error:
            attempt += 1
            time.sleep(_pause(error, attempt))
            continue
        attempt = 0
        count += len(batch)
    return count


async def async_process(
    consumer: AsyncConsumer, producer: AsyncProducer, fn: AsyncFunction, *, batch_size: int = BATCH_SIZE
) -> int:
    """The same in an event loop; `fn` may be a coroutine. It ends at the end with `stop_at_end`, or is cancelled."""
    if not isinstance(consumer, AsyncConsumer):
        raise TypeError(f"async_process takes an AsyncConsumer first, not {type(consumer).__name__}.")
    count = attempt = 0
    while not consumer.is_at_end:
        batch = await consumer.poll_ready(batch_size, POLL_SECONDS)
        if not batch:
            continue
        try:
            if consumer.is_exactly_once:
                async with producer.transaction(consumer):
                    await _send_all_async(producer, fn, batch)
            else:
                await asyncio.gather(*await _send_all_async(producer, fn, batch))
        except TransactionAborted as error:
            attempt += 1
            await asyncio.sleep(_pause(error, attempt))
            continue
        attempt = 0
        count += len(batch)
    return count


def _send_all(producer: Outlet, fn: Function, batch: list[Message]) -> list[Any]:
    return [producer.send(*each) for message in batch for each in _outputs(fn(message))]


async def _send_all_async(producer: AsyncProducer, fn: AsyncFunction, batch: list[Message]) -> list[Any]:
    sent: list[Any] = []
    for message in batch:
        made = fn(message)
        outputs = _outputs(await made if inspect.isawaitable(made) else made)
        sent += [await producer.send(*each) for each in outputs]
    return sent


def _outputs(made: Output) -> Iterable[Send]:
    """What goes out for one message, looked at before any of it is sent."""
    if made is None:
        return ()
    if isinstance(made, Send):
        return (made,)
    if isinstance(made, (str, bytes, Mapping)) or not isinstance(made, Iterable):
        raise TypeError(f"The function gave {type(made).__name__}, {_EXPECTED}.")
    outputs = list(made)
    for each in outputs:
        if not isinstance(each, Send):
            raise TypeError(f"The function gave {type(made).__name__} of {type(each).__name__}, {_EXPECTED}.")
    return outputs


def _pause(error: TransactionAborted, attempt: int) -> float:
    """How long to wait before the work is done again; the error, when that was enough."""
    if attempt >= MAX_ATTEMPTS:
        raise error
    log.info("%s It is done again (attempt %d).", error, attempt + 1)
    return min(MAX_PAUSE_SECONDS, 0.01 * (1 << attempt))
