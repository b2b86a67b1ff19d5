"""What the broker remembers of a connection: the requests that it repeats, and those that stand in a line."""

from __future__ import annotations

from penstock.broker.produce_memo import ProduceMemos
from penstock.broker.transaction_memo import TransactionMemos
from penstock.net.server_connection import ServerConnection


class Memory:
    __slots__ = ("produced", "transactions")

    def __init__(self) -> None:
        self.produced = ProduceMemos()
        self.transactions = TransactionMemos()


def memory_of(connection: ServerConnection) -> Memory:
    """Made when it is first needed: an idle connection has none."""
    if connection.memory is None:
        connection.memory = Memory()
    memory: Memory = connection.memory
    return memory
