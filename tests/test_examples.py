"""Every program in examples/ runs and shows what it says, against a broker of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import postgres
from brokers import SOURCE
from capabilities import needs_groups, needs_transactions
from clients import Confluent, Record
from penstock.testing import Cluster

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MAX_LINES = 60
TIMEOUT_SECONDS = 90


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def environment(cluster: Cluster) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "BOOTSTRAP": cluster.bootstrap}


def run(cluster: Cluster, name: str) -> list[str]:
    """What an example prints, by line."""
    command = [sys.executable, str(EXAMPLES / name)]
    ended = subprocess.run(command, env=environment(cluster), capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_hello(cluster: Cluster):
    assert run(cluster, "hello.py") == [
        "sent to hello, partition 0, offset 0",
        "got 'it works' from offset 0",
    ]


def test_three_ways_to_send(cluster: Cluster):
    assert run(cluster, "three_ways_to_send.py") == [
        "waited: offset 0",
        "together: offset 100 is the last",
        "callback: offset 101",
    ]


def test_keys_and_order(cluster: Cluster):
    lines = run(cluster, "keys_and_order.py")
    assert [line.split()[0] for line in lines] == ["ann", "bob", "cho", "dan"]
    assert all(line.endswith("registers, orders, pays") for line in lines)


def test_from_a_time(cluster: Cluster):
    lines = run(cluster, "from_a_time.py")
    assert [line.split(maxsplit=1)[1] for line in lines] == ["30 minutes ago", "10 minutes ago", "0 minutes ago"]


def test_work_sharing(cluster: Cluster):
    needs_groups(cluster.bootstrap)
    lines = run(cluster, "work_sharing.py")
    assert sorted(lines[:2]) == ["worker 1 did 50 jobs", "worker 2 did 50 jobs"]
    assert lines[2] == "100 jobs were done, 100 different ones"


def test_broadcast(cluster: Cluster):
    needs_groups(cluster.bootstrap)
    items = ("book", "lamp", "chair")
    assert run(cluster, "broadcast.py") == [f"{who} got {item}" for who in ("billing", "shipping") for item in items]


def test_at_least_once(cluster: Cluster):
    needs_groups(cluster.bootstrap)
    assert run(cluster, "at_least_once.py") == [
        "booked 10 EUR",
        "booked 20 EUR",
        "crashed: the power went out",
        "booked 20 EUR",
        "booked 30 EUR",
        "booked 40 EUR",
        "4 payments are booked",
    ]


def test_transactions(cluster: Cluster):
    needs_transactions(cluster.bootstrap)
    assert run(cluster, "transactions.py") == [
        "not transferred: that is more than Ann has",
        "Ann: -30 -20",
        "Bob: +30 +20",
    ]


def test_exactly_once(cluster: Cluster):
    """The function runs twice for the message before the crash; its invoice is there once."""
    needs_transactions(cluster.bootstrap)
    lines = run(cluster, "exactly_once.py")
    assert "crashed: the power went out" in lines
    items = ("book", "lamp", "chair", "table", "clock")
    assert lines[-5:] == [f"invoice for {item}" for item in items]
    assert lines.count("makes the invoice for chair") == 2


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_exactly_once_into_a_database(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, kind: str):
    needs_groups(cluster.bootstrap)
    with ExitStack() as stack:
        if kind == "postgresql":
            if (reason := postgres.why_unavailable()) is not None:
                pytest.skip(reason)
            monkeypatch.setenv("DATABASE", stack.enter_context(postgres.PostgresServer()).url)
        lines = run(cluster, "exactly_once_into_a_database.py")
    amounts = ("10", "20", "30")
    booked, again = [f"{each}: booked" for each in amounts], [f"{each}: was booked before" for each in amounts]
    assert lines == [*booked, *again, "balance: 60"]


def test_replay(cluster: Cluster):
    needs_groups(cluster.bootstrap)
    assert run(cluster, "replay.py") == ["new: 10 messages", "all: 10 messages", "the last three: 7 8 9"]


def test_with_asyncio(cluster: Cluster):
    assert run(cluster, "with_asyncio.py") == ["sent to offset 0", "got 102 messages"]


def test_tail_as_json(cluster: Cluster):
    topic = cluster.create_topic()
    command = [sys.executable, str(EXAMPLES / "tail_as_json.py"), topic, "3"]
    with subprocess.Popen(
        command, env=environment(cluster), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tail:
        assert tail.stderr is not None
        assert tail.stderr.readline().startswith(f"following {topic}")
        records = [Record(b'{"n": 1}', b"k", (("h", b"v"),)), Record("grün".encode()), Record(b"\xff")]
        Confluent().produce(cluster.bootstrap, topic, records)
        lines = tail.communicate(timeout=TIMEOUT_SECONDS)[0].splitlines()
    told = [json.loads(line) for line in lines]
    assert [each["offset"] for each in told] == [0, 1, 2]
    assert [each["value"] for each in told] == [{"n": 1}, "grün", {"base64": "/w=="}]
    assert (told[0]["key"], told[0]["headers"]) == ("k", {"h": "v"})


def test_topics(cluster: Cluster):
    lines = run(cluster, "topics.py")
    assert [line.split(":")[0] for line in lines[:3]] == ["partition 0", "partition 1", "partition 2"]
    assert lines[3:] == ["messages are kept for 24 hours", "messages are kept for 168 hours", "deleted"]


def test_test_your_own_code(cluster: Cluster):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "penstock.testing.pytest_plugin", "-p", "no:cacheprovider"]
    alone = {**environment(cluster), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        [*command, "-c", os.devnull, str(EXAMPLES / "test_your_own_code.py")],
        env=alone, capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
    )  # fmt: skip
    assert "2 passed" in ended.stdout, ended.stdout + ended.stderr


def test_every_example_is_short_listed_and_run_here():
    readme = (EXAMPLES / "README.md").read_text()
    tests = Path(__file__).read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"({path.name})" in readme, path.name
        assert path.name in tests, path.name
        assert len(path.read_text().splitlines()) < MAX_LINES, path.name
    listed = set(re.findall(r"\((\w+\.py)\)", readme))
    assert listed == {path.name for path in EXAMPLES.glob("*.py")}
