"""`penstock produce`: lines become messages, and what became of them is said."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from brokers import Broker, PenstockProcess
from cli.commands import run, start
from ports import free_ports


def consumed(broker: Broker, topic: str) -> list[dict[str, object]]:
    result = run("consume", topic, "--format", "json", bootstrap=broker.bootstrap)
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_line_is_a_message_and_the_last_needs_no_end(broker: Broker, topic: str) -> None:
    result = run("produce", topic, bootstrap=broker.bootstrap, stdin="one\n\nthree")
    assert result.exit_code == 0
    assert result.stderr == f"3 messages written to {topic}:\n  partition 0: 3 messages, offsets 0 to 2\n"
    assert [message["value"] for message in consumed(broker, topic)] == ["one", "", "three"]


def test_keys_and_headers_come_from_the_line_or_the_command(broker: Broker, topic: str) -> None:
    at = broker.bootstrap
    run("produce", topic, "--key-separator", ":", "--header", "a=1", bootstrap=at, stdin="k:v:w\n:empty key\n")
    run("produce", topic, "--key", "fixed", "--header", "b=x=y", bootstrap=at, stdin="v\n")
    found = [(m["key"], m["value"], m["headers"]) for m in consumed(broker, topic)]
    assert found == [
        ("k", "v:w", [{"key": "a", "value": "1"}]),
        ("", "empty key", [{"key": "a", "value": "1"}]),
        ("fixed", "v", [{"key": "b", "value": "x=y"}]),
    ]


def test_a_line_that_is_no_message_stops_and_nothing_before_it_is_lost(broker: Broker, topic: str) -> None:
    result = run("produce", topic, "--key-separator", "|", bootstrap=broker.bootstrap, stdin="a|1\nnone\nb|2\n")
    assert result.exit_code == 1
    assert str(result.exception).startswith("Line 2 cannot be sent: it has no '|' between key and value.")
    assert [message["value"] for message in consumed(broker, topic)] == ["1"]
    lines = '{"value": "ok"}\n{"value": "x", "partition": 9}\n'
    result = run("produce", topic, "--format", "json", bootstrap=broker.bootstrap, stdin=lines)
    assert "no partition 9" in str(result.exception)
    assert [message["value"] for message in consumed(broker, topic)] == ["1", "ok"]
    result = run("produce", topic, "--format", "json", bootstrap=broker.bootstrap, stdin="[" * 100_000 + "\n")
    assert str(result.exception) == "Line 1 cannot be sent: it is nested too deeply. Nothing was sent."


def test_json_lines_say_everything_and_what_consume_prints_can_be_sent_again(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic, copy = new_topic(partitions=2), new_topic(partitions=2)
    lines = [
        {"key": "k", "value": "v", "headers": {"h": "1"}, "timestamp": 1_700_000_000_000, "partition": 1},
        {"value": None, "key": "tombstone", "partition": 0},
        {"value": "/wA=", "value_encoding": "base64", "partition": 0},
        {"value": {"nested": [1]}, "partition": 0},
    ]
    stdin = "".join(json.dumps(line) + "\n" for line in lines)
    assert run("produce", topic, "--format", "json", bootstrap=broker.bootstrap, stdin=stdin).exit_code == 0
    printed = run("consume", topic, "--format", "json", bootstrap=broker.bootstrap).stdout
    run("produce", copy, "--format", "json", bootstrap=broker.bootstrap, stdin=printed)

    def plain(name: str) -> list[dict[str, object]]:
        found = sorted(consumed(broker, name), key=lambda m: (m["partition"], m["offset"]))
        return [{**message, "topic": ""} for message in found]

    assert plain(topic) == plain(copy)
    values = [(m["partition"], m["key"], m["value"]) for m in plain(topic)]
    assert values == [(0, "tombstone", None), (0, None, "/wA="), (0, None, '{"nested": [1]}'), (1, "k", "v")]


def test_keys_and_header_values_are_the_bytes_that_were_typed(broker: Broker, topic: str) -> None:
    arguments = ["--key", os.fsdecode(b"\xff\x00"), "--header", os.fsdecode(b"a=\xfe")]
    assert run("produce", topic, *arguments, bootstrap=broker.bootstrap, stdin="v\n").exit_code == 0
    separator = os.fsdecode(b"\xfd")
    run("produce", topic, "--key-separator", separator, bootstrap=broker.bootstrap, stdin=b"k\xfdw\n")
    first, second = consumed(broker, topic)
    assert (first["key"], first["key_encoding"]) == ("/wA=", "base64")
    assert first["headers"] == [{"key": "a", "value": "/g==", "value_encoding": "base64"}]
    assert (second["key"], second["value"]) == ("k", "w")


def test_json_has_no_offsets_where_the_broker_tells_none(broker: Broker, topic: str) -> None:
    result = run("produce", topic, "--acks", "0", "--json", bootstrap=broker.bootstrap, stdin="v\n")
    (partition,) = json.loads(result.stdout)["partitions"]
    assert partition == {"partition": 0, "count": 1, "first_offset": None, "last_offset": None}


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_file_is_sent_with_every_compression(broker: Broker, topic: str, tmp_path: Path, compression: str) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"line {number}\n" for number in range(5_000)))
    arguments = ["--file", str(path), "--compression", compression, "--json"]
    result = run("produce", topic, *arguments, bootstrap=broker.bootstrap)
    assert json.loads(result.stdout) == {
        "topic": topic,
        "written": 5_000,
        "failed": 0,
        "unconfirmed": 0,
        "partitions": [{"partition": 0, "count": 5_000, "first_offset": 0, "last_offset": 4_999}],
    }
    assert run("consume", topic, bootstrap=broker.bootstrap).stdout == path.read_text()


def test_a_message_that_the_broker_refuses_is_exit_status_1(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="1000")
    stdin = "a\n" + "x" * 5_000 + "\nb\n"
    result = run("produce", topic, bootstrap=broker.bootstrap, stdin=stdin)
    assert result.exit_code == 1
    assert "2 messages written" in result.stderr
    assert "1 message NOT written" in result.stderr
    assert "max.message.bytes" in result.stderr
    assert [message["value"] for message in consumed(broker, topic)] == ["a", "b"]


def test_a_line_is_sent_while_the_pipe_stays_open(penstock: PenstockProcess, name: str) -> None:
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    producing = start("produce", name, bootstrap=penstock.bootstrap)
    following = start("consume", name, "--follow", "--from-beginning", bootstrap=penstock.bootstrap)
    try:
        assert producing.stdin is not None
        assert following.stdout is not None
        producing.stdin.write(b"at once\n")
        producing.stdin.flush()
        assert following.stdout.readline() == b"at once\n"
        following.send_signal(signal.SIGINT)
        _, said = following.communicate(timeout=30)
        assert (following.returncode, said) == (130, b"")
        _, said = producing.communicate(timeout=30)
        assert (producing.returncode, said.splitlines()[0]) == (0, f"1 message written to {name}:".encode())
    finally:
        producing.kill()
        following.kill()


def test_a_topic_is_created_only_when_that_is_asked_for(broker: Broker, name: str) -> None:
    refused = run("produce", name, bootstrap=broker.bootstrap, stdin="v\n")
    assert f"Create it with `penstock topic create {name}`" in str(refused.exception)
    assert run("produce", name, "--create", bootstrap=broker.bootstrap, stdin="v\n").exit_code == 0
    assert [message["value"] for message in consumed(broker, name)] == ["v"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--key", "k", "--key-separator", ":"],
        ["--key-separator", ""],
        ["--format", "json", "--key", "k"],
        ["--header", "novalue"],
        ["--acks", "2"],
        ["--compression", "rar"],
        ["--file", "/no/such/file"],
    ],
)
def test_wrong_usage_is_exit_status_2(arguments: list[str]) -> None:
    result = run("produce", "t", *arguments, bootstrap=f"127.0.0.1:{free_ports(1)[0]}", stdin="")
    assert result.exit_code == 2
