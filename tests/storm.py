"""A storm over one group: consumers that join, leave and die at random, producers that go on, and what they all saw.

A consumer is a process, so that it can be killed. One process (`python storm.py ...`, the nursery) has loaded the
client and forks a consumer for each line on its standard input: that takes milliseconds, not half a second of work.

A consumer appends what it sees to a file of its own, in one write for each batch and before it commits, so that a kill
loses no line of what was committed:

    + 0 1 2          these partitions came
    - 0 1 2          these partitions went
    7 42 42          partition, offset, value

SIGTERM makes it leave the group, SIGKILL makes it die.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import confluent_kafka

BATCH_SIZE = 200
CLOSE_TIMEOUT_SECONDS = 60.0
PRODUCER_PAUSE_SECONDS = 0.02
MAX_CALM_SECONDS = 1.0
"""Between two changes."""
SIGNALS = {"leave": signal.SIGTERM, "die": signal.SIGKILL}


# The consumer


def nurse(directory: Path, topic: str, config: Mapping[str, Any]) -> None:
    """Fork a consumer for each line of standard input, and tell its process id."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for number, _ in enumerate(sys.stdin):
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            consume(directory / str(os.getpid()), topic, {**config, "client.id": f"storm-{number}"}, number)
            os._exit(0)
        print(pid, flush=True)


def consume(path: Path, topic: str, config: Mapping[str, Any], number: int) -> None:
    """Read until SIGTERM, or until the nursery is gone. Every second consumer commits by itself, others in turn."""
    is_leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_leaving.set())
    parent = os.getppid()
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    commits_itself = number % 2 == 0
    consumer = confluent_kafka.Consumer({**config, "enable.auto.commit": not commits_itself})
    unfinished: dict[int, int] = {}

    def tell(sign: str, partitions: list[confluent_kafka.TopicPartition]) -> None:
        os.write(out, (" ".join([sign, *(str(each.partition) for each in partitions)]) + "\n").encode())
        for each in partitions:
            unfinished.pop(each.partition, None)  # its next owner's to commit: no broker would refuse it from another

    consumer.subscribe(
        [topic],
        on_assign=lambda _, parts: tell("+", parts),
        on_revoke=lambda _, parts: tell("-", parts),
        on_lost=lambda _, parts: tell("-", parts),
    )
    while not is_leaving.is_set() and os.getppid() == parent:
        batch = [message for message in consumer.consume(BATCH_SIZE, 0.2) if message.error() is None]
        lines = [b"%d %d %s\n" % (each.partition(), each.offset(), each.value()) for each in batch]
        os.write(out, b"".join(lines))
        owned = {each.partition for each in consumer.assignment()}
        unfinished.update((each.partition(), each.offset() + 1) for each in batch if each.partition() in owned)
        finish(consumer, topic, unfinished, commits_itself)
    consumer.close()


def finish(consumer: confluent_kafka.Consumer, topic: str, unfinished: dict[int, int], commits_itself: bool) -> None:
    """Commit what was read, or leave it to librdkafka.

    What a rebalance refuses stays unfinished: a cooperative member keeps its partitions, and nobody else would commit
    the last messages of a partition that gets no more.
    """
    offsets = [confluent_kafka.TopicPartition(topic, *position) for position in unfinished.items()]
    try:
        if offsets and commits_itself:
            consumer.commit(offsets=offsets, asynchronous=False)
        elif offsets:
            consumer.store_offsets(offsets=offsets)
    except confluent_kafka.KafkaException:
        return
    unfinished.clear()


# The storm


class Herd:
    """The consumers that live now."""

    def __init__(self, directory: Path, bootstrap: str, topic: str, options: Mapping[str, Any]) -> None:
        self.directory = directory
        directory.mkdir()
        config = {
            "bootstrap.servers": bootstrap,
            "auto.offset.reset": "earliest",
            "enable.auto.offset.store": False,
            "auto.commit.interval.ms": 300,
            "log_level": 0,
            **options,
        }
        arguments = [sys.executable, __file__, str(directory), topic, json.dumps(config)]
        pipe = subprocess.PIPE
        self._nursery = subprocess.Popen(arguments, stdin=pipe, stdout=pipe, text=True, bufsize=1)
        self.alive: list[int] = []
        self.counts: dict[str, int] = defaultdict(int)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self.alive:
            self.end("die", self.alive[-1])
        self._nursery.kill()
        self._nursery.wait()

    def join(self) -> None:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write("\n")
        self.alive.append(int(self._nursery.stdout.readline()))
        self.counts["join"] += 1

    def end(self, how: str, pid: int) -> None:
        """Make one leave or die."""
        self.alive.remove(pid)
        self.counts[how] += 1
        os.kill(pid, SIGNALS[how])

    def weather(self, chance: random.Random, size: int, seconds: float) -> None:
        """Keep about so many consumers for so long, while some leave, some die and others come."""
        for _ in range(size):
            self.join()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(chance.uniform(0, MAX_CALM_SECONDS))  # the random moment, not a wait for anything
            if self.alive and chance.random() < len(self.alive) / (2 * size):
                self.end(chance.choice(["leave", "die"]), chance.choice(self.alive))
            elif len(self.alive) < size:
                self.join()
        while len(self.alive) < size:
            self.join()

    def leave_all(self) -> None:
        """All leave; return when they are gone."""
        leaving = list(self.alive)
        for pid in leaving:
            self.end("leave", pid)
        deadline = time.monotonic() + CLOSE_TIMEOUT_SECONDS
        while any(Path(f"/proc/{pid}").exists() for pid in leaving):
            assert time.monotonic() < deadline, "a consumer does not leave"
            time.sleep(0.05)

    def reports(self) -> Iterator[list[list[str]]]:
        """What each consumer saw, by line and word; a line that a kill cut is left out."""
        for path in self.directory.iterdir():
            yield [line.split() for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


class Sender(threading.Thread):
    """Writes growing numbers to each partition: the value of a message is its offset."""

    def __init__(self, bootstrap: str, topic: str, partitions: range) -> None:
        super().__init__()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._topic = topic
        self.acknowledged = dict.fromkeys(partitions, 0)
        self.failures: list[str] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            for partition in self.acknowledged:
                self._producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=self._told)
            number += 1
            self._producer.poll(0)
            time.sleep(PRODUCER_PAUSE_SECONDS)  # the rate of the load
        self._producer.flush(30)

    def _told(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None or message.offset() != int(message.value() or b"-1"):
            self.failures.append(f"{message.partition()} {message.offset()} {message.value()!r} {error}")
        else:
            self.acknowledged[message.partition() or 0] += 1


# What it showed


@dataclass(frozen=True, slots=True)
class Reading:
    """What the group read: offsets by partition, how often anything was read, and what broke the order."""

    offsets: Mapping[int, set[int]]
    count: int
    disorder: list[str]

    @classmethod
    def of(cls, herd: Herd) -> Reading:
        offsets: dict[int, set[int]] = defaultdict(set)
        count, disorder = 0, []
        for report in herd.reports():
            positions: dict[int, int] = {}
            for words in report:
                if words[0] in "+-":
                    for partition in map(int, words[1:]):
                        positions.pop(partition, None)
                    continue
                partition, offset, value = map(int, words)
                if offset != value or positions.get(partition, offset) != offset:
                    disorder.append(f"partition {partition}: {offset} (value {value}) at {positions.get(partition)}")
                positions[partition] = offset + 1
                offsets[partition].add(offset)
                count += 1
        return cls(offsets, count, disorder)


if __name__ == "__main__":
    nurse(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
