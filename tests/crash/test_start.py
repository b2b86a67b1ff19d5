"""A start that cannot work ends with one sentence that says why and what to do, never with a traceback."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import raw
from brokers import PenstockProcess

DATABASE = "penstock-metadata.db"


def refusal(broker: PenstockProcess) -> str:
    """What the broker says when it does not start."""
    with pytest.raises(RuntimeError, match="ended with status 1"):
        broker.start()
    text = broker.stderr().strip()
    assert "Traceback" not in text, text
    last = text.splitlines()[-1]
    assert last.startswith("penstock: "), text
    assert last.endswith((".", "?")), text
    return last


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    with PenstockProcess(tmp_path) as first:
        second = PenstockProcess(tmp_path / "second")
        second.log_dir = first.log_dir
        assert str(first.log_dir) in refusal(second)
        with raw.Connection(first.bootstrap) as connection:
            raw.create_topic(connection, "still-here")


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(PenstockProcess(tmp_path, port=port))
    assert f"127.0.0.1:{port}" in said


def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    broker = PenstockProcess(tmp_path)
    broker.log_dir.write_text("not a directory")
    assert str(broker.log_dir) in refusal(broker)


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    broker = PenstockProcess(tmp_path)
    broker.log_dir.mkdir()
    with read_only(broker.log_dir):
        assert str(broker.log_dir) in refusal(broker)


def test_a_data_directory_that_becomes_read_only_is_refused_and_later_served(tmp_path: Path) -> None:
    broker = PenstockProcess(tmp_path)
    with broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "orders")
        raw.produce(connection, "orders", raw.batch([b"one"]))
    with read_only(broker.log_dir, keep=True):
        assert str(broker.log_dir) in refusal(broker)
    with broker, raw.Connection(broker.bootstrap) as connection:
        assert raw.values(raw.fetch(connection, "orders").records) == [b"one"]


@pytest.mark.parametrize("damage", ["garbage", "cut", "other", "newer"])
def test_damaged_metadata_is_refused(tmp_path: Path, damage: str) -> None:
    broker = PenstockProcess(tmp_path)
    with broker, raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, "orders", partitions=20)
    path = broker.log_dir / DATABASE
    for beside in (path.with_name(DATABASE + "-wal"), path.with_name(DATABASE + "-shm")):
        beside.unlink(missing_ok=True)
    if damage == "garbage":
        path.write_bytes(os.urandom(path.stat().st_size))
    elif damage == "cut":
        os.truncate(path, 5000)
    elif damage == "other":
        path.unlink()
        execute(path, "CREATE TABLE something(else_)")
    else:
        execute(path, "PRAGMA user_version = 99")
    assert str(broker.log_dir) in refusal(broker)
    assert (broker.log_dir / "orders-0").is_dir(), "records are kept"


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(statement)
        database.commit()


@contextmanager
def read_only(directory: Path, keep: bool = False) -> Iterator[None]:
    """Nothing can be written below the directory. Permissions do not stop root, a read-only mount does."""
    if os.geteuid() != 0:
        directory.chmod(0o500)
        try:
            yield
        finally:
            directory.chmod(0o700)
        return
    what = ["--bind", str(directory)] if keep else ["-t", "tmpfs", "none"]
    done = subprocess.run(["mount", *what, str(directory)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"needs to mount, and may not: {done.stderr.strip()}")
    try:
        subprocess.run(["mount", "-o", "remount,ro" + (",bind" if keep else ""), str(directory)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)
