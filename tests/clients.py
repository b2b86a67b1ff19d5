"""The Kafka clients that the scenarios run with, behind one small interface.

Each driver produces a list of records to one partition, or reads so many from an offset, with the client's own defaults
for everything that a scenario does not ask for. None joins a group: partitions are assigned by the caller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import aiokafka
import confluent_kafka
import kafka

Acks = Literal["0", "1", "all"]
Headers = tuple[tuple[str, bytes | None], ...]
DEADLINE_SECONDS = 30.0
QUIET: dict[str, Any] = {"log_level": 2}
"""librdkafka logs to standard error when a broker goes away, as brokers in tests do."""
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Record:
    """What a client gives a broker and gets back; a `timestamp` of None lets the client choose."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None
    offset: int | None = None


class Driver(Protocol):
    """One client library."""

    name: str

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record],
        *, partition: int = 0, acks: Acks = "all", compression: str = "none", options: dict[str, Any] | None = None,
    ) -> list[int | None]:  # fmt: skip
        """Send all and wait; the offsets that the broker told, None where acks=0 tells none."""
        ...

    def consume(
        self, bootstrap: str, topic: str, offset: int, count: int,
        *, partition: int = 0, options: dict[str, Any] | None = None,
    ) -> list[Record]:  # fmt: skip
        """`count` records from `offset` on."""
        ...


class Confluent:
    """confluent-kafka, which is librdkafka."""

    name = "confluent"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record],
        *, partition: int = 0, acks: Acks = "all", compression: str = "none", options: dict[str, Any] | None = None,
    ) -> list[int | None]:  # fmt: skip
        config = {"bootstrap.servers": bootstrap, "acks": acks, "compression.type": compression, "linger.ms": 5}
        producer = confluent_kafka.Producer(config | QUIET | (options or {}))
        offsets: list[int | None] = []

        def on_delivery(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is not None:
                raise confluent_kafka.KafkaException(error)
            told = message.offset()
            offsets.append(told if told is not None and told >= 0 and acks != "0" else None)

        for record in records:
            when: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                on_delivery=on_delivery,
                headers=list(record.headers),
                **when,
            )
            producer.poll(0)
        assert producer.flush(DEADLINE_SECONDS) == 0, "not everything was delivered in time"
        return offsets

    def consume(
        self, bootstrap: str, topic: str, offset: int, count: int,
        *, partition: int = 0, options: dict[str, Any] | None = None,
    ) -> list[Record]:  # fmt: skip
        config = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer(config | QUIET | (options or {}))
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
        found: list[Record] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        try:
            while len(found) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} records came in time"
                for message in consumer.consume(count - len(found), timeout=0.2):
                    if message.error() is not None:
                        raise confluent_kafka.KafkaException(message.error())
                    headers: Any = tuple(message.headers() or ())
                    found.append(
                        Record(message.value(), message.key(), headers, message.timestamp()[1], message.offset())
                    )
        finally:
            consumer.close()
        return found


class KafkaPython:
    """kafka-python 3, whose producer is idempotent unless told otherwise."""

    name = "kafka-python"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record],
        *, partition: int = 0, acks: Acks = "all", compression: str = "none", options: dict[str, Any] | None = None,
    ) -> list[int | None]:  # fmt: skip
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=acks == "all",
            compression_type=None if compression == "none" else compression,
            linger_ms=5,
            **(options or {}),
        )
        try:
            futures = [
                producer.send(
                    topic, record.value, record.key, list(record.headers), partition, timestamp_ms=record.timestamp
                )
                for record in records
            ]
            offsets = [future.get(timeout=DEADLINE_SECONDS).offset for future in futures]
        finally:
            producer.close(timeout=DEADLINE_SECONDS)
        return [None if acks == "0" else offset for offset in offsets]

    def consume(
        self, bootstrap: str, topic: str, offset: int, count: int,
        *, partition: int = 0, options: dict[str, Any] | None = None,
    ) -> list[Record]:  # fmt: skip
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, **(options or {}))
        assigned = kafka.TopicPartition(topic, partition)
        consumer.assign([assigned])
        consumer.seek(assigned, offset)
        found: list[Record] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        try:
            while len(found) < count:
                assert time.monotonic() < deadline, f"{len(found)} of {count} records came in time"
                polled = consumer.poll(timeout_ms=200, max_records=count - len(found))
                found += [
                    Record(message.value, message.key, tuple(message.headers), message.timestamp, message.offset)
                    for message in polled.get(assigned, [])
                ]
        finally:
            consumer.close()
        return found


class AioKafka:
    """aiokafka, which speaks only the old, plain versions of the protocol."""

    name = "aiokafka"

    def produce(
        self, bootstrap: str, topic: str, records: Sequence[Record],
        *, partition: int = 0, acks: Acks = "all", compression: str = "none", options: dict[str, Any] | None = None,
    ) -> list[int | None]:  # fmt: skip
        async def produce() -> list[int | None]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                acks="all" if acks == "all" else int(acks),
                compression_type=None if compression == "none" else compression,
                linger_ms=5,
                **(options or {}),
            )
            async with producer:
                futures = [
                    await producer.send(
                        topic, record.value, record.key, partition, record.timestamp, list(record.headers)
                    )
                    for record in records
                ]
                told = await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_SECONDS)
            return [None if acks == "0" else metadata.offset for metadata in told]

        return asyncio.run(produce())

    def consume(
        self, bootstrap: str, topic: str, offset: int, count: int,
        *, partition: int = 0, options: dict[str, Any] | None = None,
    ) -> list[Record]:  # fmt: skip
        async def consume() -> list[Record]:
            assigned = aiokafka.TopicPartition(topic, partition)
            found: list[Record] = []
            async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, **(options or {})) as consumer:
                consumer.assign([assigned])
                consumer.seek(assigned, offset)
                while len(found) < count:
                    polled = await consumer.getmany(assigned, timeout_ms=200, max_records=count - len(found))
                    found += [
                        Record(message.value, message.key, tuple(message.headers), message.timestamp, message.offset)
                        for message in polled.get(assigned, [])
                    ]
            return found

        async def consume_in_time() -> list[Record]:
            return await asyncio.wait_for(consume(), DEADLINE_SECONDS)

        return asyncio.run(consume_in_time())


DRIVERS: tuple[Driver, ...] = (Confluent(), KafkaPython(), AioKafka())
