"""A broker that is lost while a command runs: it is said, tried again for as long as promised, and found again."""

from __future__ import annotations

import math
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from brokers import PenstockProcess
from cli.commands import run, start
from penstock.cli.patience import QUIET_SECONDS, REPEAT_SECONDS, Patience
from penstock.errors import ErrorCode, KafkaError

TOPIC = "lost"
TIMEOUT_SECONDS = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[PenstockProcess]:
    """A broker of the test's own, with a topic."""
    with PenstockProcess(tmp_path) as process:
        run("topic", "create", TOPIC, bootstrap=process.bootstrap)
        yield process


@contextmanager
def producing(broker: PenstockProcess, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`penstock produce` whose first line is written and which has lost its broker at the second."""
    process = start("produce", TOPIC, *arguments, bootstrap=broker.bootstrap)
    try:
        type_line(process, b"one\n")
        read = run("consume", TOPIC, "--follow", "--from-beginning", "-n", "1", bootstrap=broker.bootstrap)
        assert read.stdout == "one\n"
        broker.kill()
        type_line(process, b"two\n")
        yield process
    finally:
        process.kill()
        process.wait()


def type_line(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


@contextmanager
def following(broker: PenstockProcess, topic: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A follower that has printed the first message."""
    run("produce", topic, bootstrap=broker.bootstrap, stdin="one\n")
    process = start("consume", topic, "--follow", "--from-beginning", *arguments, bootstrap=broker.bootstrap)
    try:
        assert next_line(process) == b"one\n"
        yield process
    finally:
        process.kill()
        process.wait()


def next_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def next_note(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().decode()


def test_a_producer_says_that_it_waits_and_goes_on_when_the_broker_is_back(broker: PenstockProcess) -> None:
    with producing(broker) as process:
        note = next_note(process)
        assert re.search(r"127\.0\.0\.1:\d+.* Trying again for 1[12]\d s\.", note), note
        broker.start()
        assert next_note(process) == "penstock: The broker answers again.\n"
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
        assert (process.returncode, said.splitlines()[0]) == (0, f"2 messages written to {TOPIC}:".encode())


def test_a_producer_gives_up_after_the_time_it_was_given(broker: PenstockProcess) -> None:
    with producing(broker, "--timeout", "3") as process:
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 1
        assert b"1 message written" in said
        assert b"1 message NOT written" in said


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_producer_that_is_ended_tells_what_is_confirmed(broker: PenstockProcess, number: int, status: int) -> None:
    with producing(broker) as process:
        next_note(process)
        process.send_signal(number)
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == status
        assert b"1 message written" in said
        assert b"1 message not confirmed" in said
        assert b"Traceback" not in said


def test_a_follower_tries_without_end_and_reads_on(broker: PenstockProcess) -> None:
    with following(broker, TOPIC) as process:
        broker.kill()
        assert next_note(process).endswith(" Trying again until Ctrl-C.\n")
        broker.start()
        assert next_note(process) == "penstock: The broker answers again.\n"
        run("produce", TOPIC, bootstrap=broker.bootstrap, stdin="two\n")
        assert next_line(process) == b"two\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SECONDS) == 130


def test_a_follower_ends_after_the_time_it_was_given(broker: PenstockProcess) -> None:
    with following(broker, TOPIC, "--timeout", "3") as process:
        broker.kill()
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
        assert (process.returncode, b"Traceback" in said) == (1, False)


def test_a_member_of_a_group_says_the_outage_once_and_ends_after_the_time_it_was_given(
    broker: PenstockProcess,
) -> None:
    with following(broker, TOPIC, "--group", "g", "--timeout", "3") as process:
        broker.kill()
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 1
        assert len(said.splitlines()) == 2, said
        assert b"Trying again for " in said.splitlines()[0]


def test_a_member_of_a_group_reads_on_when_the_broker_is_back(broker: PenstockProcess) -> None:
    with following(broker, TOPIC, "--group", "g") as process:
        broker.kill()
        assert next_note(process).endswith(" Trying again until Ctrl-C.\n")
        broker.start()
        assert next_note(process) == "penstock: The broker answers again.\n"
        run("produce", TOPIC, bootstrap=broker.bootstrap, stdin="two\n")
        read = next_line(process)
        while read == b"one\n":  # what was not committed before the outage is printed again
            read = next_line(process)
        assert read == b"two\n"


def test_a_follower_whose_topic_is_deleted_says_so(penstock: PenstockProcess, name: str) -> None:
    at = penstock.bootstrap
    run("topic", "create", name, bootstrap=at)
    with following(penstock, name) as process:
        run("topic", "delete", name, bootstrap=at)
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
        assert (process.returncode, said.decode()) == (1, f"penstock: Topic {name!r} was deleted.\n")


def test_short_troubles_are_not_told_and_long_ones_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    patience, error = Patience(), KafkaError(ErrorCode.NETWORK_EXCEPTION, "It is gone.")
    patience.on_retry(error, QUIET_SECONDS / 2, 9.0)
    patience.on_success()
    assert capsys.readouterr().err == ""
    for waited in (QUIET_SECONDS, 2 * QUIET_SECONDS, QUIET_SECONDS + REPEAT_SECONDS):
        patience.on_retry(error, waited, math.inf)
    patience.on_success()
    patience.on_success()
    said = capsys.readouterr().err.splitlines()
    assert said == ["penstock: It is gone. Trying again until Ctrl-C."] * 2 + ["penstock: The broker answers again."]
