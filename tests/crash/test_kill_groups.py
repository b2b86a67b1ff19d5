"""`kill -9` of the broker with groups: members, generations and offsets are as they were committed.

The default is five kills; `PENSTOCK_KILLS=50` makes it fifty, `PENSTOCK_SEED=7` chooses other moments.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import raw
from brokers import PenstockProcess
from clients import Confluent, Record
from members import Member, find_coordinator, wait_until

KILLS = int(os.environ.get("PENSTOCK_KILLS", "5"))
SEED = int(os.environ.get("PENSTOCK_SEED", "1"))
GROUPS = 20
PIPELINED = 10
TOPIC = "orders"


@pytest.fixture(params=["os", "fsync"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with PenstockProcess(tmp_path, {"penstock.durability": request.param}) as process:
        with raw.Connection(process.bootstrap) as connection:
            raw.create_topic(connection, TOPIC, 2)
            find_coordinator(connection, "g")
        yield process


def test_members_go_on_as_if_nothing_had_been(broker: PenstockProcess) -> None:
    with Member(broker.bootstrap, "g") as one, Member(broker.bootstrap, "g", "static") as two:
        one.join()
        one.sync({one.id: b"all"})
        two.begin_join()
        wait_until(lambda: one.heartbeat() != 0)
        one.begin_join()
        one.end_join()
        two.end_join()
        two.begin_sync()
        one.sync({one.id: b"left", two.id: b"right"})
        assert two.end_sync().assignment == b"right"
        assert one.commit({(TOPIC, 0): 7}) == [0]
    broker.kill()
    broker.start()
    with Member(broker.bootstrap, "g") as again, Member(broker.bootstrap, "g", "static") as other:
        again.id, again.generation = one.id, one.generation
        other.id, other.generation = two.id, two.generation
        wait_until(lambda: bool(described(again).members))
        assert described(again).group_state == "Stable"
        assert (again.heartbeat(), other.heartbeat()) == (0, 0)
        assert (again.sync().assignment, other.sync().assignment) == (b"left", b"right")
        assert offset(again, "g") == 7
        assert again.commit({(TOPIC, 0): 8}) == [0]
        again.leave()
        other.leave()
        assert described(again).group_state == "Empty"
    broker.kill()
    broker.start()
    with Member(broker.bootstrap, "g") as last:
        wait_until(lambda: described(last).group_state == "Empty")
        assert offset(last, "g") == 8


def test_a_generation_that_was_not_finished_never_was(broker: PenstockProcess) -> None:
    with Member(broker.bootstrap, "g") as one:
        one.join()
        one.sync({one.id: b"all"})
        one.begin_join()
        assert one.end_join().generation_id == 2
    broker.kill()
    broker.start()
    with Member(broker.bootstrap, "g") as again:
        again.id = one.id
        wait_until(lambda: bool(described(again).members))
        assert again.heartbeat(generation_id=2) == raw.Code.illegal_generation
        again.begin_join()
        assert again.end_join().generation_id == 2, "the same number, and another generation"


def test_a_deleted_group_does_not_come_back(broker: PenstockProcess) -> None:
    with Member(broker.bootstrap, "g") as one:
        assert one.commit({(TOPIC, 0): 7}) == [0]
        (deleted,) = one.call("DeleteGroups", 2, groups_names=["g"]).results
        assert deleted.error_code == 0
    broker.kill()
    broker.start()
    with Member(broker.bootstrap, "g") as again:
        find_coordinator(again, "g")
        assert described(again).group_state == "Dead"
        assert offset(again, "g") == -1


class Committer(threading.Thread):
    """Commits growing offsets for its groups, many in flight, across restarts of the broker."""

    def __init__(self, broker: PenstockProcess, groups: list[str]) -> None:
        super().__init__()
        self.broker = broker
        self.sent = dict.fromkeys(groups, -1)
        self.acknowledged = dict.fromkeys(groups, -1)
        self.stopping = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            try:
                with Member(self.broker.bootstrap, "") as member:
                    while not self.stopping.is_set():
                        number += 1
                        self.commit_all(member, number)
            except OSError:
                time.sleep(0.02)  # the broker is being killed

    def commit_all(self, member: Member, number: int) -> None:
        groups = list(self.sent)
        for start in range(0, len(groups), PIPELINED):
            some = groups[start : start + PIPELINED]
            for group in some:
                self.sent[group] = number
                part = {"partition_index": 0, "committed_offset": number, "committed_metadata": ""}
                topics = [{"name": TOPIC, "partitions": [part]}]
                member.send("OffsetCommit", 9, group_id=group, topics=topics)
            first = member.correlation_id - len(some) + 1
            for index, group in enumerate(some):
                answer = member.receive("OffsetCommit", 9, first + index)
                if answer.topics[0].partitions[0].error_code == 0:
                    self.acknowledged[group] = number


@pytest.mark.slow
def test_a_committed_offset_is_there_after_every_kill(broker: PenstockProcess) -> None:
    chance = random.Random(SEED)
    groups = [f"group-{number}" for number in range(GROUPS)]
    committer = Committer(broker, groups)
    committer.start()
    try:
        for _ in range(KILLS):
            before = dict(committer.acknowledged)
            wait_until(lambda before=before: all(committer.acknowledged[each] > before[each] for each in groups))
            time.sleep(chance.uniform(0, 0.2))  # the random moment, not a wait for anything
            broker.kill()
            broker.start()
    finally:
        committer.stopping.set()
        committer.join()
    broker.kill()
    broker.start()
    with raw.Connection(broker.bootstrap) as connection:
        for group in groups:
            find_coordinator(connection, group)
            assert committer.acknowledged[group] <= offset(connection, group) <= committer.sent[group]
    assert "Traceback" not in broker.stderr()


@pytest.mark.slow
def test_a_consumer_reads_everything_across_kills_and_its_offsets_never_go_back(broker: PenstockProcess) -> None:
    count = 2000
    for partition in range(2):
        Confluent().produce(
            broker.bootstrap, TOPIC, [Record(b"%d" % number) for number in range(count)], partition=partition
        )
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
            "reconnect.backoff.max.ms": 200,
        }
    )
    consumer.subscribe([TOPIC])
    seen: dict[int, set[int]] = {0: set(), 1: set()}
    committed = {0: -1, 1: -1}
    kills = 0
    deadline = time.monotonic() + 120
    while any(len(each) < count for each in seen.values()):
        assert time.monotonic() < deadline, {partition: len(each) for partition, each in seen.items()}
        for message in consumer.consume(100, timeout=0.2):
            if message.error() is None:
                seen[message.partition() or 0].add(int(message.value() or b""))
        try:
            told = consumer.commit(asynchronous=False) if consumer.assignment() else []
        except confluent_kafka.KafkaException:
            told = []
        for each in told or []:
            if each.error is None and each.offset >= 0:
                committed[each.partition] = max(committed[each.partition], each.offset)
        if kills < 3 and sum(map(len, seen.values())) > (kills + 1) * 800:
            kills += 1
            broker.kill()
            broker.start()
            with raw.Connection(broker.bootstrap) as connection:
                find_coordinator(connection, "g")
                for partition, at in committed.items():
                    assert offset(connection, "g", partition) >= at
    consumer.close()
    assert kills == 3


def described(connection: Member) -> Any:
    (found,) = connection.call("DescribeGroups", 5, groups=[connection.group]).groups
    return found


def offset(connection: raw.Connection, group: str, partition: int = 0) -> int:
    asked = [{"group_id": group, "topics": [{"name": TOPIC, "partition_indexes": [partition]}]}]
    (found,) = connection.call("OffsetFetch", 9, groups=asked).groups
    assert found.error_code == 0, found
    return int(found.topics[0].partitions[0].committed_offset)
