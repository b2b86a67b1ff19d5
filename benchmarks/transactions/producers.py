"""confluent-kafka producers, idempotent or transactional, each in a thread of its own, as fast as they can.

    idempotent       sends all, waits for the answers once, at the end
    waiting          idempotent, but waits for the answers after each 1,000 messages, as a transaction has to
    transactional    commits after each 1,000 messages, and so waits for their answers and for the commit's

The settings are the same for both, and so are the messages. Each sends one message before the clock runs: then it is
connected and has its producer id. What a commit makes a producer wait for, others can use: that is why there are cells
with several producers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Producer

from benchmarks.broker.clients import PRODUCER, RUN_TIMEOUT_SECONDS, VALUES
from benchmarks.broker.clients import send as send_all
from benchmarks.broker.frames import text
from benchmarks.broker.systems import System, Usage

TRANSACTION_MESSAGES = 1_000
FIRST_VALUES = [b"first"] * VALUES
Run = Callable[[str], Usage]
Way = Callable[[System, str, int, int, int], Usage]
Send = Callable[[Producer, str, list[bytes], int], None]


class Runs(NamedTuple):
    """The three ways, each with a topic."""

    idempotent: Run
    waiting: Run
    transactional: Run


@contextmanager
def confluent_producers(system: System, value_bytes: int, count: int, producers: int) -> Iterator[Runs]:
    ways = (run_idempotent, run_waiting, run_transactional)
    yield Runs(*[partial(_run_way, way, system, value_bytes, count, producers) for way in ways])


def _run_way(way: Way, system: System, value_bytes: int, count: int, producers: int, topic: str) -> Usage:
    return way(system, topic, value_bytes, count, producers)


def run_idempotent(system: System, topic: str, value_bytes: int, count: int, producers: int) -> Usage:
    """`count` messages in all, by so many producers."""
    return _run(system, _idempotent(system, topic, producers), _send_idempotent, topic, value_bytes, count)


def run_waiting(system: System, topic: str, value_bytes: int, count: int, producers: int) -> Usage:
    return _run(system, _idempotent(system, topic, producers), _send_waiting, topic, value_bytes, count)


def run_transactional(system: System, topic: str, value_bytes: int, count: int, producers: int) -> Usage:
    made = [_producer(system, topic, **{"transactional.id": f"{topic}-{number}"}) for number in range(producers)]
    for producer in made:
        producer.init_transactions(RUN_TIMEOUT_SECONDS)
        _send_one_transaction(producer, topic, FIRST_VALUES, 1)
    return _run(system, made, _send_transactional, topic, value_bytes, count)


def _idempotent(system: System, topic: str, producers: int) -> list[Producer]:
    made = [_producer(system, topic) for _ in range(producers)]
    for producer in made:
        _send_idempotent(producer, topic, FIRST_VALUES, 1)
    return made


def _producer(system: System, topic: str, **options: Any) -> Producer:
    producer = Producer({"bootstrap.servers": system.bootstrap, "enable.idempotence": True, **PRODUCER, **options})
    producer.list_topics(topic, RUN_TIMEOUT_SECONDS)
    return producer


def _run(system: System, made: list[Producer], send: Send, topic: str, value_bytes: int, count: int) -> Usage:
    values = [text(value_bytes, seed) for seed in range(VALUES)]
    with ThreadPoolExecutor(len(made)) as threads, system.measure() as usage:
        running = [threads.submit(send, producer, topic, values, count // len(made)) for producer in made]
        for each in running:
            each.result()
    return usage


def _send_idempotent(producer: Producer, topic: str, values: list[bytes], count: int) -> None:
    failures: list[object] = []
    send_all(producer, topic, values, count, lambda error, _message: failures.append(error) if error else None)
    left = producer.flush(RUN_TIMEOUT_SECONDS)
    if left or failures:
        raise RuntimeError(f"{left} messages were not answered, {len(failures)} failed: {failures[:1]}")


def _send_waiting(producer: Producer, topic: str, values: list[bytes], count: int) -> None:
    for _ in range(count // TRANSACTION_MESSAGES):
        _send_idempotent(producer, topic, values, TRANSACTION_MESSAGES)


def _send_transactional(producer: Producer, topic: str, values: list[bytes], count: int) -> None:
    """A message that could not be delivered fails the commit."""
    for _ in range(count // TRANSACTION_MESSAGES):
        _send_one_transaction(producer, topic, values, TRANSACTION_MESSAGES)


def _send_one_transaction(producer: Producer, topic: str, values: list[bytes], count: int) -> None:
    producer.begin_transaction()
    send_all(producer, topic, values, count, None)
    commit(producer)


def commit(producer: Producer) -> None:
    try:
        producer.commit_transaction(RUN_TIMEOUT_SECONDS)
    except KafkaException as error:
        raise RuntimeError(f"the transaction was not committed: {error}") from error
