"""`penstock group` and `penstock consume --group`, against both brokers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock as library
from brokers import Broker, PenstockProcess
from cli.commands import run, start
from cli.terminal import on_terminal
from consumers import ConsumerMember
from members import find_coordinator, wait_until
from penstock.errors import ErrorCode, KafkaError
from ports import free_ports

BASE = 1_700_000_000_000


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def numbers(broker: Broker, new_topic: Callable[..., str]) -> str:
    """A topic of two partitions: 0 to 9 in the first, a second apart, nothing in the second."""
    topic = new_topic(partitions=2, retention_ms="-1")
    lines = [json.dumps({"value": str(n), "timestamp": BASE + 1_000 * n, "partition": 0}) for n in range(10)]
    assert run("produce", topic, "--format", "json", bootstrap=broker.bootstrap, stdin="\n".join(lines)).exit_code == 0
    return topic


@pytest.fixture
def member(broker: Broker, numbers: str, group: str) -> Iterator[library.Consumer]:
    """A consumer that has both partitions."""
    with library.Consumer(numbers, broker.bootstrap, group=group, commit="manual") as consumer:
        consumer.wait_assigned()
        yield consumer


def consume(broker: Broker, topic: str, group: str, *arguments: str) -> str:
    result = run("consume", topic, "--group", group, *arguments, bootstrap=broker.bootstrap)
    assert result.exit_code == 0, result.exception
    return result.stdout.replace("\n", "")


def describe(broker: Broker, group: str) -> Any:
    (found,) = json.loads(run("group", "describe", group, "--json", bootstrap=broker.bootstrap).stdout)
    return found


def test_a_group_goes_on_where_it_was(broker: Broker, numbers: str, group: str) -> None:
    assert consume(broker, numbers, group, "--max", "4") == "0123"
    assert consume(broker, numbers, group) == "456789"
    assert consume(broker, numbers, group) == ""
    run("produce", numbers, "--partition", "1", bootstrap=broker.bootstrap, stdin="new\n")
    assert consume(broker, numbers, group, "--format", "%p@%o %v") == "1@0 new"


def test_a_new_group_begins_where_it_is_told(broker: Broker, numbers: str, group: str) -> None:
    assert consume(broker, numbers, group, "--from-time", str(BASE + 6_500)) == "789"
    assert consume(broker, numbers, group, "--from-beginning") == "", "it remembers"


def test_no_name_is_the_default_group(broker: Broker, numbers: str) -> None:
    assert run("consume", numbers, "--group", bootstrap=broker.bootstrap).stdout.replace("\n", "") == "0123456789"
    assert consume(broker, numbers, "default") == ""


def test_following_in_a_group_waits_for_more_and_commits(penstock: PenstockProcess, name: str, group: str) -> None:
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    run("produce", name, bootstrap=penstock.bootstrap, stdin="a\nb\n")
    arguments = ["--group", group, "--follow", "--from-beginning", "--max", "3"]
    following = start("consume", name, *arguments, bootstrap=penstock.bootstrap)
    try:
        assert following.stdout is not None
        assert [following.stdout.readline() for _ in range(2)] == [b"a\n", b"b\n"]
        run("produce", name, bootstrap=penstock.bootstrap, stdin="c\nd\n")
        assert following.communicate()[0] == b"c\n"
        assert following.returncode == 0
    finally:
        following.kill()
    assert consume(penstock, name, group) == "d"


def test_an_active_group_is_listed_and_described(
    broker: Broker, numbers: str, group: str, member: library.Consumer
) -> None:
    for _ in range(3):
        message = member.poll(30)
        assert message is not None
    member.commit()
    listed = json.loads(run("group", "list", "--json", bootstrap=broker.bootstrap).stdout)
    mine = next(each for each in listed if each["name"] == group)
    assert mine == {
        "name": group, "state": "Stable", "type": "classic",
        "protocol_type": "consumer", "member_count": 1,
    }  # fmt: skip
    found = describe(broker, group)
    assert (found["state"], found["type"], found["lag"]) == ("Stable", "classic", 7)
    (shown,) = found["members"]
    assert shown["client_id"] == "penstock"
    assert shown["partitions"] == [{"topic": numbers, "partition": partition} for partition in range(2)]
    assert found["partitions"] == [
        {
            "topic": numbers, "partition": partition, "committed_offset": committed, "log_end_offset": end,
            "lag": lag, "member_id": shown["member_id"],
        }
        for partition, committed, end, lag in [(0, 3, 10, 7), (1, None, 0, None)]
    ]  # fmt: skip


def test_a_consumer_group_is_described_with_its_epoch_and_what_its_members_shall_have(
    broker: Broker, numbers: str, group: str
) -> None:
    with (
        ConsumerMember(broker.bootstrap, group, "one", [numbers], instance="i") as one,
        ConsumerMember(broker.bootstrap, group, "two", [numbers]) as two,
    ):
        find_coordinator(one, group)
        assert one.join().error_code == 0
        wait_until(lambda: one.confirm().error_code == 0 and one.assigned == {numbers: [0, 1]})
        assert two.join().error_code == 0
        # Kafka makes the next target a second after the last, and tells the first member to give a partition up.
        wait_until(lambda: one.beat(have={numbers: [0, 1]}).error_code == 0 and len(one.assigned[numbers]) == 1)
        found = describe(broker, group)
        first, second = sorted(found["members"], key=lambda each: each["member_id"])
    kept = one.assigned[numbers]
    assert (found["state"], found["type"], found["assignor"]) == ("Reconciling", "consumer", "uniform")
    assert found["epoch"] == found["assignment_epoch"] > first["epoch"]
    assert (first["instance_id"], first["client_id"]) == ("i", "penstock-tests")
    both = [{"topic": numbers, "partition": number} for number in range(2)]
    assert (first["partitions"], first["target"]) == (both, [both[kept[0]]]), "it has not given the other up yet"
    assert (second["partitions"], second["target"]) == ([], [both[1 - kept[0]]])
    shown = run("group", "describe", group, bootstrap=broker.bootstrap).stdout.splitlines()
    assert shown[0].startswith(f"{group}  Reconciling, consumer, epoch {found['epoch']}, assignor uniform, 2 members")
    assert shown[-2].split("\t")[-3:] == [str(first["epoch"]), f"{numbers}:0,1", f"{numbers}:{kept[0]}"]
    assert shown[-1].split("\t")[-2:] == ["-", f"{numbers}:{1 - kept[0]}"]


def test_an_active_group_is_neither_reset_nor_deleted(
    broker: Broker, numbers: str, group: str, member: library.Consumer
) -> None:
    for arguments in (["reset-offsets", group, "-t", numbers, "--to-earliest", "--execute"], ["delete", group]):
        refused = run("group", *arguments, bootstrap=broker.bootstrap)
        assert isinstance(refused.exception, KafkaError)
        assert refused.exception.code is ErrorCode.NON_EMPTY_GROUP
        assert f"Group '{group}' has members now. Stop its consumers first" in str(refused.exception)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-offset", "7"], 7),
        (["--to-offset", "99"], 10),
        (["--to-datetime", str(BASE + 2_500)], 3),
        (["--to-datetime", "2023-11-14T22:13:28Z"], 8),
        (["--to-datetime", "now"], 10),
        (["--by-duration", "1h"], 10),
        (["--by-duration", "P9000D"], 0),
        (["--shift-by", "-2"], 2),
        (["--shift-by", "3"], 7),
        (["--shift-by", "-99"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_offsets_are_reset_only_when_asked_twice(
    broker: Broker, numbers: str, group: str, target: list[str], expected: int
) -> None:
    consume(broker, numbers, group, "--max", "4")
    arguments = ["group", "reset-offsets", group, "--topic", f"{numbers}:0", *target]
    dry = run(*arguments, bootstrap=broker.bootstrap)
    assert dry.stdout == f"{numbers}\t0\t4\t{expected}\n"
    assert "dry run" in dry.stderr
    assert describe(broker, group)["partitions"][0]["committed_offset"] == 4
    done = json.loads(run(*arguments, "--execute", "--json", bootstrap=broker.bootstrap).stdout)
    assert done["executed"]
    assert describe(broker, group)["partitions"][0]["committed_offset"] == expected
    assert consume(broker, numbers, group) == "0123456789"[expected:]


def test_a_group_can_be_made_by_a_reset(broker: Broker, numbers: str, group: str) -> None:
    at = broker.bootstrap
    done = run("group", "reset-offsets", group, "--topic", numbers, "--to-latest", "--execute", bootstrap=at)
    assert done.stdout == f"{numbers}\t0\t-\t10\n{numbers}\t1\t-\t0\n"
    assert consume(broker, numbers, group) == ""
    every = run("group", "reset-offsets", group, "--all-topics", "--to-earliest", bootstrap=at)
    assert every.stdout == f"{numbers}\t0\t10\t0\n{numbers}\t1\t0\t0\n"


def test_a_group_is_deleted(broker: Broker, numbers: str, group: str) -> None:
    consume(broker, numbers, group)
    assert group in run("group", "list", bootstrap=broker.bootstrap).stdout.splitlines()
    assert run("group", "delete", group, bootstrap=broker.bootstrap).stdout == f"Deleted group {group}.\n"
    assert group not in run("group", "list", bootstrap=broker.bootstrap).stdout.splitlines()


def test_what_is_not_there_is_said(broker: Broker, numbers: str, group: str) -> None:
    def said(*arguments: str) -> str:
        result = run("group", *arguments, bootstrap=broker.bootstrap)
        assert result.exit_code == 1
        return str(result.exception)

    assert f"There is no group '{group}'" in said("describe", group)
    assert f"There is no group '{group}'" in said("delete", group)
    assert "has committed nothing" in said("reset-offsets", group, "--all-topics", "--to-earliest")
    assert "There is no topic 'no-such-topic'" in said("reset-offsets", group, "-t", "no-such-topic", "--to-earliest")
    assert "has no partition 7: it has 2" in said("reset-offsets", group, "-t", f"{numbers}:7", "--to-earliest")
    assert "nothing to shift from" in said("reset-offsets", group, "-t", numbers, "--shift-by", "1")


@pytest.mark.parametrize(
    "arguments",
    [
        ["group", "reset-offsets", "g", "--to-earliest"],
        ["group", "reset-offsets", "g", "--all-topics", "--topic", "t", "--to-earliest"],
        ["group", "reset-offsets", "g", "--topic", "t"],
        ["group", "reset-offsets", "g", "--topic", "t", "--to-earliest", "--to-latest"],
        ["group", "reset-offsets", "g", "--topic", "t:x", "--to-earliest"],
        ["group", "reset-offsets", "g", "--topic", "t", "--by-duration", "long"],
        ["group", "delete"],
        ["consume", "t", "--group", "g", "--partition", "0"],
        ["consume", "t", "--group", "g", "--offset", "0"],
        ["consume", "t", "--group", "g", "--to-time", "now"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_status_2_and_asks_no_broker(arguments: list[str]) -> None:
    assert run(*arguments, bootstrap=f"127.0.0.1:{free_ports(1)[0]}").exit_code == 2


def test_a_terminal_gets_tables_and_is_asked_before_a_deletion(
    penstock: PenstockProcess, name: str, group: str
) -> None:
    at = ("--bootstrap", penstock.bootstrap)
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    run("produce", name, bootstrap=penstock.bootstrap, stdin="a\nb\n")
    assert consume(penstock, name, group, "-n", "1") == "a"
    status, shown = on_terminal("group", "list", *at)
    assert (status, "───" in shown, group in shown, "Empty" in shown) == (0, True, True, True)
    status, shown = on_terminal("group", "describe", group, *at)
    assert (status, "0 members, lag 1" in shown, "committed" in shown) == (0, True, True)
    status, shown = on_terminal("group", "delete", group, *at, typed=b"n\n")
    assert (status, "Delete" in shown) == (1, True)
    status, shown = on_terminal("group", "delete", group, *at, typed=b"y\n")
    assert (status, f"Deleted group {group}." in shown) == (0, True)


def test_the_shell_completes_groups(
    penstock: PenstockProcess, name: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    arguments = ["-t", name, "--to-latest", "--execute"]
    run("group", "reset-offsets", group, *arguments, bootstrap=penstock.bootstrap)
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "bash_complete")
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", penstock.bootstrap)
    for command in ("group describe", "group delete", "group reset-offsets", f"consume {name} --group"):
        words = f"penstock {command} {group[:-2]}"
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        assert run().stdout.splitlines() == [f"plain,{group}"], command


def test_without_confluent_kafka_a_sentence_says_what_to_install(
    penstock: PenstockProcess, name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "confluent_kafka.py").write_text("raise ImportError('not installed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    process = start("consume", name, "--group", "g", bootstrap=penstock.bootstrap)
    assert b"pip install 'penstock[client]'" in process.communicate()[1]
    assert process.returncode == 1
    process = start("group", "list", bootstrap=penstock.bootstrap)
    process.communicate()
    assert process.returncode == 0
