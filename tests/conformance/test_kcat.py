"""kcat, the command line of librdkafka, often an old one: produce, consume, list, offsets."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

import raw
from brokers import Broker
from clients import COMPRESSIONS

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed")
START = raw.RECENT


def kcat(broker: Broker, *arguments: str, stdin: str | None = None) -> str:
    assert KCAT is not None
    command = [KCAT, "-b", broker.bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(broker: Broker, topic: str, *arguments: str) -> list[dict[str, object]]:
    """The records from the beginning to the end, as kcat's JSON."""
    printed = kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-J", *arguments)
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_produce_and_consume(broker: Broker, topic: str, compression: str, acks: str) -> None:
    lines = [f"{number}:value {number} " + "x" * 100 for number in range(50)]
    text = "\n".join(lines) + "\n"
    kcat(broker, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", compression, "-X", f"acks={acks}", stdin=text)
    got = read(broker, topic)
    assert [f"{record['key']}:{record['payload']}" for record in got] == lines
    assert [record["offset"] for record in got] == list(range(50))


def test_headers_and_tombstones(broker: Broker, topic: str) -> None:
    options = ("-P", "-t", topic, "-p", "0", "-H", "a=1", "-H", "b=2", "-H", "a=3", "-K", ":", "-Z")
    kcat(broker, *options, stdin="k:v\nk:\n")
    got = read(broker, topic)
    assert [record["payload"] for record in got] == ["v", None]
    assert got[0]["headers"] == ["a", "1", "b", "2", "a", "3"]


def test_idempotence(broker: Broker, topic: str) -> None:
    text = "".join(f"{number}\n" for number in range(100))
    kcat(broker, "-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", stdin=text)
    assert [record["payload"] for record in read(broker, topic)] == [str(number) for number in range(100)]


def test_list(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    listed = json.loads(kcat(broker, "-L", "-J", "-t", topic))
    assert [node["name"] for node in listed["brokers"]] == [broker.bootstrap]
    ((described),) = listed["topics"]
    assert (described["topic"], len(described["partitions"])) == (topic, 3)


def test_offsets_by_time_and_from_the_end(broker: Broker, connection: raw.Connection, topic: str) -> None:
    raw.produce(connection, topic, raw.batch([b"%d" % number for number in range(5)], timestamp=START))
    asked = [option for after in (0, 3, 9) for option in ("-t", f"{topic}:0:{START + after}")]
    found = [kcat(broker, "-Q", *asked[index : index + 2]).split()[-1] for index in range(0, 6, 2)]
    assert found == ["0", "3", "-1"], "-1 stands for the end, where nothing is so late"
    assert kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "-2", "-e", "-q").split() == ["3", "4"]
    assert kcat(broker, "-C", "-t", topic, "-p", "0", "-o", f"s@{START + 3}", "-e", "-q").split() == ["3", "4"]
