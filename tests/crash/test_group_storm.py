"""A storm over a group: everything is read, in order, commits never go back, and rebalances end.

Once for each protocol, classic (eager and cooperative) and KIP-848. Twelve consumers for 20 seconds, unless told
otherwise: `PENSTOCK_STORM_CONSUMERS=50 PENSTOCK_STORM_SECONDS=120` is the whole of it, and `PENSTOCK_SEED=7` another
one. `-s` shows the figures.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import raw
from brokers import PenstockProcess
from capabilities import needs_consumer_protocol
from penstock.broker.groups.records import GroupRecord, OffsetRecord, decode
from penstock.client.cluster import Cluster
from penstock.client.groups import GroupInfo, Groups
from storm import Herd, Reading, Sender

CONSUMERS = int(os.environ.get("PENSTOCK_STORM_CONSUMERS", "12"))
SECONDS = float(os.environ.get("PENSTOCK_STORM_SECONDS", "20"))
SEED = int(os.environ.get("PENSTOCK_SEED", "1"))
PARTITIONS = 32
TOPIC, GROUP = "orders", "storm"
CALM_SECONDS = 90.0
"""After the last change: sessions of the dead time out, the rest rejoins."""

SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS = 2000, 300
"""The group waits so long for the dead; with more of it, it would hardly get to work between two of them."""

CLASSIC = {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS}
STRATEGIES: dict[str, dict[str, Any]] = {
    "eager": {"partition.assignment.strategy": "range", **CLASSIC},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky", **CLASSIC},
    "consumer": {"group.protocol": "consumer"},
}

SETTINGS = {
    "group.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PenstockProcess]:
    with PenstockProcess(tmp_path, SETTINGS) as process:
        with raw.Connection(process.bootstrap) as connection:
            raw.create_topic(connection, TOPIC, PARTITIONS)
        yield process


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 4 * CALM_SECONDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_consumers_join_leave_and_die_while_producers_run(
    broker: PenstockProcess, tmp_path: Path, strategy: str
) -> None:
    if strategy == "consumer":
        needs_consumer_protocol(broker.bootstrap)
    senders = [Sender(broker.bootstrap, TOPIC, half) for half in (range(16), range(16, PARTITIONS))]
    with Herd(tmp_path / "herd", broker.bootstrap, TOPIC, {"group.id": GROUP, **STRATEGIES[strategy]}) as herd:
        for sender in senders:
            sender.start()
        try:
            herd.weather(random.Random(SEED), CONSUMERS, SECONDS)
        finally:
            for sender in senders:
                sender.stopping.set()
                sender.join()
        written = {partition: count for sender in senders for partition, count in sender.acknowledged.items()}
        begun = time.monotonic()
        wait_committed(broker, written)
        wait_stable(broker, len(herd.alive))
        calm = time.monotonic() - begun
        herd.leave_all()
        reading = Reading.of(herd)

    assert not [failure for sender in senders for failure in sender.failures]
    assert reading.disorder == []
    assert reading.offsets == {partition: set(range(count)) for partition, count in written.items()}
    history = History(broker)
    assert history.went_back == []
    assert "Traceback" not in broker.stderr()
    print(
        f"\n{strategy}: {CONSUMERS} consumers, {SECONDS:.0f} s, seed {SEED}: {dict(herd.counts)}, "
        f"{history.generations} generations, {history.commits} offsets committed, {sum(written.values())} messages, "
        f"{reading.count} reads, caught up and stable {calm:.1f} s after the storm"
    )


def wait_stable(broker: PenstockProcess, members: int) -> None:
    """Until the group has so many members, and each partition has one owner."""
    begun = time.monotonic()
    with Cluster(broker.bootstrap) as cluster:
        while not is_shared_out(info := Groups(cluster).describe([GROUP])[0], members):
            words = f"{info.state}, {len(info.members)} members of {members}"
            assert time.monotonic() < begun + CALM_SECONDS, f"rebalances do not end: {words}"
            time.sleep(0.1)


def is_shared_out(info: GroupInfo, members: int) -> bool:
    owned = sorted(where.partition for member in info.members for where in member.partitions)
    return info.state == "Stable" and len(info.members) == members and owned == list(range(PARTITIONS))


def wait_committed(broker: PenstockProcess, written: dict[int, int]) -> None:
    """Until all that was written is committed, in the partitions of the dead too."""
    begun = time.monotonic()
    with Cluster(broker.bootstrap) as cluster:
        while True:
            committed = {where.partition: offset for where, offset in Groups(cluster).committed(GROUP).items()}
            if committed == written:
                return
            if time.monotonic() > begun + CALM_SECONDS:
                behind = sorted(committed.items() - written.items())
                pytest.fail(f"committed only {behind} of {written}; {Groups(cluster).describe([GROUP])[0]}")
            time.sleep(0.1)


class History:
    """Everything that the coordinator ever wrote of the group, read from `__consumer_offsets` itself."""

    def __init__(self, broker: PenstockProcess) -> None:
        self.commits = 0
        self.generations = 0
        self.went_back: list[str] = []
        self._last: dict[int, int] = {}
        for key, value in messages(broker.bootstrap, "__consumer_offsets"):
            for record in decode(key, value):
                if isinstance(record, OffsetRecord | GroupRecord) and record.group_id == GROUP:
                    self._take(record)

    def _take(self, record: OffsetRecord | GroupRecord) -> None:
        assert record.value is not None, "nobody forgets the group or its offsets"
        if isinstance(record, GroupRecord):
            if record.value.generation < self.generations:
                self.went_back.append(f"generation {record.value.generation} after {self.generations}")
            self.generations = record.value.generation
            return
        self.commits += 1
        last = self._last.get(record.partition, 0)
        if record.value.offset < last:
            self.went_back.append(f"partition {record.partition}: {record.value.offset} after {last}")
        self._last[record.partition] = record.value.offset


def messages(bootstrap: str, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
    """Key and value of every message of a topic; those of one partition in order."""
    config = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True,
              "enable.auto.commit": False}  # fmt: skip
    reader = confluent_kafka.Consumer(config)
    partitions = list(reader.list_topics(topic, timeout=30).topics[topic].partitions)
    reader.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
    unread = set(partitions)
    while unread:
        for message in reader.consume(10_000, 1.0):
            if message.error() is None:
                yield message.key() or b"", message.value()
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                unread.discard(message.partition() or 0)
    reader.close()
