"""A Penstock broker as a process of its own, for tests and benchmarks.

    with PenstockProcess(directory, settings={"log.segment.bytes": "65536"}) as broker:
        client(broker.bootstrap)

It listens on a free loopback port and keeps its data in `directory/data` and its standard error in `directory/stderr`.
`stop()` is SIGTERM and insists on exit status 0, `kill()` is SIGKILL, `restart()` starts it again on the same port and
data. A process that still lives at the end of the `with` is stopped when the body went well and killed when it did not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from ports import free_ports

SOURCE = Path(__file__).resolve().parents[1] / "src"
START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 120.0


class Broker(Protocol):
    """What a scenario may know of the broker that it runs against."""

    @property
    def name(self) -> str: ...
    @property
    def bootstrap(self) -> str: ...
    @property
    def log_dir(self) -> Path: ...
    @property
    def pid(self) -> int: ...


class PenstockProcess:
    """`penstock serve` under the eyes of a test."""

    name = "penstock"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, port: int | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log_dir = directory / "data"
        self.stderr_path = directory / "stderr"
        self.settings = dict(settings or {})
        self.port = port if port is not None else free_ports(1)[0]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        if error is None and self._process.poll() is None:
            self.stop()
        else:
            self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def start(self) -> None:
        """Start the process and return when it says that clients can connect."""
        assert self._process is None, "the broker is running"
        self.stderr_path.write_bytes(b"")
        with self.stderr_path.open("ab") as stderr:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, env=self.environment()
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def command(self) -> list[str]:
        sets = [part for key, value in self.settings.items() for part in ("--set", f"{key}={value}")]
        serve = [sys.executable, "-m", "penstock.cli.main", "serve"]
        return [*serve, "--listen", self.bootstrap, "--data", str(self.log_dir), *sets]

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
        return {**os.environ, "PYTHONPATH": path}

    def stop(self) -> None:
        """SIGTERM; the broker must shut down cleanly."""
        process = self._take()
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the broker did not stop on SIGTERM:\n{self.stderr()}") from None
        assert status == 0, f"the broker ended with status {status}:\n{self.stderr()}"

    def kill(self) -> None:
        """SIGKILL: the crash of a process."""
        process = self._take()
        process.kill()
        process.wait()

    def restart(self) -> None:
        """Stop it if it runs, and start it again on the same port and data."""
        if self._process is not None:
            self.stop()
        self.start()

    def stderr(self) -> str:
        return self.stderr_path.read_text(errors="replace")

    def _take(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the broker is not running"
        process, self._process = self._process, None
        return process

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while "ready" not in self.stderr().splitlines():
            if self._process.poll() is not None:
                raise RuntimeError(f"penstock serve ended with status {self._process.returncode}:\n{self.stderr()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"penstock serve was not ready in {START_TIMEOUT_SECONDS:.0f} s:\n{self.stderr()}")
            time.sleep(0.01)
