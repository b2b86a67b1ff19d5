"""Producers that live through the crashes of their broker, and what must be true of everything they wrote.

A `Load` is a thread with a confluent-kafka producer. It writes numbered messages to the partitions of a topic in turn
and notes every acknowledgement: the partition, the message's number, the offset. Afterwards `check_load` compares that
with what the broker has (`read_topic`):

- an acknowledged message is at the offset that was acknowledged;
- offsets are consecutive from 0;
- an idempotent load's numbers are all there, once, in order; another's may be doubled, but none is made up.
"""

from __future__ import annotations

import os
import threading
import time
from typing import NamedTuple

import confluent_kafka

FLUSH_SECONDS = 300.0
READ_SECONDS = 120.0
PROGRESS_SECONDS = 60.0
VALUE_BYTES = 1000
MAX_QUEUED = 1000
"""Messages that wait in a producer: while the broker is away a load waits too, and does not fall behind for ever."""

NOISE = os.urandom(1 << 20)
"""Bytes that no codec makes smaller, so that segments fill up whatever the codec."""


class Acknowledged(NamedTuple):
    partition: int
    number: int
    offset: int


Content = dict[int, list[tuple[int, str, int]]]
"""What a topic holds: by partition, in the order read, (offset, load's name, message's number)."""


class Load:
    """One producer in a thread of its own, from `start` to `finish`."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, name: str, codec: str = "none", idempotent: bool = True,
        burst: int = 8,
    ) -> None:  # fmt: skip
        self.name = name
        self.topic = topic
        self.partitions = partitions
        self.is_idempotent = idempotent
        self.sent_count = 0
        self.acknowledged: list[Acknowledged] = []
        self.errors: list[str] = []
        self._burst = burst
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "acks": "all",
                "compression.type": codec,
                "linger.ms": 1,
                "batch.num.messages": 10,
                "queue.buffering.max.messages": MAX_QUEUED,
                "message.timeout.ms": int(FLUSH_SECONDS * 1000),
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 100,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "error_cb": self._on_error,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._thread.start()

    def wait_for_progress(self) -> None:
        """Until something more is acknowledged."""
        before = len(self.acknowledged)
        deadline = time.monotonic() + PROGRESS_SECONDS
        while len(self.acknowledged) == before:
            assert not self.errors, f"{self.name}: {self.errors[:3]}"
            assert time.monotonic() < deadline, f"{self.name}: nothing was acknowledged for a long time"
            time.sleep(0.002)

    def finish(self) -> None:
        """Send nothing new, and wait until everything sent is acknowledged."""
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(FLUSH_SECONDS)
        assert not self.errors, f"{self.name}: {self.errors[:3]}"
        assert left == 0, f"{self.name}: {left} messages were not acknowledged"

    def _run(self) -> None:
        while not self._stopping.is_set() and not self.errors:
            for _ in range(self._burst):
                self._send(self.sent_count)
            self._producer.poll(0.005)

    def _send(self, number: int) -> None:
        start = number * 997 % (len(NOISE) - VALUE_BYTES)
        value = b"%s %d " % (self.name.encode(), number) + NOISE[start : start + VALUE_BYTES]
        partition = number % self.partitions
        try:
            self._producer.produce(
                self.topic, value, partition=partition,
                on_delivery=lambda error, message: self._on_delivery(number, error, message),
            )  # fmt: skip
            self.sent_count += 1
        except BufferError:  # the broker is away and the queue is full
            self._producer.poll(0.05)

    def _on_delivery(
        self, number: int, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        partition, offset = message.partition(), message.offset()
        if error is not None:
            self.errors.append(f"message {number}: {error}")
        elif partition is not None and offset is not None:
            self.acknowledged.append(Acknowledged(partition, number, offset))

    def _on_error(self, error: confluent_kafka.KafkaError) -> None:
        if error.fatal():
            self.errors.append(f"fatal: {error}")


def read_topic(bootstrap: str, topic: str, partitions: int) -> Content:
    """Everything in the topic that `Load`s wrote, by confluent-kafka with its checksums on."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "check.crcs": True}
    )
    try:
        starts = [confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(partitions)]
        ends = {tp.partition: _end_offset(consumer, tp) for tp in starts}
        consumer.assign(starts)
        content: Content = {partition: [] for partition in range(partitions)}
        deadline = time.monotonic() + READ_SECONDS
        while any(len(content[partition]) < end for partition, end in ends.items()):
            assert time.monotonic() < deadline, f"{ends} wanted, {[len(each) for each in content.values()]} came"
            for message in consumer.consume(5000, timeout=0.2):
                if message.error() is not None:
                    raise confluent_kafka.KafkaException(message.error())
                value, partition, offset = message.value(), message.partition(), message.offset()
                assert value is not None
                assert partition is not None
                assert offset is not None
                name, number = value[:60].split(b" ", 2)[:2]
                content[partition].append((offset, name.decode(), int(number)))
        return content
    finally:
        consumer.close()


def _end_offset(consumer: confluent_kafka.Consumer, tp: confluent_kafka.TopicPartition) -> int:
    offsets = consumer.get_watermark_offsets(tp, timeout=READ_SECONDS)
    assert offsets is not None
    return int(offsets[1])


def check_offsets(content: Content) -> None:
    for partition, messages in content.items():
        offsets = [offset for offset, _, _ in messages]
        assert offsets == list(range(len(offsets))), f"partition {partition}: offsets are not consecutive"


def check_load(load: Load, content: Content) -> None:
    """Nothing acknowledged is lost; nothing of an idempotent load is doubled or out of order."""
    at = {
        (partition, offset): (name, number)
        for partition, messages in content.items()
        for offset, name, number in messages
    }
    lost = [each for each in load.acknowledged if at.get((each.partition, each.offset)) != (load.name, each.number)]
    assert not lost, f"{load.name}: {len(lost)} acknowledged messages are not where they were said to be: {lost[:5]}"
    for partition, messages in content.items():
        found = [number for _, name, number in messages if name == load.name]
        sent = list(range(partition, load.sent_count, load.partitions))
        if load.is_idempotent:
            assert found == sent, f"{load.name}, partition {partition}: {_first_difference(found, sent)}"
        else:
            assert set(found) <= set(sent), f"{load.name}, partition {partition}: messages that were never sent"


def _first_difference(found: list[int], sent: list[int]) -> str:
    pairs = enumerate(zip(found, sent, strict=False))
    place = next((place for place, (one, two) in pairs if one != two), min(len(found), len(sent)))
    doubled = len(found) - len(set(found))
    return (
        f"{len(found)} found, {len(sent)} sent, {doubled} doubled; around place {place} there is "
        f"{found[max(0, place - 3) : place + 4]} instead of {sent[max(0, place - 3) : place + 4]}"
    )
