"""Kafka's own Java tools against either broker; they bring the Java client with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import oracle
import raw
from brokers import Broker
from changes import check_seen

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

TOOLS = "org.apache.kafka.tools."
CONFIG_COMMAND = "kafka.admin.ConfigCommand"
JOIN_GROUP = 11


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    reason = oracle.why_unavailable()
    if reason is not None:
        pytest.skip(reason)


def run(broker: Broker, tool: str, *arguments: str, stdin: str | None = None, fails: bool = False) -> str:
    """What the tool printed; it must succeed, or fail where that is expected."""
    done = oracle.run_tool(tool, ["--bootstrap-server", broker.bootstrap, *arguments], stdin)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return done.stdout


def test_topic_command(broker: Broker, name: str) -> None:
    command = TOOLS + "TopicCommand"
    topic = ("--topic", name)
    assert f"Created topic {name}" in run(
        broker, command, "--create", *topic, "--partitions", "3", "--config", "retention.ms=5000000"
    )
    assert "already exists" in run(broker, command, "--create", *topic, fails=True)
    run(broker, command, "--alter", *topic, "--partitions", "4")
    assert name in run(broker, command, "--list").splitlines()

    def described() -> tuple[bool, bool, int]:
        head, *lines = run(broker, command, "--describe", *topic).splitlines()
        counts = "PartitionCount: 4\tReplicationFactor: 1"
        return counts in head, "retention.ms=5000000" in head, len([line for line in lines if "\tPartition: " in line])

    check_seen(broker, described, (True, True, 4))
    run(broker, command, "--delete", *topic)


def test_producer_performance_and_get_offset_shell(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    load = ("--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    assert "5000 records sent" in run(broker, TOOLS + "ProducerPerformance", "--topic", topic, *load)
    shell = TOOLS + "GetOffsetShell"
    ends = [line.split(":") for line in run(broker, shell, "--topic", topic).split()]
    assert [(part[0], part[1]) for part in ends] == [(topic, "0"), (topic, "1"), (topic, "2")]
    assert sum(int(part[2]) for part in ends) == 5000
    earliest = run(broker, shell, "--topic", topic, "--time", "earliest").split()
    assert earliest == [f"{topic}:{partition}:0" for partition in range(3)]
    largest = [line.split(":") for line in run(broker, shell, "--topic", topic, "--time", "max-timestamp").split()]
    assert [part[1] for part in largest] == [part[1] for part in ends if part[2] != "0"], "an empty one has no time"


def test_consumer_performance(broker: Broker, connection: raw.Connection, topic: str) -> None:
    keys = {api.api_key for api in connection.call("ApiVersions", 0).api_keys}
    if JOIN_GROUP not in keys:
        pytest.skip("it consumes in a group, and this broker does not advertise groups")
    for _ in range(10):
        raw.produce(connection, topic, raw.batch([b"x" * 100] * 500))
    printed = run(broker, TOOLS + "ConsumerPerformance", "--topic", topic, "--num-records", "5000")
    figures = printed.splitlines()[-1].split(", ")
    assert figures[4] == "5000"


def test_the_java_client_writes_and_reads_every_compression(broker: Broker, topic: str) -> None:
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    lines = {codec: [f"{codec} line {number} " + "x" * 200 for number in range(20)] for codec in codecs}
    for codec in codecs:
        producer = ("--topic", topic, "--compression-codec", codec)
        run(broker, TOOLS + "ConsoleProducer", *producer, stdin="\n".join(lines[codec]) + "\n")
    read = ("--topic", topic, "--partition", "0", "--offset", "0", "--max-messages", "100")
    printed = run(broker, TOOLS + "consumer.ConsoleConsumer", *read).splitlines()
    assert printed == [line for codec in codecs for line in lines[codec]]


def test_config_command(broker: Broker, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    run(broker, CONFIG_COMMAND, "--alter", *entity, "--add-config", "retention.ms=77,cleanup.policy=[compact,delete]")
    wanted = {"retention.ms=77 sensitive=false", "cleanup.policy=compact,delete", "segment.bytes=1073741824"}

    def shown() -> set[str]:
        every = run(broker, CONFIG_COMMAND, "--describe", "--all", *entity)
        return {setting for setting in wanted if setting in every}

    check_seen(broker, shown, wanted)
    run(broker, CONFIG_COMMAND, "--alter", *entity, "--delete-config", "retention.ms")
    check_seen(broker, lambda: "retention.ms=77" in run(broker, CONFIG_COMMAND, "--describe", *entity), False)
    run(broker, CONFIG_COMMAND, "--alter", *entity, "--add-config", "retention.ms=x", fails=True)


def test_config_command_on_the_broker(broker: Broker, connection: raw.Connection) -> None:
    node = str(connection.call("Metadata", 12, topics=[]).brokers[0].node_id)
    described = run(broker, CONFIG_COMMAND, "--describe", "--all", "--entity-type", "brokers", "--entity-name", node)
    assert "log.segment.bytes=1073741824" in described


def test_delete_records_command(broker: Broker, connection: raw.Connection, topic: str, tmp_path: Path) -> None:
    raw.produce(connection, topic, raw.batch([b"v"] * 10))
    asked = tmp_path / "offsets.json"
    asked.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 4}], "version": 1}))
    printed = run(broker, TOOLS + "DeleteRecordsCommand", "--offset-json-file", str(asked))
    assert f"{topic}-0\tlow_watermark: 4" in printed


def test_log_dirs_command(broker: Broker, connection: raw.Connection, topic: str) -> None:
    records = raw.batch([b"v"] * 10)
    raw.produce(connection, topic, records)
    printed = run(broker, TOOLS + "LogDirsCommand", "--describe", "--topic-list", topic)
    described = json.loads(printed.splitlines()[-1])
    ((directory,),) = [node["logDirs"] for node in described["brokers"]]
    assert directory["logDir"] == str(broker.log_dir)
    assert [(part["partition"], part["size"]) for part in directory["partitions"]] == [(f"{topic}-0", len(records))]


def test_api_versions_command(broker: Broker) -> None:
    printed = run(broker, TOOLS + "BrokerApiVersionsCommand")
    assert "Produce(0): 0 to 13 [usable: 13]" in printed
    assert "Fetch(1): 4 to 18 [usable: 18]" in printed
