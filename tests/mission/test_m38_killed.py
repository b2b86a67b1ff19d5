"""M38: a killed and restarted pipeline loses nothing and doubles nothing in its sink.

Three flows into three kinds of sink over one topic, in one driver, which is killed with -9 at a random batch, with its
JVM and its Python workers, twice; then it runs to the end. Messages come in before each start, so that there are always
batches to do, however far the one before had come.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import penstock as library
from brokers import SOURCE
from penstock.testing import Cluster
from pipelines import kill_tree, make_project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = 600
KILLS = 2
PER_BATCH = "100"
ERRORS = "errors.log"
WAIT_SECONDS = 250.0
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
    rows = pa.table({"key": [order["id"] for order in orders], "value": list(map(json.dumps, orders))})
    share = COUNT // (KILLS + 1)
    with Cluster() as other:
        common = {"topic": topic, "bootstrap": penstock.bootstrap, "batch": PER_BATCH}
        project = tmp_path / "p"
        make_project(project, "lake", path=str(lake), **common)
        make_project(project, "upsert", database=f"sqlite:///{database}", **common)
        make_project(
            project, "mirror", source=penstock.bootstrap, target=other.bootstrap, topics=topic, batch=PER_BATCH
        )  # fmt: skip
        chance = random.Random(topic)
        for start in range(KILLS):
            library.write(topic, rows.slice(start * share, share), bootstrap=penstock.bootstrap)
            kill_in_the_middle(project, after_batches=chance.randint(1, 5))
        library.write(topic, rows.slice(KILLS * share), bootstrap=penstock.bootstrap)
        assert [each["state"] for each in run_to_the_end(project)] == ["done"] * 3
        original, copy = (
            [messages(each, topic, n) for n in range(2)] for each in (penstock.bootstrap, other.bootstrap)
        )
    assert copy == original
    found = duckdb.sql(f"SELECT partition, \"offset\", value FROM '{lake}/**/*.parquet' ORDER BY ALL").fetchall()
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
    done = 0
    with driven(project, "stream", "--json") as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            done += json.loads(line)["state"] == "running"
            if done >= after_batches:
                break
    assert done >= after_batches, errors_of(project)


def run_to_the_end(project: Path) -> list[dict[str, object]]:
    with driven(project, "run", "--json") as driver:
        output, _ = driver.communicate()
    assert driver.returncode == 0, errors_of(project)
    return json.loads(output)


@contextmanager
def driven(project: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A driver that is killed with all that it started at the end, or when it takes too long."""
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    start = [sys.executable, "-m", "penstock", "pipeline", words[0], str(project), "--master", "local[2,4]"]
    command, environment = [*start, *words[1:]], {**os.environ, "PYTHONPATH": path}
    with (
        open(project / ERRORS, "w") as errors,  # a pipe that nobody reads would stop it
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as driver,
    ):
        too_long = threading.Timer(WAIT_SECONDS, kill_tree, [driver])
        too_long.start()
        try:
            yield driver
        finally:
            too_long.cancel()
            kill_tree(driver)


def errors_of(project: Path) -> str:
    return (project / ERRORS).read_text()
