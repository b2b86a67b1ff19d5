"""Penstock: a distributed, partitioned, replicated commit log that speaks Kafka's protocol.

`penstock.Producer`, `Consumer`, `AsyncProducer` and `AsyncConsumer`, and `process`, which reads, processes and writes
exactly once, are for programs that use a broker, this or any other Kafka. They are loaded at first use: a broker or a
command does not need them, nor the library under them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    "DecodingError",
    "Delivery",
    "KafkaError",
    "Message",
    "Producer",
    "Send",
    "TopicPartition",
    "TransactionAborted",
    "__version__",
    "async_process",
    "process",
]

_HOMES = {
    "AsyncConsumer": "penstock.client.facade.async_consumer",
    "AsyncProducer": "penstock.client.facade.async_producer",
    "ClientError": "penstock.client.facade.client_error",
    "Consumer": "penstock.client.facade.consumer",
    "DecodingError": "penstock.client.facade.message",
    "Delivery": "penstock.client.facade.message",
    "KafkaError": "penstock.errors",
    "Message": "penstock.client.facade.message",
    "Producer": "penstock.client.facade.producer",
    "Send": "penstock.client.facade.process",
    "TopicPartition": "penstock.types",
    "TransactionAborted": "penstock.client.facade.client_error",
    "async_process": "penstock.client.facade.process",
    "process": "penstock.client.facade.process",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
