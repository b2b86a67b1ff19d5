"""M38: a killed and restarted pipeline loses nothing and doubles nothing in its sink.

Three flows into three kinds of sink over one topic, in one driver, which is killed with -9 at a random batch, with its
JVM and its Python workers, twice; then it runs to the end.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import penstock as library
from brokers import SOURCE
from penstock.testing import Cluster
from pipelines import kill_tree, make_project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = 500
PER_BATCH = "100"
TABLE = """
CREATE TABLE orders (id TEXT PRIMARY KEY, item TEXT, amount DOUBLE PRECISION);
CREATE TABLE audit (id TEXT);
CREATE TRIGGER inserted AFTER INSERT ON orders BEGIN INSERT INTO audit VALUES (new.id); END;
CREATE TRIGGER updated AFTER UPDATE ON orders BEGIN INSERT INTO audit VALUES (new.id); END;
"""
"""The audit has a row for every time that a message was applied."""


def test_sinks_are_exact_after_the_driver_was_killed_at_random(penstock, topic_on_penstock, tmp_path):
    topic, lake, database = topic_on_penstock(2), tmp_path / "lake", tmp_path / "orders.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(TABLE)
    orders = [{"id": str(n % 50), "item": f"item {n}", "amount": n} for n in range(COUNT)]
    rows = {"key": [order["id"] for order in orders], "value": list(map(json.dumps, orders))}
    library.write(topic, pa.table(rows), bootstrap=penstock.bootstrap)
    with Cluster() as other:
        common = {"topic": topic, "bootstrap": penstock.bootstrap, "batch": PER_BATCH}
        project = tmp_path / "p"
        make_project(project, "lake", path=str(lake), **common)
        make_project(project, "upsert", database=f"sqlite:///{database}", **common)
        make_project(
            project, "mirror", source=penstock.bootstrap, target=other.bootstrap, topics=topic, batch=PER_BATCH
        )  # fmt: skip
        chance = random.Random(topic)
        for _ in range(2):
            kill_in_the_middle(project, after_batches=chance.randint(1, 5))
        ended = drive(project, "run", "--json")
        output, errors = ended.communicate(timeout=600)
        assert [each["state"] for each in json.loads(output)] == ["done"] * 3, errors
        original, copy = (
            [messages(each, topic, n) for n in range(2)] for each in (penstock.bootstrap, other.bootstrap)
        )
    assert copy == original
    found = duckdb.sql(f"SELECT partition, \"offset\", value FROM '{lake}/*/*/*.parquet' ORDER BY ALL").fetchall()
    assert [[value for at, _, value in found if at == partition] for partition in range(2)] == original
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM audit").fetchone() == (COUNT,)
        last = {order["id"]: (order["item"], order["amount"]) for order in orders}
        assert {key: (item, n) for key, item, n in connection.execute("SELECT * FROM orders")} == last


def messages(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    rows = library.read(topic, start={partition: 0}, columns=["value"], bootstrap=bootstrap)
    return rows.read_all()["value"].to_pylist()


def kill_in_the_middle(project: Path, after_batches: int) -> None:
    """Keep the flows on until they have done so many batches, then end everything of them at once."""
    driver = drive(project, "stream", "--json")
    try:
        assert driver.stdout is not None
        done = 0
        for line in driver.stdout:
            done += json.loads(line)["state"] == "running"
            if done >= after_batches:
                break
        assert done >= after_batches, driver.stderr and driver.stderr.read()
    finally:
        kill_tree(driver)
        driver.communicate()


def drive(project: Path, *words: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    start = [sys.executable, "-m", "penstock", "pipeline", words[0], str(project), "--master", "local[2,4]"]
    pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen([*start, *words[1:]], stdout=pipe, stderr=pipe, text=True, env=environment)
