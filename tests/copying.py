"""A program that copies a topic exactly once, killed and started again at will, and what must be true in the end.

A copier is a process (`python copying.py NAME CONFIG`): `penstock.process` from one topic to the same partitions of
another, with a recorder of everything it does. Copier 2 has the transactional id `copy-2` however often it is started,
and is `copy-2.5` in the history when it is the fifth to be that one.

Inputs are `partition:number`; an output is the input and the name of its transaction, since in a history every value is
written once: `0:17 copy-2.5/31`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import penstock
from penstock.testing.history import RecordedProducer, Recorder

SOURCE = Path(__file__).resolve().parents[1] / "src"
SESSION = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
"""The broker must allow it: `group.min.session.timeout.ms`. The dead are noticed within a second."""

QUICK = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}
GAVE_UP = 3
"""The status of a copier whose producer cannot go on; whoever watches it starts another."""

READ_SECONDS = 120.0


class Job(NamedTuple):
    """What is copied, and where the history is written."""

    bootstrap: str
    source: str
    target: str
    group: str
    history: str
    batch_size: int = 20


# A copier


def copy(name: str, job: Job) -> None:
    recorder = Recorder(Path(job.history) / f"{name}.jsonl", name)
    transactional_id = name.partition(".")[0]
    consumer = penstock.Consumer(
        job.source, job.bootstrap, group=job.group, delivery="exactly_once", on_assigned=recorder.place,
        options={**SESSION, **QUICK},
    )  # fmt: skip
    producer = penstock.Producer(job.bootstrap, transactional_id=transactional_id, options=QUICK)
    with consumer, producer:
        recorded = RecordedProducer(producer, recorder)

        def copied(message: penstock.Message) -> penstock.Send:
            recorded.took(message)
            value = f"{message.value.decode()} {recorded.current}"
            return penstock.Send(job.target, value, partition=message.partition)

        penstock.process(consumer, recorded, copied, batch_size=job.batch_size)


class Copiers:
    """So many copiers, each started again when it ends."""

    def __init__(self, directory: Path, job: Job, count: int) -> None:
        self._directory = directory
        self._job = job
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._incarnations: dict[int, int] = defaultdict(int)
        self.gave_up: list[str] = []
        for number in range(count):
            self._start(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for running in self._running.values():
            running.kill()
            running.wait()

    def kill(self, number: int) -> None:
        """SIGKILL, and another one in its place."""
        self._running[number].kill()
        self._running[number].wait()
        self._start(number)

    def tend(self) -> None:
        """Start those again whose producer could not go on; a copier that failed otherwise is an error."""
        for number, running in list(self._running.items()):
            status = running.poll()
            if status is None:
                continue
            name = f"copy-{number}.{self._incarnations[number]}"
            words = (self._directory / f"{name}.stderr").read_text()
            assert status == GAVE_UP, f"{name} ended with status {status}:\n{words}"
            self.gave_up.append(f"{name}: {words.strip()}")
            self._start(number)

    def _start(self, number: int) -> None:
        self._incarnations[number] += 1
        name = f"copy-{number}.{self._incarnations[number]}"
        path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
        with (self._directory / f"{name}.stderr").open("wb") as stderr:
            self._running[number] = subprocess.Popen(
                [sys.executable, __file__, name, json.dumps(self._job)],
                stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip


# Before and after


def load(job: Job, partitions: int, count: int) -> None:
    """Write the inputs, `count` in all."""
    recorder = Recorder(Path(job.history) / "loader.jsonl", "loader")
    with penstock.Producer(job.bootstrap) as producer:
        recorded = RecordedProducer(producer, recorder)
        for number in range(count):
            partition = number % partitions
            recorded.send(job.source, f"{partition}:{number // partitions}", partition=partition)
    recorder.close()


Seen = dict[int, list[int]]
"""The numbers of the inputs, by partition, in the order in which a reader got their copies."""


class Reader(threading.Thread):
    """Reads committed copies from the beginning, all the while, until it has `count` or is stopped."""

    def __init__(self, job: Job, name: str, count: int) -> None:
        super().__init__(daemon=True)
        self._job = job
        self._recorder = Recorder(Path(job.history) / f"{name}.jsonl", name)
        self._wanted = count
        self._count = 0
        self.seen: Seen = defaultdict(list)
        self.errors: list[Exception] = []
        self.stopping = threading.Event()

    @property
    def count(self) -> int:
        return self._count

    def run(self) -> None:
        try:
            self._read()
        except Exception as error:
            self.errors.append(error)
            raise

    def _read(self) -> None:
        settings: Any = {"partitions": "all", "on_error": lambda error: None, "options": QUICK}
        with penstock.Consumer(self._job.target, self._job.bootstrap, **settings) as consumer:
            while self._count < self._wanted and not self.stopping.is_set():
                batch = consumer.poll_ready(1000, 0.2)
                self._recorder.poll([(each.where, each.offset, each.value.decode()) for each in batch])
                note(self.seen, batch)
                self._count += len(batch)


def read_all(job: Job, name: str) -> Seen:
    """The committed copies, from the beginning to the end, and not one second longer."""
    recorder, seen = Recorder(Path(job.history) / f"{name}.jsonl", name), defaultdict(list)
    settings: Any = {"partitions": "all", "stop_at_end": True}
    with penstock.Consumer(job.target, job.bootstrap, **settings) as consumer:
        deadline = time.monotonic() + READ_SECONDS
        for batch in consumer.batches(1000, 0.2):
            assert time.monotonic() < deadline, "the end was not reached"
            recorder.poll([(each.where, each.offset, each.value.decode()) for each in batch])
            note(seen, batch)
    return seen


def note(seen: Seen, batch: list[penstock.Message]) -> None:
    for message in batch:
        partition, number = message.value.decode().split()[0].split(":")
        assert int(partition) == message.partition, message
        seen[message.partition].append(int(number))


if __name__ == "__main__":
    try:
        copy(sys.argv[1], Job(*json.loads(sys.argv[2])))
    except penstock.KafkaError as error:
        print(error, file=sys.stderr)
        sys.exit(GAVE_UP)
