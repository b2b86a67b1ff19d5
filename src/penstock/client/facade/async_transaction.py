"""A transaction for asyncio: the same, with its beginning and end in a thread, so that the event loop does not wait.

    async with producer.transaction(consumer):
        for message in await consumer.poll_ready(500):
            await producer.send("invoices", invoice(message.value))

A task that is cancelled in the block aborts. One that is cancelled while the transaction commits waits for the outcome
before it goes: half a commit is of no use to anyone.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from penstock.client.facade.transaction import Transaction


class AsyncTransaction:
    """One, from the beginning of the `async with` to its end."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    async def __aenter__(self) -> Self:
        beginning = asyncio.ensure_future(asyncio.to_thread(self._transaction.__enter__))
        try:
            await asyncio.shield(beginning)
        except asyncio.CancelledError as cancelled:
            await beginning
            await asyncio.to_thread(self._transaction.__exit__, type(cancelled), cancelled, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ending = asyncio.ensure_future(asyncio.to_thread(self._transaction.__exit__, kind, error, trace))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise
