"""Apache Kafka 4.3 as an oracle: one node and its Java tools, for tests and benchmarks.

    with KafkaNode(directory) as kafka:
        client(kafka.bootstrap)
    run_tool("org.apache.kafka.tools.DumpLogSegments", ["--files", "00000000000000000000.log"])

It needs Java 17 or newer and Maven. Where one is missing, or the jars cannot be fetched, `OracleUnavailableError` says
why, and tests skip with that reason. The jars are fetched once into $PENSTOCK_CACHE, or `.cache/oracle` in the
repository; a lock file keeps parallel test processes from fetching them twice.

A node is a KRaft broker and controller in one process, with one log directory and Kafka's defaults, except that
internal topics have one replica and that groups do not wait for their first members. By hand, until interrupted:

    python tests/oracle.py DIRECTORY [key=value ...]
"""

from __future__ import annotations

import base64
import fcntl
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import raw
from ports import free_ports

VERSION = "4.3.0"
LOG4J_VERSION = "2.24.3"
OLDEST_JAVA = 17
START_TIMEOUT_SECONDS = 90.0
STOP_TIMEOUT_SECONDS = 60.0
TOOL_TIMEOUT_SECONDS = 120.0
FETCH_TIMEOUT_SECONDS = 900.0


class OracleUnavailableError(Exception):
    """Why Apache Kafka cannot run on this machine."""


class KafkaNode:
    """One Apache Kafka node in a process of its own."""

    name = "kafka"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, heap: str = "512M") -> None:
        self.directory = directory
        self.log_dir = directory / "data"
        self.stderr_path = directory / "stderr"
        self.heap = heap
        self.port, self.controller_port = free_ports(2)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None, "Kafka is not running"
        return self._process.pid

    def start(self) -> None:
        """Start the node and return when it knows itself as a live broker."""
        assert self._process is None, "Kafka is running"
        java = java_command()
        self._format(java)
        heap = [f"-Xmx{self.heap}", f"-Xms{self.heap}", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
        with self.stderr_path.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*java, *heap, "kafka.Kafka", str(self._properties_path)],
                stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, cwd=self.directory, start_new_session=True,
            )  # fmt: skip
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """SIGTERM: a controlled shutdown."""
        process = self._take()
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def kill(self) -> None:
        process = self._take()
        process.kill()
        process.wait()

    def restart(self) -> None:
        if self._process is not None:
            self.stop()
        self.start()

    @property
    def _properties_path(self) -> Path:
        return self.directory / "server.properties"

    def _take(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "Kafka is not running"
        process, self._process = self._process, None
        return process

    def _format(self, java: list[str]) -> None:
        """Write the properties and, the first time, format the log directory."""
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self._default_settings() | self.settings
        self._properties_path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        if (self.log_dir / "meta.properties").exists():
            return
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        arguments = ["format", "--standalone", "-t", cluster_id, "-c", str(self._properties_path)]
        done = _run([*java, *QUICK_START, "kafka.tools.StorageTool", *arguments], TOOL_TIMEOUT_SECONDS)
        if done.returncode != 0:
            raise RuntimeError(f"Kafka's storage could not be formatted:\n{done.stdout}{done.stderr}")

    def _default_settings(self) -> dict[str, str]:
        controller = f"127.0.0.1:{self.controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": controller,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not _answers(self.bootstrap):
            if self._process.poll() is not None:
                raise RuntimeError(f"Kafka ended with status {self._process.returncode}:\n{self._stderr()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"Kafka was not ready in {START_TIMEOUT_SECONDS:.0f} s:\n{self._stderr()}")
            time.sleep(0.05)

    def _stderr(self) -> str:
        return self.stderr_path.read_text(errors="replace")


QUICK_START = ["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
"""For programs that live a second or two: the least work before main()."""


def run_tool(
    java_class: str, arguments: Sequence[str], stdin: str | None = None, timeout_seconds: float = TOOL_TIMEOUT_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's Java tools against any broker or any file; the caller looks at the status and the text."""
    command = [*java_command(), *QUICK_START, java_class, *arguments]
    return _run(command, timeout_seconds, stdin)


def why_unavailable() -> str | None:
    """The reason why the oracle cannot run here, or None."""
    try:
        java_command()
    except OracleUnavailableError as reason:
        return str(reason)
    return None


@functools.cache
def java_command() -> list[str]:
    """Java with Kafka's jars; fetches them when they are not there yet."""
    java = _find_java()
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _maybe_fetch_jars(directory)
    classpath = str(directory / f"kafka-{VERSION}" / "*")
    return [java, "-cp", classpath, f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}"]


def cache_directory() -> Path:
    configured = os.environ.get("PENSTOCK_CACHE")
    return Path(configured) if configured else Path(__file__).resolve().parents[1] / ".cache" / "oracle"


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if java is None:
        raise OracleUnavailableError(f"Apache Kafka needs Java {OLDEST_JAVA} or newer, and there is no java here")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < OLDEST_JAVA:
        raise OracleUnavailableError(
            f"Apache Kafka needs Java {OLDEST_JAVA} or newer, and {java} is not: {said.strip()}"
        )
    return java


def _maybe_fetch_jars(directory: Path) -> None:
    """Under the lock: fetch into a directory beside, and rename it when it is complete."""
    jars = directory / f"kafka-{VERSION}"
    (directory / "log4j2.properties").write_text("status=error\nrootLogger.level=error\n")
    if jars.exists():
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise OracleUnavailableError("Apache Kafka's jars come through Maven, and there is no mvn here")
    half = directory / f"kafka-{VERSION}.part"
    shutil.rmtree(half, ignore_errors=True)
    pom = directory / "pom.xml"
    pom.write_text(_pom())
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={half}"]
    done = _run(command, FETCH_TIMEOUT_SECONDS)
    if done.returncode != 0 or not (half / f"kafka_2.13-{VERSION}.jar").exists():
        last_lines = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise OracleUnavailableError(f"Maven could not fetch Apache Kafka {VERSION}: {last_lines}")
    half.rename(jars)


def _pom() -> str:
    wanted = [
        ("org.apache.kafka", "kafka_2.13", VERSION),
        ("org.apache.kafka", "kafka-tools", VERSION),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
        ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
    ]
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>\n"
        for group, name, version in wanted
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion>\n"
        "<groupId>penstock</groupId><artifactId>oracle</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def _run(command: Sequence[str], timeout_seconds: float, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run to the end with the text kept; a program that reads its input gets `stdin` or nothing."""
    return subprocess.run(command, input=stdin or "", capture_output=True, text=True, timeout=timeout_seconds)


def _answers(bootstrap: str) -> bool:
    """Whether the broker answers and is part of its own cluster; before that it would refuse to create topics."""
    try:
        with raw.Connection(bootstrap, timeout_seconds=5) as connection:
            connection.call("ApiVersions", 0)
            return len(connection.call("Metadata", 12, topics=[]).brokers) == 1
    except OSError:
        return False


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    settings = dict(setting.split("=", 1) for setting in sys.argv[2:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with KafkaNode(Path(sys.argv[1]).resolve(), settings) as node:
        print(node.bootstrap, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
