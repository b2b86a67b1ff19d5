"""One consumer of a group as a program of its own, with any of the Python clients; it tells what happens as JSON lines.

    python group_worker.py CLIENT SETTINGS

SETTINGS is JSON: bootstrap, group, topics, pattern, instance, reset, commit (auto, sync, async), strategy, session_ms.
Lines: {"owned": [[topic, partition], ...]} when that changed, {"read": [topic, partition, offset]}, {"failed": words}.
SIGTERM closes the consumer. It is started by `group_clients`, which also stops and kills it.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Iterable
from typing import Any

HEARTBEAT_MS = 200
COMMIT_INTERVAL_MS = 100
KAFKA_PYTHON_POLL_MS = 2000
"""It forgets a join that outlasts the poll in which it began."""


class Teller:
    """Says what changed, and knows when to stop."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._owned: list[tuple[str, int]] = []
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self.is_stopping = True

    def owned(self, partitions: Iterable[Any]) -> None:
        now = sorted((each.topic, each.partition) for each in partitions)
        if now != self._owned:
            self._owned = now
            self.say(owned=now)

    def read(self, topic: str, partition: int, offset: int) -> None:
        self.say(read=[topic, partition, offset])

    def say(self, **what: Any) -> None:
        print(json.dumps(what), flush=True)


def run_confluent(teller: Teller, settings: dict[str, Any], protocol: str = "classic") -> None:
    import confluent_kafka

    config = {
        "bootstrap.servers": settings["bootstrap"],
        "group.id": settings["group"],
        "auto.offset.reset": {"none": "error"}.get(settings["reset"], settings["reset"]),
        "enable.auto.commit": settings["commit"] == "auto",
        "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
        "topic.metadata.refresh.interval.ms": 500,
        "group.protocol": protocol,
    }
    if protocol == "classic":
        config |= {"session.timeout.ms": settings["session_ms"], "heartbeat.interval.ms": HEARTBEAT_MS}
        config["partition.assignment.strategy"] = settings["strategy"] or "range"
    if settings["instance"]:
        config["group.instance.id"] = settings["instance"]
    consumer = confluent_kafka.Consumer(config)
    pattern = settings["pattern"]
    consumer.subscribe([f"^({pattern})$"] if pattern else settings["topics"])
    while not teller.is_stopping:
        message = consumer.poll(0.05)
        teller.owned(consumer.assignment())
        if message is None:
            continue
        if message.error() is not None:
            raise confluent_kafka.KafkaException(message.error())
        teller.read(message.topic() or "", message.partition() or 0, message.offset() or 0)
        if settings["commit"] != "auto":
            consumer.commit(message, asynchronous=settings["commit"] == "async")
    consumer.close()


def run_confluent_consumer(teller: Teller, settings: dict[str, Any]) -> None:
    run_confluent(teller, settings, "consumer")


def run_kafka_python(teller: Teller, settings: dict[str, Any]) -> None:
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    is_cooperative = settings["strategy"] == "cooperative-sticky"
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        group_instance_id=settings["instance"],
        auto_offset_reset=settings["reset"],
        enable_auto_commit=settings["commit"] == "auto",
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
        session_timeout_ms=settings["session_ms"],
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=500,
        partition_assignment_strategy=[CooperativeStickyAssignor if is_cooperative else RangePartitionAssignor],
    )
    pattern = settings["pattern"]
    consumer.topics()  # one that joins before it knows the partitions joins again, and now and then hangs in that
    consumer.subscribe(topics=settings["topics"] or (), pattern=f"^({pattern})$" if pattern else None)
    while not teller.is_stopping:
        polled = consumer.poll(timeout_ms=KAFKA_PYTHON_POLL_MS)
        teller.owned(consumer.assignment())
        for partition, messages in polled.items():
            for message in messages:
                teller.read(partition.topic, partition.partition, message.offset)
        if polled and settings["commit"] != "auto":
            consumer.commit() if settings["commit"] == "sync" else consumer.commit_async()
    consumer.close()


def run_aiokafka(teller: Teller, settings: dict[str, Any]) -> None:
    asyncio.run(_run_aiokafka(teller, settings))


async def _run_aiokafka(teller: Teller, settings: dict[str, Any]) -> None:
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=settings["bootstrap"],
        group_id=settings["group"],
        group_instance_id=settings["instance"],
        auto_offset_reset=settings["reset"],
        enable_auto_commit=settings["commit"] == "auto",
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
        session_timeout_ms=settings["session_ms"],
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=500,
    )
    pattern = settings["pattern"]
    consumer.subscribe(topics=settings["topics"] or (), pattern=f"^({pattern})$" if pattern else None)
    commits = set()
    async with consumer:
        while not teller.is_stopping:
            polled = await consumer.getmany(timeout_ms=50)
            teller.owned(consumer.assignment())
            for partition, messages in polled.items():
                for message in messages:
                    teller.read(partition.topic, partition.partition, message.offset)
            if polled and settings["commit"] == "sync":
                await consumer.commit()
            elif polled and settings["commit"] == "async":
                task = asyncio.create_task(consumer.commit())
                commits.add(task)
                task.add_done_callback(commits.discard)
        await asyncio.gather(*commits)


RUNNERS = {
    "confluent": run_confluent,
    "confluent-consumer": run_confluent_consumer,
    "kafka-python": run_kafka_python,
    "aiokafka": run_aiokafka,
}


def main() -> None:
    teller = Teller()
    try:
        RUNNERS[sys.argv[1]](teller, json.loads(sys.argv[2]))
    except Exception as error:
        teller.say(failed=re.sub(r"\s+", " ", f"{type(error).__name__}: {error}"))
        sys.exit(1)


if __name__ == "__main__":
    main()
