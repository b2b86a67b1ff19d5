"""Groups with the other clients: kafka-python, aiokafka and kcat, alone, together, and with confluent-kafka."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from brokers import Broker
from clients import Confluent, Record

DEADLINE_SECONDS = 60.0
KCAT = shutil.which("kcat") or shutil.which("kafkacat")
POLL_MS = 3000
"""kafka-python may forget a join that takes longer than the poll it began in."""

SESSION = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 200, "auto_offset_reset": "earliest"}


def produce(broker: Broker, topic: str, count: int, partition: int = 0, start: int = 0) -> None:
    records = [Record(b"%d" % number) for number in range(start, start + count)]
    Confluent().produce(broker.bootstrap, topic, records, partition=partition)


def subscribed(broker: Broker, topic: str, group: str, **options: Any) -> kafka.KafkaConsumer:
    """A kafka-python consumer that knows the topic's partitions before it joins.

    Else it may assign none of them, join again when it knows them, and now and then hang in the middle of that.
    """
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, **SESSION, **options)
    assert consumer.partitions_for_topic(topic)
    consumer.subscribe([topic])
    return consumer


class Polled:
    """A kafka-python consumer that is polled by a thread of its own, as a rebalance needs."""

    def __init__(self, broker: Broker, topic: str, group: str, **options: Any) -> None:
        self.consumer = subscribed(broker, topic, group, **options)
        self.values: list[int] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for messages in self.consumer.poll(timeout_ms=POLL_MS).values():
                self.values += [int(message.value) for message in messages]

    @property
    def owned(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.consumer.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize(
    "strategy",
    [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor],
    ids=lambda strategy: strategy.name,
)
def test_kafka_python_consumers_share_the_partitions(
    broker: Broker, group: str, new_topic: Callable[..., str], strategy: type
) -> None:
    topic = new_topic(partitions=4)
    for partition in range(4):
        produce(broker, topic, 5, partition, start=10 * partition)
    options = {"partition_assignment_strategy": [strategy]}
    one = Polled(broker, topic, group, **options)
    try:
        wait_until(lambda: one.owned == {0, 1, 2, 3} and len(one.values) == 20)
        two = Polled(broker, topic, group, **options)
        try:
            wait_until(lambda: len(one.owned) == len(two.owned) == 2 and one.owned | two.owned == {0, 1, 2, 3})
            for partition in range(4):
                produce(broker, topic, 5, partition, start=10 * partition + 5)
            wait_until(lambda: sorted(set(one.values + two.values)) == list(range(40)))
        finally:
            two.close()
        wait_until(lambda: one.owned == {0, 1, 2, 3})
    finally:
        one.close()


def test_kafka_python_commits_and_begins_there(broker: Broker, group: str, topic: str) -> None:
    produce(broker, topic, 10)
    partition = kafka.TopicPartition(topic, 0)
    one = subscribed(broker, topic, group, enable_auto_commit=False)
    got: list[int] = []
    wait_until(
        lambda: bool(got.extend(int(m.value) for ms in one.poll(POLL_MS).values() for m in ms)) or len(got) == 10
    )
    one.commit({partition: kafka.OffsetAndMetadata(6, "six", -1)})
    assert one.committed(partition) == 6
    one.close()
    two = Polled(broker, topic, group)
    try:
        wait_until(lambda: two.values == [6, 7, 8, 9])
    finally:
        two.close()


def test_aiokafka_consumers_share_the_partitions(broker: Broker, group: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=4)
    for partition in range(4):
        produce(broker, topic, 5, partition, start=5 * partition)

    async def scenario() -> None:
        options = {"bootstrap_servers": broker.bootstrap, "group_id": group, **SESSION}
        values: list[int] = []

        async def poll(consumer: aiokafka.AIOKafkaConsumer) -> None:
            while True:
                values.append(int((await consumer.getone()).value))

        one, two = (aiokafka.AIOKafkaConsumer(topic, **options) for _ in range(2))
        async with one:
            first = asyncio.create_task(poll(one))
            await until(lambda: len(one.assignment()) == 4 and sorted(values) == list(range(20)))
            await one.commit()
            async with two:
                second = asyncio.create_task(poll(two))
                await until(lambda: len(one.assignment()) == len(two.assignment()) == 2)
                second.cancel()
            await until(lambda: len(one.assignment()) == 4)
            first.cancel()
            assert {await one.committed(each) for each in one.assignment()} == {5}

    async def until(is_so: Callable[[], bool]) -> None:
        while not is_so():
            await asyncio.sleep(0.02)

    async def in_time() -> None:
        await asyncio.wait_for(scenario(), DEADLINE_SECONDS)

    asyncio.run(in_time())


@pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
def test_kcat_consumes_in_a_group_and_goes_on_where_it_stopped(broker: Broker, group: str, topic: str) -> None:
    def consume(count: int) -> list[str]:
        assert KCAT is not None
        command = [KCAT, "-b", broker.bootstrap, "-G", group, "-q", "-u", "-X", "auto.offset.reset=earliest", topic]
        lines = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline().strip() for _ in range(count)]
            process.send_signal(signal.SIGINT)
            process.wait(DEADLINE_SECONDS)
        return lines

    produce(broker, topic, 5)
    assert consume(5) == ["0", "1", "2", "3", "4"]
    produce(broker, topic, 5, start=5)
    assert consume(5) == ["5", "6", "7", "8", "9"]


def test_different_clients_share_one_group(broker: Broker, group: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    one = Polled(broker, topic, group)
    try:
        wait_until(lambda: one.owned == {0, 1})
        two = confluent_kafka.Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": group, "partition.assignment.strategy": "range"}
        )
        two.subscribe([topic])
        wait_until(lambda: two.poll(0.02) is None and len(two.assignment()) == len(one.owned) == 1)
        two.close()
        wait_until(lambda: one.owned == {0, 1})
    finally:
        one.close()
