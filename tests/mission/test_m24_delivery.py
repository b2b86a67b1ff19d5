"""M24: at most once, at least once and exactly once, end to end, with the consumer killed at the worst moment.

The work on a message is a line in a file. A consumer that dies just before that line has done nothing for the message,
one that dies just after it has done all. At least once: nothing is missing. At most once: nothing is there twice.
Exactly once needs work that can be undone, so there it is a message to another topic (more of it in M25).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock as library
from brokers import SOURCE, PenstockProcess
from capabilities import needs_transactions
from clients import Confluent, Record

WORKER = """
import os, signal, sys, penstock
bootstrap, topic, group, delivery, moment, path = sys.argv[1:]
options = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
settings = {"group": group, "delivery": delivery, "commit": "sync", "stop_at_end": True, "options": options}
with open(path, "a", buffering=1) as work, penstock.Consumer(topic, bootstrap, **settings) as consumer:
    for message in consumer:
        if (message.offset, moment) == (4, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        print(message.offset, file=work)
        if (message.offset, moment) == (4, "after"):
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("delivery", "moment", "work"),
    [
        ("at_least_once", "before", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("at_least_once", "after", [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9]),
        ("at_most_once", "before", [0, 1, 2, 3, 5, 6, 7, 8, 9]),
        ("at_most_once", "after", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_m24_a_consumer_is_killed_at_the_worst_moment(
    watchful: PenstockProcess, topic_on_watchful: Callable[..., str], group: str, tmp_path: Path,
    delivery: str, moment: str, work: list[int],
) -> None:  # fmt: skip
    topic = topic_on_watchful()
    Confluent().produce(watchful.bootstrap, topic, [Record(b"%d" % number) for number in range(10)])
    path = tmp_path / "work"

    def run(moment: str) -> int:
        command = [sys.executable, "-c", WORKER, watchful.bootstrap, topic, group, delivery, moment, str(path)]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, timeout=60).returncode

    assert run(moment) == -signal.SIGKILL
    assert run("never") == 0
    assert [int(line) for line in path.read_text().splitlines()] == work


PROCESSOR = """
import os, signal, sys, penstock
bootstrap, source, target, group, moment = sys.argv[1:]
options = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
settings = {"group": group, "delivery": "exactly_once", "stop_at_end": True, "options": options}
def work(message):
    if (message.offset, moment) == (4, "before"):
        os.kill(os.getpid(), signal.SIGKILL)
    if message.offset == 4:
        producer.send(target, message.value).result(30)
        if moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return None
    return penstock.Send(target, message.value)
consumer = penstock.Consumer(source, bootstrap, **settings)
with consumer, penstock.Producer(bootstrap, transactional_id=f"{group}-work") as producer:
    penstock.process(consumer, producer, work, batch_size=3)
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_m24_exactly_once_with_the_consumer_killed_at_the_worst_moment(
    watchful: PenstockProcess, topic_on_watchful: Callable[..., str], group: str, moment: str
) -> None:
    needs_transactions(watchful.bootstrap)
    source, target = topic_on_watchful(), topic_on_watchful()
    Confluent().produce(watchful.bootstrap, source, [Record(b"%d" % number) for number in range(10)])

    def run(moment: str) -> int:
        command = [sys.executable, "-c", PROCESSOR, watchful.bootstrap, source, target, group, moment]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, timeout=60).returncode

    assert run(moment) == -signal.SIGKILL
    assert run("never") == 0
    with library.Consumer(target, watchful.bootstrap, partitions="all", stop_at_end=True) as reader:
        assert [int(message.value) for message in reader] == list(range(10))
