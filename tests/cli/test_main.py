"""The command as a whole: whatever goes wrong is a sentence, and `python -m penstock` is the same command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from brokers import PenstockProcess
from cli.commands import SOURCE, run
from penstock.cli import main as cli
from penstock.cli import version
from penstock.cli.invocation import typed_command
from ports import free_ports

HUGE = "9" * 23


def said_by_main(*arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says when it ends with status 1."""
    monkeypatch.setattr(sys, "argv", ["penstock", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    return capsys.readouterr().err


def fail(*_arguments: object) -> None:
    raise ZeroDivisionError("division by zero")


def test_a_bug_is_a_sentence_and_its_place_is_shown_only_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(version.command, "callback", lambda **_options: fail())
    monkeypatch.delenv(cli.DEBUG_VARIABLE, raising=False)
    said = said_by_main("version", monkeypatch=monkeypatch, capsys=capsys)
    assert said == (
        "penstock: This is a bug in Penstock, please report it. ZeroDivisionError: division by zero. "
        "PENSTOCK_DEBUG=1 shows where.\n"
    )
    monkeypatch.setenv(cli.DEBUG_VARIABLE, "1")
    assert "in fail" in said_by_main("version", monkeypatch=monkeypatch, capsys=capsys)


def test_what_the_system_refuses_is_no_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(**_options: object) -> None:
        raise PermissionError(13, "Permission denied", "some/file")

    monkeypatch.setattr(version.command, "callback", refuse)
    said = said_by_main("version", monkeypatch=monkeypatch, capsys=capsys)
    assert said == "penstock: Permission denied: some/file.\n"


def test_an_argument_that_is_no_text_is_a_sentence(
    penstock: PenstockProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("consume", os.fsdecode(b"t\xff"), "--bootstrap", penstock.bootstrap)
    said = said_by_main(*arguments, monkeypatch=monkeypatch, capsys=capsys)
    assert "cannot be written as utf-8" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "create", "t", "-p", HUGE],
        ["topic", "create", "t", "-r", "99999999"],
        ["topic", "alter", "t", "-p", HUGE],
        ["consume", "t", "--from-time", HUGE],
        ["consume", "t", "--from-time", f"{HUGE}d ago"],
        ["consume", "t", "--to-time", "9" * 5000],
        ["consume", "t", "--timeout", HUGE],
        ["produce", "t", "--timeout", "0"],
        ["produce", "t", "--header", os.fsdecode(b"\xff=a")],
    ],
    ids=lambda arguments: " ".join(arguments)[:40].encode("ascii", "replace").decode(),
)
def test_numbers_that_nothing_has_room_for_are_wrong_usage(arguments: list[str]) -> None:
    result = run(*arguments, bootstrap=f"127.0.0.1:{free_ports(1)[0]}", stdin="")
    assert result.exit_code == 2
    assert "Error: Invalid value" in result.stderr


def test_a_name_that_no_host_can_have_is_a_sentence() -> None:
    for host in ("..", "a" * 300):
        result = run("topic", "list", bootstrap=f"{host}:9092")
        assert "Is the name right?" in str(result.exception)
    assert "no port" in str(run("topic", "list", bootstrap=f"127.0.0.1:{'9' * 5000}").exception)


def test_the_package_can_be_run() -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "penstock", "version"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert ended.stdout == run("version").stdout


def test_what_people_are_told_to_type_is_what_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "penstock"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program), "serve"])
    assert typed_command() == str(program)
    monkeypatch.setenv("PATH", str(program.parent))
    assert typed_command() == "penstock"
    monkeypatch.setattr(sys, "argv", ["src/penstock/__main__.py", "serve"])
    monkeypatch.setattr(sys, "orig_argv", [".venv/bin/python", "-m", "penstock", "serve"])
    assert typed_command() == ".venv/bin/python -m penstock"
