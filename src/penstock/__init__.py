"""Penstock: a distributed, partitioned, replicated commit log that speaks Kafka's protocol.

`penstock.Producer`, `Consumer`, `AsyncProducer` and `AsyncConsumer`, and `process`, which reads, processes and writes
exactly once, are for programs that use a broker, this or any other Kafka. `penstock.read` and `write`, and their async
twins, have topics as Arrow tables. They are loaded at first use: a broker or a command does not need them, nor the
libraries under them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.arrow.functions import WriteResult, read, read_async, write, write_async
    from penstock.client.arrow.reader import DataLossError
    from penstock.client.arrow.schema import SchemaError
    from penstock.client.facade.async_consumer import AsyncConsumer
    from penstock.client.facade.async_producer import AsyncProducer
    from penstock.client.facade.client_error import ClientError, TransactionAborted
    from penstock.client.facade.consumer import Consumer
    from penstock.client.facade.message import DecodingError, Delivery, Message
    from penstock.client.facade.process import Send, async_process, process
    from penstock.client.facade.producer import Producer
    from penstock.errors import KafkaError
    from penstock.types import TopicPartition

__version__ = "0.1.0"

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "ClientError",
    "Consumer",
    "DataLossError",
    "DecodingError",
    "Delivery",
    "KafkaError",
    "Message",
    "Producer",
    "SchemaError",
    "Send",
    "TopicPartition",
    "TransactionAborted",
    "WriteResult",
    "__version__",
    "async_process",
    "process",
    "read",
    "read_async",
    "write",
    "write_async",
]

_HOMES = {
    "AsyncConsumer": "penstock.client.facade.async_consumer",
    "AsyncProducer": "penstock.client.facade.async_producer",
    "ClientError": "penstock.client.facade.client_error",
    "Consumer": "penstock.client.facade.consumer",
    "DataLossError": "penstock.client.arrow.reader",
    "DecodingError": "penstock.client.facade.message",
    "Delivery": "penstock.client.facade.message",
    "KafkaError": "penstock.errors",
    "Message": "penstock.client.facade.message",
    "Producer": "penstock.client.facade.producer",
    "SchemaError": "penstock.client.arrow.schema",
    "Send": "penstock.client.facade.process",
    "TopicPartition": "penstock.types",
    "TransactionAborted": "penstock.client.facade.client_error",
    "WriteResult": "penstock.client.arrow.functions",
    "async_process": "penstock.client.facade.process",
    "process": "penstock.client.facade.process",
    "read": "penstock.client.arrow.functions",
    "read_async": "penstock.client.arrow.functions",
    "write": "penstock.client.arrow.functions",
    "write_async": "penstock.client.arrow.functions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
