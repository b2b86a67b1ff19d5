"""A real Spark cluster on loopback: a master and workers, each a process of its own, as `sbin/start-*.sh` start them.

    with SparkStandalone(tmp_path, workers=2) as spark:
        ... --master spark.url

The workers know nothing of Penstock: their environment has no PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.spark.java import prepare_environment
from ports import free_ports

START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 30.0
HOST = "127.0.0.1"


class SparkStandalone:
    """From `with` to its end; every process is ended by its id, executors with their workers."""

    def __init__(self, directory: Path, workers: int) -> None:
        self._directory = directory
        self._worker_count = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        port, self._web_port = free_ports(2)
        self._address = ["--host", HOST, "--port", str(port), "--webui-port", str(self._web_port)]
        self.url = f"spark://{HOST}:{port}"

    def __enter__(self) -> Self:
        try:
            self._start("master.Master", *self._address)
            self._await(lambda state: True)
            for number in range(self._worker_count):
                place = str(self._directory / f"worker-{number}")
                limits = ["--cores", "1", "--memory", "1g", "--work-dir", place]
                self._start("worker.Worker", *limits, "--host", HOST, "--webui-port", "0", self.url)
            self._await(lambda state: state["aliveworkers"] == self._worker_count)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def executors(self) -> set[str]:
        """The workers that have run an executor, by their directories."""
        return {path.parts[-4] for path in self._directory.glob("worker-*/app-*/*/stderr")}

    def _start(self, name: str, *arguments: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        environment |= {"SPARK_LOCAL_IP": HOST, "SPARK_NO_DAEMONIZE": "1", "SPARK_HOME": str(home)}
        environment |= {"SPARK_DAEMON_MEMORY": "256m"}
        prepare_environment(environment)
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        with (self._directory / f"{name}-{len(self._processes)}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
            )

    def _await(self, is_ready) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://{HOST}:{self._web_port}/json/", timeout=5) as answer:
                    if is_ready(json.load(answer)):
                        return
            except OSError:
                pass
            assert all(process.poll() is None for process in self._processes), f"see the logs in {self._directory}"
            assert time.monotonic() < deadline, f"Spark did not start: see the logs in {self._directory}"
            time.sleep(0.2)
