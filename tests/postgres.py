"""A PostgreSQL of the test's own, in a temporary directory on a free port.

    with PostgresServer() as server:
        psycopg.connect(server.url)

It needs PostgreSQL's programs on this machine and the psycopg package; `why_unavailable()` says what is missing. The
server refuses to run as root, so root starts it as another user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ports import free_ports

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 60.0
USERS = ("postgres", "nobody")


def why_unavailable() -> str | None:
    """The reason why PostgreSQL cannot be used here, or None."""
    if find_program("postgres") is None or find_program("initdb") is None:
        return "PostgreSQL is not installed here"
    if find_spec("psycopg") is None:
        return "psycopg, the Python client of PostgreSQL, is not installed here"
    return None


def find_program(name: str) -> Path | None:
    places = [shutil.which(name), *sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)]
    return next((Path(place) for place in places if place), None)


class PostgresServer:
    """One server, from `with` to its end."""

    def __init__(self) -> None:
        self._port = free_ports(1)[0]
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self._user = ordinary_user()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://penstock@127.0.0.1:{self._port}/postgres"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_TIMEOUT_SECONDS)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self) -> None:
        if self._user is not None:
            os.chown(self._directory, *self._user)
        data = str(self._directory / "data")
        initdb = [str(find_program("initdb")), "-D", data, "-U", "penstock", "-A", "trust", "--no-sync"]
        subprocess.run(initdb, check=True, capture_output=True, cwd="/", **self._as_user())
        settings = {"listen_addresses": "127.0.0.1", "port": self._port, "unix_socket_directories": "", "fsync": "off"}
        pairs = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._directory / "stderr").open("wb") as stderr:
            self._process = subprocess.Popen(
                [str(find_program("postgres")), "-D", data, *pairs],
                stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, cwd="/", **self._as_user(),
            )  # fmt: skip
        self._wait_until_ready()

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user[0], "group": self._user[1], "extra_groups": []}

    def _wait_until_ready(self) -> None:
        import psycopg

        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                words = (self._directory / "stderr").read_text(errors="replace")
                assert self._process.poll() is None, f"PostgreSQL ended:\n{words}"
                assert time.monotonic() < deadline, f"PostgreSQL was not ready in time:\n{words}"
                time.sleep(0.05)


def ordinary_user() -> tuple[int, int] | None:
    """For root: whom to run the server as; None for everyone else."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise LookupError(f"PostgreSQL does not run as root, and there is no user of {USERS} here")
