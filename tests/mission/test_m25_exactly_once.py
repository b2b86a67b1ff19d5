"""M25: exactly once by transactions (read, process, write, commit in one), and by a database's primary key.

The program that does the work is killed with -9 at each moment that could matter, and started again.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as library
import postgres
from brokers import SOURCE, PenstockProcess
from capabilities import needs_transactions
from clients import Confluent, Record

COUNT = 10

COPIER = """
import os, signal, sys, penstock
bootstrap, source, target, group, moment = sys.argv[1:]
def reached(name, offset):
    if (name, offset) == (moment, 7):
        os.kill(os.getpid(), signal.SIGKILL)
options = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
settings = {"group": group, "delivery": "exactly_once", "stop_at_end": True, "options": options}
consumer = penstock.Consumer(source, bootstrap, **settings)
with consumer, penstock.Producer(bootstrap, transactional_id=f"{group}-copier") as producer:
    while not consumer.is_at_end:
        batch = consumer.poll_ready(4)
        with producer.transaction(consumer):
            for message in batch:
                producer.send(target, message.value)
                reached("one is sent", message.offset)
            producer.flush()
            for message in batch:
                reached("all are sent", message.offset)
            if any(message.offset == 7 for message in batch) and moment == "the position is in it":
                positions, member = consumer.taken()
                offsets = [penstock.client.facade.librdkafka.confluent_kafka.TopicPartition(*where, offset)
                           for where, offset in positions.items()]
                producer.raw.send_offsets_to_transaction(offsets, member)
                reached(moment, 7)
        for message in batch:
            reached("it is committed", message.offset)
"""


def run(program: str, *arguments: str) -> int:
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, timeout=120).returncode


def read(broker: PenstockProcess, topic: str, isolation: str = "read_committed") -> list[int]:
    settings: Any = {"partitions": "all", "stop_at_end": True, "options": {"isolation.level": isolation}}
    with library.Consumer(topic, broker.bootstrap, **settings) as reader:
        return [int(message.value) for message in reader]


@pytest.fixture
def source(watchful: PenstockProcess, topic_on_watchful: Callable[..., str]) -> str:
    topic = topic_on_watchful()
    Confluent().produce(watchful.bootstrap, topic, [Record(b"%d" % number) for number in range(COUNT)])
    return topic


@pytest.mark.parametrize("moment", ["one is sent", "all are sent", "the position is in it", "it is committed"])
def test_m25_a_copy_by_transactions_is_exact_whenever_the_copier_dies(
    watchful: PenstockProcess, source: str, topic_on_watchful: Callable[..., str], group: str, moment: str
) -> None:
    needs_transactions(watchful.bootstrap)
    target = topic_on_watchful()
    assert run(COPIER, watchful.bootstrap, source, target, group, moment) == -signal.SIGKILL
    assert read(watchful, target) in ([0, 1, 2, 3], list(range(8)))
    assert run(COPIER, watchful.bootstrap, source, target, group, "never") == 0
    assert read(watchful, target) == list(range(COUNT))
    assert run(COPIER, watchful.bootstrap, source, target, group, "never") == 0
    assert read(watchful, target) == list(range(COUNT))
    if moment in ("all are sent", "the position is in it"):
        assert len(read(watchful, target, "read_uncommitted")) > COUNT


BOOKKEEPER = """
import os, signal, sqlite3, sys, penstock
bootstrap, topic, group, url, moment = sys.argv[1:]
if url.startswith("postgresql:"):
    import psycopg
    database, mark = psycopg.connect(url), "%s"
else:
    database, mark = sqlite3.connect(url), "?"
INSERT = f"INSERT INTO payments VALUES ({mark}, {mark}, {mark}, {mark}) ON CONFLICT DO NOTHING"
UPDATE = f"UPDATE account SET balance = balance + {mark}"
options = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 200}
settings = {"group": group, "commit": "sync", "stop_at_end": True, "options": options}
with penstock.Consumer(topic, bootstrap, **settings) as consumer:
    for message in consumer:
        amount = int(message.value)
        cursor = database.cursor()
        cursor.execute(INSERT, (message.topic, message.partition, message.offset, amount))
        if cursor.rowcount == 1:
            cursor.execute(UPDATE, (amount,))
        if (message.offset, moment) == (4, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        database.commit()
        if (message.offset, moment) == (4, "after"):
            os.kill(os.getpid(), signal.SIGKILL)
"""

TABLES = [
    "CREATE TABLE payments (topic TEXT, part INT, pos BIGINT, amount INT, PRIMARY KEY (topic, part, pos))",
    "CREATE TABLE account (balance INT)",
    "INSERT INTO account VALUES (0)",
]


class Database:
    """SQLite or PostgreSQL, by its address."""

    def __init__(self, url: str) -> None:
        self.url = url
        connection = self._connect()
        for table in ("payments", "account"):
            connection.cursor().execute(f"DROP TABLE IF EXISTS {table}")
        for statement in TABLES:
            connection.cursor().execute(statement)
        connection.commit()
        connection.close()

    def books(self) -> tuple[list[int], int]:
        """The offsets that were booked, and the balance."""
        connection = self._connect()
        cursor = connection.cursor()
        cursor.execute("SELECT pos FROM payments ORDER BY pos")
        booked = [row[0] for row in cursor.fetchall()]
        cursor.execute("SELECT balance FROM account")
        ((balance,),) = cursor.fetchall()
        connection.close()
        return booked, balance

    def _connect(self) -> Any:
        if self.url.startswith("postgresql:"):
            import psycopg

            return psycopg.connect(self.url)
        return sqlite3.connect(self.url)


@pytest.fixture(scope="module")
def postgres_url() -> Iterator[str]:
    reason = postgres.why_unavailable()
    if reason is not None:
        pytest.skip(reason)
    with postgres.PostgresServer() as server:
        yield server.url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "postgresql":
        return Database(request.getfixturevalue("postgres_url"))
    return Database(str(tmp_path / "books.sqlite"))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_m25_a_payment_is_booked_once_whenever_the_bookkeeper_dies(
    watchful: PenstockProcess, source: str, group: str, database: Database, moment: str
) -> None:
    """The message comes again; the primary key (topic, partition, offset) says that it was booked."""
    assert run(BOOKKEEPER, watchful.bootstrap, source, group, database.url, moment) == -signal.SIGKILL
    until = 4 if moment == "before" else 5
    assert database.books() == (list(range(until)), sum(range(until)))
    assert run(BOOKKEEPER, watchful.bootstrap, source, group, database.url, "never") == 0
    assert database.books() == (list(range(COUNT)), sum(range(COUNT)))
    assert run(BOOKKEEPER, watchful.bootstrap, source, f"{group}-all-again", database.url, "never") == 0
    assert database.books() == (list(range(COUNT)), sum(range(COUNT)))
