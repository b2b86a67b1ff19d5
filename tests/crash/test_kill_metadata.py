"""`kill -9` while topics are created, altered and deleted and producers get their ids.

What was acknowledged must be so after the restart; what was not may be either. `PENSTOCK_KILLS` (6) is the number of
kills, `PENSTOCK_SEED` chooses the moments.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from pathlib import Path

import pytest

import raw
from brokers import PenstockProcess

KILLS = int(os.environ.get("PENSTOCK_KILLS", "6"))
SEED = int(os.environ.get("PENSTOCK_SEED", "1"))
PARTITIONS = 2
TOPIC_RESOURCE = 2
SET = 0
LATEST_KILL_S = 0.4


class Administrator(threading.Thread):
    """Creates, alters and deletes topics, and asks for producer ids, until the broker dies. Remembers the answers."""

    def __init__(self, bootstrap: str, life: int, known: Known) -> None:
        super().__init__(daemon=True)
        self._address = bootstrap
        self._life = life
        self._known = known
        self.failure: AssertionError | None = None

    def run(self) -> None:
        number = 0
        try:
            with raw.Connection(self._address) as connection:
                while True:
                    self._round(connection, f"life-{self._life}-{number}")
                    number += 1
        except (ConnectionError, TimeoutError):
            return  # killed
        except AssertionError as failure:
            self.failure = failure

    def _round(self, connection: raw.Connection, name: str) -> None:
        known = self._known
        known.in_doubt.add(name)
        raw.create_topic(connection, name, PARTITIONS, retention_ms="111000")
        known.retentions[name] = {"111000"}
        known.in_doubt.discard(name)
        known.producer_ids.append(raw.init_producer_id(connection)[0])
        assert raw.produce(connection, name, raw.batch([name.encode()])).error_code == 0
        known.produced.add(name)
        known.retentions[name] = {"111000", "222000"}
        alter_retention(connection, name, "222000")
        known.retentions[name] = {"222000"}
        if known.chance.random() < 0.4:
            victim = known.chance.choice(sorted(known.retentions))
            known.in_doubt.add(victim)
            delete_topic(connection, victim)
            known.forget(victim)


class Known:
    """What was acknowledged so far, over all lives of the broker."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.retentions: dict[str, set[str]] = {}
        """Topics that exist, with what retention.ms may be."""
        self.produced: set[str] = set()
        self.deleted: set[str] = set()
        self.in_doubt: set[str] = set()
        """Topics that were being created or deleted when the broker died."""
        self.producer_ids: list[int] = []

    def forget(self, name: str) -> None:
        self.retentions.pop(name, None)
        self.produced.discard(name)
        self.in_doubt.discard(name)
        self.deleted.add(name)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_acknowledged_metadata_survives_and_agrees_with_the_directories(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    known = Known(random.Random(SEED + 1))
    with PenstockProcess(tmp_path) as broker:
        for life in range(KILLS):
            administrator = Administrator(broker.bootstrap, life, known)
            administrator.start()
            time.sleep(chance.uniform(0, LATEST_KILL_S))  # the random moment
            broker.kill()
            administrator.join()
            assert administrator.failure is None, administrator.failure
            broker.start()
            assert "Traceback" not in broker.stderr(), broker.stderr()
            check(broker, known)
    ids = known.producer_ids
    assert len(ids) == len(set(ids)), "a producer id was given twice"
    print(
        f"\n{KILLS} kills, {len(known.retentions)} topics kept, {len(known.deleted)} deleted, {len(ids)} producer ids"
    )


def check(broker: PenstockProcess, known: Known) -> None:
    with raw.Connection(broker.bootstrap) as connection:
        response = connection.call("Metadata", 12, topics=None)
        topics = {topic.name: topic for topic in response.topics}
        settle_doubts(known, set(topics))
        assert set(topics) == set(known.retentions)
        for name, allowed in known.retentions.items():
            assert retention(connection, name) in allowed
            fetched = raw.fetch(connection, name)
            assert fetched.error_code == 0
            values = raw.values(fetched.records)
            assert values == [name.encode()] or (not values and name not in known.produced), name
        check_directories(broker.log_dir, topics, known)


def settle_doubts(known: Known, existing: set[str]) -> None:
    for name in tuple(known.in_doubt):
        if name not in existing:
            known.forget(name)
        elif name not in known.retentions:
            known.retentions[name] = {"111000"}
        known.in_doubt.discard(name)


def check_directories(log_dir: Path, topics: dict[str, object], known: Known) -> None:
    """One directory for each partition, with the right topic id in it; only deleted topics are put aside."""
    found = {path.name for path in log_dir.iterdir() if path.is_dir() and re.search(r"-\d+$", path.name)}
    assert found == {f"{name}-{partition}" for name in topics for partition in range(PARTITIONS)}
    for path in log_dir.glob("*-stray"):
        assert path.name.rpartition("-stray")[0].rpartition(".")[0].rpartition("-")[0] in known.deleted, path


def alter_retention(connection: raw.Connection, name: str, value: str) -> None:
    change = {"name": "retention.ms", "config_operation": SET, "value": value}
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": name, "configs": [change]}
    response = connection.call("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    assert response.responses[0].error_code == 0, response


def delete_topic(connection: raw.Connection, name: str) -> None:
    topics = [{"name": name, "topic_id": raw.NO_TOPIC_ID}]
    response = connection.call("DeleteTopics", 6, topics=topics, timeout_ms=30_000)
    assert response.responses[0].error_code == 0, response


def retention(connection: raw.Connection, name: str) -> str:
    asked = {"resource_type": TOPIC_RESOURCE, "resource_name": name, "configuration_keys": ["retention.ms"]}
    response = connection.call("DescribeConfigs", 4, resources=[asked])
    value: str = response.results[0].configs[0].value
    return value
