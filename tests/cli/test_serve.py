"""`penstock serve` as a person meets it: the banner, the sentences, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

import raw
from brokers import SOURCE, PenstockProcess
from cli.commands import run
from penstock.cli.serve import _overrides
from ports import free_ports

TIMEOUT_SECONDS = 60.0


def serve(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A start that must fail."""
    command = [sys.executable, "-m", "penstock.cli.main", "serve", "--data", str(tmp_path / "data"), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, env=environment(), check=False
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))}


@contextmanager
def served(directory: Path, *arguments: str) -> Iterator[PenstockProcess]:
    """A broker that runs, with more on its command line."""
    process = PenstockProcess(directory)
    command = process.command
    process.command = lambda: [*command(), *arguments]  # type: ignore[method-assign]
    with process:
        yield process


def test_the_banner_says_where_what_and_what_next(tmp_path: Path) -> None:
    with served(tmp_path) as broker:
        said = broker.stderr()
    assert f"listening   127.0.0.1:{broker.port}" in said
    assert f"data        {broker.log_dir}" in said
    assert "durability  os: an acknowledged message is with the operating system" in said
    assert f"penstock topic create hello --bootstrap 127.0.0.1:{broker.port}" in said
    assert "WARNING" not in said
    assert said.splitlines().count("ready") == 1
    assert said.splitlines().index("ready") > said.splitlines().index(f"  data        {broker.log_dir}")


def test_listening_beyond_loopback_is_said_aloud(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with served(tmp_path, "--listen", f"0.0.0.0:{port}") as broker:
        assert "WARNING     other machines can connect, and nobody has to authenticate" in broker.stderr()
        with raw.Connection(f"127.0.0.1:{port}") as client:  # each is told the address that it used
            (told,) = client.call("Metadata", 12, topics=[]).brokers
            assert (told.host, told.port) == ("127.0.0.1", port)


def test_settings_without_effect_are_said_once_with_the_reason(tmp_path: Path) -> None:
    settings = ["--set", "num.network.threads=9", "--set", "auto.leader.rebalance.enable=false"]
    with served(tmp_path, *settings) as broker:
        said = broker.stderr()
    assert re.search(r"note .*num\.network\.threads", said)
    assert re.search(r"note .*auto\.leader\.rebalance\.enable", said)


def test_quiet_says_only_that_it_is_ready(tmp_path: Path) -> None:
    with served(tmp_path, "--quiet") as broker:
        assert broker.stderr() == "ready\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    process = PenstockProcess(tmp_path)
    process.start()
    os.kill(process.pid, number)
    ended = process._take()
    assert ended.wait(TIMEOUT_SECONDS) == 0
    assert "Traceback" not in process.stderr()
    assert (process.log_dir / ".kafka_cleanshutdown").exists()
    assert process.stderr().splitlines()[-1].endswith(" INFO stopped")


def test_an_address_of_ipv6_stands_in_brackets_and_can_be_typed_again(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with served(tmp_path, "--listen", f"[::1]:{port}") as broker:
        said = broker.stderr()
        assert f"listening   [::1]:{port}\n" in said
        assert f"penstock topic create hello --bootstrap '[::1]:{port}'\n" in said
        assert run("topic", "create", "hello", bootstrap=f"[::1]:{port}").exit_code == 0


def test_directories_have_commas_between_and_none_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _overrides(None, "a, b", ()) == [f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"]
    for wrong in ("", " ", "a,", "a,,b"):
        with pytest.raises(click.BadParameter, match="empty"):
            _overrides(None, wrong, ())
    ended = serve(tmp_path, "--data", "")
    assert ended.returncode == 2
    assert "A directory's name is empty." in ended.stderr


def test_two_words_for_one_setting_must_agree() -> None:
    assert len(_overrides("127.0.0.1:1", None, ("listeners=PLAINTEXT://127.0.0.1:1",))) == 2
    with pytest.raises(click.UsageError, match=r"--listen means listeners=PLAINTEXT.*, but --set says"):
        _overrides("127.0.0.1:1", None, ("listeners=PLAINTEXT://127.0.0.1:2",))
    with pytest.raises(click.UsageError, match="--data means"):
        _overrides(None, "a", ("log.dirs=b",))


def test_a_stop_while_consumers_wait_ends_at_once(tmp_path: Path) -> None:
    with PenstockProcess(tmp_path) as broker, raw.Connection(broker.bootstrap) as client:
        raw.create_topic(client, "t", 1)
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
        topics = [{"topic": "t", "partitions": partitions}]
        client.send("Fetch", 12, max_wait_ms=600_000, min_bytes=1, max_bytes=1000, topics=topics)
        broker.stop()
        assert client.is_closed_by_peer()


def test_a_wrong_value_is_a_sentence_and_status_1(tmp_path: Path) -> None:
    ended = serve(tmp_path, "--set", "log.segment.bytes=many")
    assert ended.returncode == 1
    assert "log.segment.bytes" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "data").exists()


def test_a_misspelt_setting_is_refused_or_named_with_the_right_spelling(tmp_path: Path) -> None:
    ended = serve(tmp_path, "--set", "log.retention.hour=5")
    assert ended.returncode == 1
    assert "log.retention.hours" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_port_in_use_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = serve(tmp_path, "--listen", address)
    assert ended.returncode == 1
    assert f"Cannot listen on {address}" in ended.stderr
    assert "Is another broker running?" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_address_of_another_machine_is_not_taken_for_one_in_use(tmp_path: Path) -> None:
    ended = serve(tmp_path, "--listen", "192.0.2.1:9092")
    assert ended.returncode == 1
    assert "Cannot listen on 192.0.2.1:9092" in ended.stderr
    assert "This machine does not have that address." in ended.stderr
    assert "another broker" not in ended.stderr


def test_a_data_directory_in_use_is_a_sentence(tmp_path: Path) -> None:
    with PenstockProcess(tmp_path) as broker:
        ended = serve(tmp_path, "--listen", "127.0.0.1:0")
        assert ended.returncode == 1
        assert "in use by another broker" in ended.stderr
        assert "Traceback" not in ended.stderr
        with raw.Connection(broker.bootstrap) as client:
            assert client.call("Metadata", 12, topics=[]).brokers


def test_a_file_of_settings_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    ended = serve(tmp_path, "--config", str(tmp_path / "none.properties"))
    assert ended.returncode == 1
    assert "none.properties" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_broker_that_loses_its_metadata_stops_and_says_so(tmp_path: Path) -> None:
    """Run in a process of its own with a session that is lost as soon as clients could connect."""
    program = f"""
import asyncio, sys
from penstock.broker.broker import Broker
wait_lost = Broker.wait_lost
async def lose(self):
    self.context.controller._session.lost.set()
    await wait_lost(self)
Broker.wait_lost = lose
sys.argv = ["penstock", "serve", "--listen", "127.0.0.1:0", "--data", {str(tmp_path / "data")!r}]
from penstock.cli.main import main
main()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env=environment(),
        check=False,
    )
    assert ended.returncode == 1
    assert "penstock: The broker stops: it lost its session" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
