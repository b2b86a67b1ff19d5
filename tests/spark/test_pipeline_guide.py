"""The commands of docs/guides/spark.md work, one after another, as they stand there."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.commands import run as command
from penstock.client.cluster import Cluster as Connections
from penstock.client.groups import Groups
from penstock.spark.pipelines import session
from penstock.testing import Cluster
from penstock.types import TopicPartition

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "spark.md").read_text()
ELSEWHERE = ("pip ", "penstock pipeline stream", "--master")
"""What is not run here: it needs the network, or has no end, or needs a cluster; other tests run the last two."""


@pytest.fixture
def other() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


def blocks() -> list[str]:
    """What is indented: commands, or a piece of Python."""
    found = re.findall(r"(?:^ {4,}\S.*\n(?:\n(?= {4}))?)+", GUIDE, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def test_what_the_guide_says_works(spark, cluster, other, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", cluster.bootstrap)
    monkeypatch.setattr(session, "open_session", lambda *arguments: spark)  # one JVM for all of it
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    with Connections(cluster.bootstrap) as connections:
        scope: dict[str, object] = {"__name__": "guide"}
        told = [block.replace("127.0.0.1:9092", cluster.bootstrap) for block in blocks()]
        told = [block.replace("127.0.0.1:9192", other.bootstrap) for block in told]
        create = next(block for block in told if "topic create orders " in block)
        for block in [create, *(block for block in told if block != create)]:
            if "move-group" in block:
                Groups(connections).commit("billing", {TopicPartition("orders", 0): 5})
            if block.startswith(("penstock ", "pip ")):
                run_commands(block)
            else:
                exec(block.replace("'lake/", f"'{tmp_path}/lake/"), scope)
    database = scope["database"]
    assert database.execute("SELECT count(*) FROM orders").fetchone() == (1000,)


def run_commands(block: str) -> None:
    for line in block.strip().splitlines():
        if not any(words in line for words in ELSEWHERE):
            result = command(*shlex.split(line)[1:])
            assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception}"
