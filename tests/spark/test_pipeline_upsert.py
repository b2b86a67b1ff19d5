"""upsert: the last message of a key is the key's row, in SQLite and in PostgreSQL, however often a batch is applied."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pyarrow as pa
import pytest

import penstock
import postgres
from penstock.errors import ConfigError
from penstock.spark.pipelines.sinks import Batch
from penstock.spark.pipelines.sinks.upsert import upsert_writer
from penstock.testing import Cluster
from pipelines import make_project, run

TABLE = "CREATE TABLE orders (id VARCHAR(10) PRIMARY KEY, item VARCHAR(20), amount DOUBLE PRECISION)"
KINDS = ["sqlite", "postgresql"]


class Database:
    """A database with a table `orders`."""

    def __init__(self, url: str, connect) -> None:
        self.url, self._connect = url, connect
        with closing(connect()) as connection:
            connection.cursor().execute(TABLE)
            connection.commit()

    def rows(self) -> list[tuple]:
        with closing(self._connect()) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT id, item, amount FROM orders ORDER BY id")
            return list(map(tuple, cursor.fetchall()))


@pytest.fixture(params=KINDS)
def database(request, tmp_path) -> Iterator[Database]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            file = tmp_path / "orders.db"
            yield Database(f"sqlite:///{file}", lambda: sqlite3.connect(file))
            return
        if (reason := postgres.why_unavailable()) is not None:
            pytest.skip(reason)
        import psycopg

        url = stack.enter_context(postgres.PostgresServer()).url
        yield Database(url, lambda: psycopg.connect(url))


def send(cluster: Cluster, topic: str, orders: list[tuple[str, dict | None]]) -> None:
    keys = [key for key, _ in orders]
    values = pa.array([None if order is None else json.dumps(order) for _, order in orders], pa.string())
    penstock.write(topic, pa.table({"key": keys, "value": values}), bootstrap=cluster.bootstrap)


def test_the_last_message_of_a_key_is_its_row_and_one_without_a_value_deletes_it(spark, cluster, database, tmp_path):
    topic = cluster.create_topic(partitions=2)
    project = make_project(tmp_path / "p", "upsert", topic=topic, bootstrap=cluster.bootstrap, database=database.url)
    book, lamp = {"id": "1", "item": "book", "amount": 2.5}, {"id": "2", "item": "lamp", "amount": 7}
    send(
        cluster, topic, [("1", book), ("2", lamp), ("1", book | {"amount": 3}), ("3", lamp | {"id": "3"}), ("3", None)]
    )
    run(spark, project)
    assert database.rows() == [("1", "book", 3.0), ("2", "lamp", 7.0)]
    send(cluster, topic, [("2", None), ("1", None), ("1", book)])
    run(spark, project)
    assert database.rows() == [("1", "book", 2.5)]


def test_a_batch_is_applied_once(spark, database):
    write = upsert_writer({"url": database.url, "table": "orders", "key": "id"})
    schema = "id STRING, item STRING, amount DOUBLE"
    write(spark.createDataFrame([("1", "book", 1.0)], schema), Batch("q", 4))
    write(spark.createDataFrame([("1", "book", 2.0)], schema), Batch("q", 5))
    write(spark.createDataFrame([("1", "book", 1.0)], schema), Batch("q", 4))  # late: an old driver that woke up
    write(spark.createDataFrame([("2", "lamp", 1.0)], schema), Batch("q", 5))
    assert database.rows() == [("1", "book", 2.0)]
    write(spark.createDataFrame([("2", "lamp", 1.0)], schema), Batch("other", 0))
    assert database.rows() == [("1", "book", 2.0), ("2", "lamp", 1.0)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "mysql://x", "table": "t", "key": "id"}, "is no database that upsert knows"),
        ({"url": "sqlite:///x", "table": "t"}, "needs the option 'key'"),
        ({"url": "sqlite:///x", "table": "t", "key": "id", "delet": "x"}, "did you mean 'delete'"),
    ],
)
def test_wrong_options_are_said(options, said):
    with pytest.raises(ConfigError, match=said):
        upsert_writer(options)
