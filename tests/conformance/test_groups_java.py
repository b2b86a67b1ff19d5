"""Groups with Kafka's own tools: ConsumerGroupCommand, VerifiableConsumer, and the dump of `__consumer_offsets`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import oracle
from brokers import Broker
from clients import Confluent, Record
from members import Member, subscription
from penstock.broker.groups.home import partition_for

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TOOLS = "org.apache.kafka.tools."
COMMAND = TOOLS + "consumer.group.ConsumerGroupCommand"
NewMember = Callable[..., Member]


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    reason = oracle.why_unavailable()
    if reason is not None:
        pytest.skip(reason)


def run(broker: Broker, tool: str, *arguments: str, fails: bool = False) -> str:
    done = oracle.run_tool(tool, ["--bootstrap-server", broker.bootstrap, *arguments])
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines() if line.strip()]


def test_consumer_group_command(broker: Broker, member: NewMember, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    Confluent().produce(broker.bootstrap, topic, [Record(b"v")] * 10)
    one = member(session_timeout_ms=600_000, protocols=[{"name": "range", "metadata": subscription(topic)}])
    one.join()
    one.sync({one.id: assignment(topic, 0, 1)})
    one.commit({(topic, 0): 4})
    group = ("--group", one.group)
    assert one.group in run(broker, COMMAND, "--list").split()
    assert [one.group, "Stable"] in [row[:2] for row in rows(run(broker, COMMAND, "--list", "--state"))]
    described = {row[2]: row for row in rows(run(broker, COMMAND, "--describe", *group)) if row[1] == topic}
    assert described["0"][3:6] == ["4", "10", "6"], "current offset, log end, lag"
    assert described["0"][6] == one.id
    assert one.id in run(broker, COMMAND, "--describe", *group, "--members", "--verbose")
    state = next(row for row in rows(run(broker, COMMAND, "--describe", *group, "--state")) if row[0] == one.group)
    assert "Stable" in state
    reset = ("--reset-offsets", *group, "--topic", topic)
    assert "is Stable" in run(broker, COMMAND, *reset, "--to-earliest", "--execute")
    one.leave()
    run(broker, COMMAND, *reset, "--to-offset", "7", "--execute")
    described = {row[2]: row for row in rows(run(broker, COMMAND, "--describe", *group)) if row[1:2] == [topic]}
    assert described["0"][3] == "7"
    run(broker, COMMAND, "--delete-offsets", *group, "--topic", f"{topic}:0")
    assert "Deletion of requested consumer groups" in run(broker, COMMAND, "--delete", *group)
    assert one.group not in run(broker, COMMAND, "--list").split()


def test_verifiable_consumer(broker: Broker, group: str, topic: str) -> None:
    Confluent().produce(broker.bootstrap, topic, [Record(b"v")] * 20)
    printed = run(
        broker, TOOLS + "VerifiableConsumer", "--topic", topic, "--group-id", group, "--max-messages", "20",
        "--reset-policy", "earliest",
    )  # fmt: skip
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    names = [event["name"] for event in events]
    assert names[0] == "startup_complete"
    assert "partitions_assigned" in names
    assert sum(event["count"] for event in events if event["name"] == "records_consumed") == 20
    commits = [event for event in events if event["name"] == "offsets_committed"]
    assert commits[-1]["success"]
    assert commits[-1]["offsets"][0]["offset"] == 20


def test_kafka_reads_what_a_group_wrote(broker: Broker, member: NewMember, topic: str) -> None:
    one = member("instance")
    one.join()
    one.sync({one.id: assignment(topic, 0)})
    one.commit({(topic, 0): 4})
    one.leave()
    one.call("DeleteGroups", 2, groups_names=[one.group])
    partition = partition_for(one.group, 50)
    log = Path(broker.log_dir) / f"__consumer_offsets-{partition}" / "00000000000000000000.log"
    done = oracle.run_tool(TOOLS + "DumpLogSegments", ["--offsets-decoder", "--print-data-log", "--files", str(log)])
    assert done.returncode == 0, done.stderr
    payloads = [line for line in done.stdout.splitlines() if one.group in line]
    assert "corrupt" not in done.stdout.lower()
    generation, offset, empty, *tombstones = [line for line in payloads if '"generation":0' not in line]
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in generation
    assert '"groupInstanceId":"instance"' in generation
    assert f'"topic":"{topic}","partition":0' in offset
    assert '"offset":4,"leaderEpoch":-1,"metadata":""' in offset
    assert '"generation":2' in empty
    assert len(tombstones) == 2
    assert all("payload: <DELETE>" in line or line.rstrip().endswith("payload: null") for line in tombstones), (
        tombstones
    )


def assignment(topic: str, *partitions: int) -> bytes:
    """A consumer's assignment, in version 0."""
    numbers = b"".join(number.to_bytes(4, "big") for number in partitions)
    named = len(topic).to_bytes(2, "big") + topic.encode() + len(partitions).to_bytes(4, "big") + numbers
    return b"\x00\x00" + b"\x00\x00\x00\x01" + named + b"\xff\xff\xff\xff"
