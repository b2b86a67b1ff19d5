"""`penstock topic` against both brokers, in a pipe and on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import raw
from brokers import Broker, PenstockProcess
from changes import check_seen
from cli.commands import run
from cli.terminal import on_terminal
from members import wait_until
from penstock.errors import ErrorCode, KafkaError
from ports import free_ports
from transactional import Transactional

INTERNAL = ("__transaction_state", "__consumer_offsets")


def test_a_topic_is_created_listed_described_changed_and_deleted(broker: Broker, name: str) -> None:
    at = broker.bootstrap
    created = run("topic", "create", name, "--partitions", "3", "--config", "retention.ms=60000", bootstrap=at)
    assert created.stdout == f"Created topic {name} with 3 partitions.\n"
    assert name in run("topic", "list", bootstrap=at).stdout.splitlines()
    described = run("topic", "describe", name, bootstrap=at).stdout
    assert "3 partitions, replication factor 1, 0 B" in described
    assert "  retention.ms=60000\n" in described
    assert "partition\tleader\treplicas\tin sync\tearliest\tlatest\tsize\n0\t" in described
    changes = ["-p", "4", "--set", "segment.ms=9999", "--delete", "retention.ms"]
    changed = run("topic", "alter", name, *changes, bootstrap=at)
    assert changed.stdout == f"Changed topic {name}.\n"
    assert run("topic", "delete", name, bootstrap=at).stdout == f"Deleted topic {name}.\n"
    check_seen(broker, lambda: name in run("topic", "list", bootstrap=at).stdout.splitlines(), False)


def test_json_has_every_fact(broker: Broker, name: str) -> None:
    at = broker.bootstrap
    created = json.loads(
        run("topic", "create", name, "-p", "2", "-c", "segment.ms=9999", "--json", bootstrap=at).stdout
    )
    assert (created["name"], created["partitions"], created["created"]) == (name, 2, True)
    run("produce", name, "--partition", "1", bootstrap=at, stdin="a\nb\n")
    (topic,) = json.loads(run("topic", "describe", name, "--json", bootstrap=at).stdout)
    assert topic["id"] == created["id"]
    assert topic["configs"]["segment.ms"] == "9999"
    assert [partition["latest_offset"] for partition in topic["partitions"]] == [0, 2]
    assert topic["partitions"][1]["size_bytes"] > 0
    assert topic["partitions"][0]["isr"] == topic["partitions"][0]["replicas"] == [topic["partitions"][0]["leader"]]
    listed = json.loads(run("topic", "list", "--json", bootstrap=at).stdout)
    assert {"name": name, "partition_count": 2}.items() <= next(t for t in listed if t["name"] == name).items()


def test_a_topic_that_is_there_is_an_error_unless_that_is_allowed(broker: Broker, topic: str) -> None:
    refused = run("topic", "create", topic, bootstrap=broker.bootstrap)
    assert isinstance(refused.exception, KafkaError)
    assert refused.exception.code is ErrorCode.TOPIC_ALREADY_EXISTS
    allowed = run("topic", "create", topic, "--if-not-exists", bootstrap=broker.bootstrap)
    assert allowed.stdout == f"There is already a topic {topic} with 1 partition.\n"


def test_a_wrong_name_among_others_deletes_nothing(broker: Broker, topic: str) -> None:
    result = run("topic", "delete", topic, "no-such-topic", bootstrap=broker.bootstrap)
    assert str(result.exception) == "There is no topic 'no-such-topic'. Nothing was deleted."
    assert topic in run("topic", "list", bootstrap=broker.bootstrap).stdout.splitlines()


def test_a_topic_of_the_brokers_own_is_deleted_only_on_request_and_the_broker_tells_what_is_lost(
    tmp_path: Path,
) -> None:
    with PenstockProcess(tmp_path) as broker, Transactional(broker.bootstrap) as producer:
        at = broker.bootstrap
        raw.create_topic(producer, "orders")
        assert producer.settled(producer.init) == 0
        assert producer.produce("orders", [b"left open"], version=12) == 0
        run("group", "reset-offsets", "g", "--topic", "orders", "--to-earliest", "--execute", bootstrap=at)
        for name in INTERNAL:
            refused = run("topic", "delete", "orders", name, "-y", bootstrap=at)
            assert refused.exit_code == 1
            assert f"Topic '{name}' is the broker's own" in str(refused.exception)
        assert {"orders", *INTERNAL} == set(run("topic", "list", "--internal", bootstrap=at).stdout.splitlines())
        deleted = run("topic", "delete", *INTERNAL, "--internal", "-y", bootstrap=at)
        assert deleted.stdout == "".join(f"Deleted topic {name}.\n" for name in INTERNAL)
        wait_until(lambda: "was deleted with 1 open transactions" in broker.stderr())
        wait_until(lambda: "was deleted with all that 1 groups have committed" in broker.stderr())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["alter", "t"], "Nothing to change"),
        (["alter", "t", "--set", "novalue"], "is not key=value"),
        (["create", "t", "--partitions", "0"], "0 is not in the range"),
        (["delete"], "Missing argument"),
    ],
)
def test_wrong_usage_is_exit_status_2_and_asks_no_broker(arguments: list[str], said: str) -> None:
    result = run("topic", *arguments, bootstrap=f"127.0.0.1:{free_ports(1)[0]}")
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_terminal_gets_a_table_and_is_asked_before_a_deletion(penstock: PenstockProcess, name: str) -> None:
    at = ("--bootstrap", penstock.bootstrap)
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    status, shown = on_terminal("topic", "describe", name, *at)
    assert status == 0
    assert "───" in shown
    assert "in sync" in shown
    status, shown = on_terminal("topic", "delete", name, *at, typed=b"n\n")
    assert (status, "Delete" in shown) == (1, True)
    status, shown = on_terminal("topic", "delete", name, *at, typed=b"y\n")
    assert (status, f"Deleted topic {name}." in shown) == (0, True)


def test_a_misspelt_setting_is_named_with_the_right_spelling(penstock: PenstockProcess, name: str) -> None:
    refused = run("topic", "create", name, "-c", "retentio.ms=5", bootstrap=penstock.bootstrap)
    assert str(refused.exception).endswith("There is no topic setting 'retentio.ms'. Did you mean retention.ms?")
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    refused = run("topic", "alter", name, "-s", "retentio.ms=5", bootstrap=penstock.bootstrap)
    assert str(refused.exception).endswith("Did you mean retention.ms?")


def test_no_broker_is_a_sentence_and_exit_status_1() -> None:
    port = free_ports(1)[0]
    status, shown = on_terminal("topic", "list", "--bootstrap", f"127.0.0.1:{port}")
    assert status == 1
    assert shown.strip() == (
        f"penstock: No broker answered at 127.0.0.1:{port}: connection refused. "
        "Is it running? Start one with `penstock serve`."
    )


def complete(words: str, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the shell is offered for the last of the words."""
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", bootstrap)
    return [line.removeprefix("plain,") for line in run().stdout.splitlines() if line]


def test_the_shell_completes_topics_and_is_silent_without_a_broker(
    penstock: PenstockProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    for command in ("consume", "produce", "topic describe", "topic delete", "topic alter"):
        assert complete(f"penstock {command} {name[:-2]}", penstock.bootstrap, monkeypatch) == [name]
    assert complete(f"penstock consume {name[:-2]}", f"127.0.0.1:{free_ports(1)[0]}", monkeypatch) == []
    assert "consume" in complete("penstock con", penstock.bootstrap, monkeypatch)


def test_help_names_every_command() -> None:
    text = run("topic", "--help").stdout
    for command in ("create", "list", "describe", "alter", "delete"):
        assert command in text
