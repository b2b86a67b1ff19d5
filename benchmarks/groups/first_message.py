"""The first message of the first consumer of a new group, with real clients.

`new` counts from before the consumer is made, as a program's user would. `connected` counts from `subscribe()` on a
consumer that has been connected for a while and knows the topic. The topic has messages in every partition and the
consumer begins with the earliest; each time the group is new. `penstock.Consumer` subscribes as it is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiokafka
import confluent_kafka
import kafka

import penstock

TIMEOUT_SECONDS = 60.0
SETTLE_SECONDS = 0.3
"""Until a consumer that was told nothing yet has found its brokers."""
now = time.perf_counter


@dataclass(frozen=True, slots=True)
class Reader:
    """What a client is asked to do."""

    bootstrap: str
    topic: str
    group: str
    is_connected: bool

    def read_with_confluent(self, **options: str) -> float:
        config = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "auto.offset.reset": "earliest"}
        began = now()
        consumer = confluent_kafka.Consumer({**config, **options})
        try:
            if self.is_connected:
                consumer.list_topics(self.topic, TIMEOUT_SECONDS)
                consumer.poll(SETTLE_SECONDS)
                began = now()
            consumer.subscribe([self.topic])
            message = consumer.poll(TIMEOUT_SECONDS)
            taken = now() - began
        finally:
            consumer.close()
        if message is None or message.error():
            raise RuntimeError(f"confluent-kafka got {message and message.error()}")
        return taken

    def read_with_confluent_consumer(self) -> float:
        return self.read_with_confluent(**{"group.protocol": "consumer"})

    def read_with_kafka_python(self) -> float:
        began = now()
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            consumer_timeout_ms=TIMEOUT_SECONDS * 1000,
        )
        try:
            if self.is_connected:
                consumer.partitions_for_topic(self.topic)
                time.sleep(SETTLE_SECONDS)
                began = now()
            consumer.subscribe([self.topic])
            next(consumer)
            return now() - began
        finally:
            consumer.close()

    def read_with_aiokafka(self) -> float:
        return asyncio.run(self._read_with_aiokafka())

    async def _read_with_aiokafka(self) -> float:
        began = now()
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=self.group, auto_offset_reset="earliest"
        )
        try:
            if self.is_connected:
                await consumer.start()
                await asyncio.sleep(SETTLE_SECONDS)
                began = now()
                consumer.subscribe([self.topic])
            else:
                consumer.subscribe([self.topic])
                await consumer.start()
            await asyncio.wait_for(consumer.getone(), TIMEOUT_SECONDS)
            return now() - began
        finally:
            await consumer.stop()

    def read_with_penstock(self) -> float:
        began = now()
        with penstock.Consumer(self.topic, self.bootstrap, group=self.group) as consumer:
            if consumer.poll(TIMEOUT_SECONDS) is None:
                raise RuntimeError("penstock.Consumer got nothing")
            return now() - began


@dataclass(frozen=True, slots=True)
class Client:
    """One way to read, and whether it can be connected before it subscribes."""

    what: str
    read: Callable[[Reader], float]
    can_be_connected: bool = True


CLIENTS = {
    "confluent": Client("confluent-kafka", Reader.read_with_confluent),
    "confluent-consumer": Client("confluent-kafka, group.protocol=consumer", Reader.read_with_confluent_consumer),
    "aiokafka": Client("aiokafka", Reader.read_with_aiokafka),
    "kafka-python": Client("kafka-python", Reader.read_with_kafka_python),
    "penstock": Client("penstock.Consumer", Reader.read_with_penstock, can_be_connected=False),
}
