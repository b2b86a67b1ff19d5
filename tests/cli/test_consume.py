"""`penstock consume`: where it starts, where it stops, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import raw
from brokers import Broker, PenstockProcess
from capabilities import needs_transactions
from cli.commands import run, start
from cli.terminal import on_terminal
from ports import free_ports
from transactional import Transactional

BASE = 1_700_000_000_000


@pytest.fixture
def numbers(broker: Broker, new_topic: Callable[..., str]) -> str:
    """A topic with the values 0 to 9, a second apart."""
    topic = new_topic(retention_ms="-1")
    lines = [json.dumps({"value": str(number), "timestamp": BASE + 1_000 * number}) for number in range(10)]
    assert run("produce", topic, "--format", "json", bootstrap=broker.bootstrap, stdin="\n".join(lines)).exit_code == 0
    return topic


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "0123456789"),
        (["--from-beginning", "--max", "2"], "01"),
        (["--offset", "7"], "789"),
        (["--offset", "10"], ""),
        (["--offset", "-3"], "789"),
        (["--offset", "-99"], "0123456789"),
        (["--to-offset", "3"], "012"),
        (["--to-offset", "99"], "0123456789"),
        (["--offset", "2", "--to-offset", "4"], "23"),
        (["--offset", "4", "--to-offset", "2"], ""),
        (["--from-time", str(BASE + 6_500)], "789"),
        (["--from-time", "2023-11-14T22:13:28Z"], "89"),
        (["--to-time", str(BASE + 2_000)], "01"),
        (["--from-time", "1h ago"], ""),
        (["--partition", "0", "-n", "1"], "0"),
        (["--follow", "--offset", "8", "-n", "2"], "89"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_it_reads_from_here_to_there(broker: Broker, numbers: str, arguments: list[str], expected: str) -> None:
    result = run("consume", numbers, *arguments, bootstrap=broker.bootstrap)
    assert result.exit_code == 0
    assert result.stdout.replace("\n", "") == expected


def test_patterns_put_every_field_where_it_is_wanted(broker: Broker, topic: str) -> None:
    line = json.dumps({"key": "k", "value": "v", "headers": {"h": "1"}, "timestamp": BASE})
    run("produce", topic, "--format", "json", bootstrap=broker.bootstrap, stdin=line)

    def printed(*arguments: str) -> str:
        return run("consume", topic, *arguments, bootstrap=broker.bootstrap).stdout

    assert printed("--format", "%t-%p@%o %k=%v [%h] %T %d %%") == (
        f"{topic}-0@0 k=v [h=1] {BASE} 2023-11-14T22:13:20.000Z %\n"
    )
    assert printed("--format", "key-value") == "k\tv\n"
    assert printed("--headers") == "h=1\tv\n"
    assert json.loads(printed("--json")) == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": BASE,
        "key": "k",
        "value": "v",
        "headers": [{"key": "h", "value": "1"}],
    }


def test_bytes_stay_bytes_in_a_pipe_and_are_marked_in_json(broker: Broker, topic: str) -> None:
    run("produce", topic, bootstrap=broker.bootstrap, stdin=b"\xff\x00\x1b[31m\n")
    assert run("consume", topic, bootstrap=broker.bootstrap).stdout_bytes == b"\xff\x00\x1b[31m\n"
    message = json.loads(run("consume", topic, "--json", bootstrap=broker.bootstrap).stdout)
    assert (message["value"], message["value_encoding"]) == ("/wAbWzMxbQ==", "base64")


def test_only_json_tells_a_tombstone_from_the_word_and_the_help_says_so(broker: Broker, topic: str) -> None:
    lines = '{"value": null}\n{"value": "null"}\n'
    run("produce", topic, "--format", "json", bootstrap=broker.bootstrap, stdin=lines)
    assert run("consume", topic, bootstrap=broker.bootstrap).stdout == "null\nnull\n"
    printed = run("consume", topic, "--json", bootstrap=broker.bootstrap).stdout.splitlines()
    assert [json.loads(line)["value"] for line in printed] == [None, "null"]
    assert "printed as null" in " ".join(run("consume", "--help").stdout.split())


def test_a_message_does_not_steer_the_terminal(penstock: PenstockProcess, name: str) -> None:
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    evil = "\x1b]0;owned\x07\x9b31m\u202e".encode() + b"\xff\n"
    run("produce", name, "--key", "\x1b[2J", "--header", "\x1b=\x1b", bootstrap=penstock.bootstrap, stdin=evil)
    for arguments in (["--format", "%k %h %v"], ["--headers"], ["--json"], ["--format", "key-value"]):
        status, shown = on_terminal("consume", name, *arguments, "--bootstrap", penstock.bootstrap)
        assert status == 0
        assert shown.replace("\r\n", "").replace("\t", "").isprintable()
    assert "owned" in on_terminal("consume", name, "--bootstrap", penstock.bootstrap)[1]


def test_following_starts_at_the_end(penstock: PenstockProcess, name: str) -> None:
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    run("produce", name, bootstrap=penstock.bootstrap, stdin="old\n")
    following = start("consume", name, "--follow", "--max", "1", bootstrap=penstock.bootstrap)
    try:
        while following.poll() is None:  # it may not listen yet when the first comes
            run("produce", name, bootstrap=penstock.bootstrap, stdin="new\n")
        assert following.communicate()[0] == b"new\n"
        assert following.returncode == 0
    finally:
        following.kill()


def test_a_reader_that_has_gone_is_no_failure(penstock: PenstockProcess, name: str) -> None:
    run("topic", "create", name, bootstrap=penstock.bootstrap)
    run("produce", name, bootstrap=penstock.bootstrap, stdin="x" * 100 + "\n" + ("y" * 100 + "\n") * 20_000)
    reading = start("consume", name, bootstrap=penstock.bootstrap)
    try:
        assert reading.stdout is not None
        assert reading.stderr is not None
        reading.stdout.readline()
        reading.stdout.close()
        assert (reading.wait(30), reading.stderr.read()) == (0, b"")
    finally:
        reading.kill()


def test_many_partitions_are_read_to_their_ends(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=4)
    lines = "".join(f"{number}\n" for number in range(3_000))
    run("produce", topic, "--partitioner", "round_robin", bootstrap=broker.bootstrap, stdin=lines)
    printed = run("consume", topic, bootstrap=broker.bootstrap).stdout
    assert sorted(printed.split(), key=int) == lines.split()
    some = run("consume", topic, "-p", "1", "-p", "3", "--format", "%p", bootstrap=broker.bootstrap).stdout
    assert sorted(set(some.split())) == ["1", "3"]


def test_what_is_not_there_is_said(broker: Broker, topic: str) -> None:
    def said(*arguments: str) -> str:
        result = run("consume", *arguments, bootstrap=broker.bootstrap)
        assert result.exit_code == 1
        return str(result.exception)

    assert "There is no topic 'no-such-topic'" in said("no-such-topic")
    assert "has no partition 5: it has 1" in said(topic, "--partition", "5")
    assert "has no offset 7: it begins at 0 and ends at 0" in said(topic, "--offset", "7")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--from-beginning", "--offset", "1"],
        ["--to-offset", "1", "--to-time", "now"],
        ["--from-time", "yesterday-ish"],
        ["--format", "words"],
        ["--format", "%k %z"],
        ["--max", "0"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_status_2(arguments: list[str]) -> None:
    assert run("consume", "t", *arguments, bootstrap=f"127.0.0.1:{free_ports(1)[0]}").exit_code == 2


def test_only_committed_messages_are_printed_unless_all_are_wanted(broker: Broker, topic: str) -> None:
    needs_transactions(broker.bootstrap)
    with Transactional(broker.bootstrap) as committer, Transactional(broker.bootstrap) as other:
        for producer in (committer, other):
            assert producer.settled(producer.init) == 0
            assert producer.add(topic) == 0
        assert other.produce(topic, [b"aborted"]) == 0
        assert committer.produce(topic, [b"committed"]) == 0
        assert other.end(committed=False) == 0
        other.wait_for_state("CompleteAbort")
        assert committer.end(committed=True) == 0
        committer.wait_for_state("CompleteCommit")
        raw.produce(other, topic, raw.batch([b"plain"]))
        assert other.settled(lambda: other.add(topic)) == 0
        assert other.produce(topic, [b"open"]) == 0
        raw.produce(other, topic, raw.batch([b"behind it"]))
    everything = ["aborted", "committed", "plain", "open", "behind it"]

    def printed(*arguments: str) -> list[str]:
        return run("consume", topic, *arguments, bootstrap=broker.bootstrap).stdout.splitlines()

    assert printed() == printed("--group", f"{topic}-a") == ["committed", "plain"]
    assert printed("--isolation", "read_uncommitted") == everything
    assert printed("--isolation", "read_uncommitted", "--group", f"{topic}-b") == everything
