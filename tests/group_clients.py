"""Consumers of a group as processes, all with one interface, whichever client they are: the Python ones and kcat.

    with GroupClient("aiokafka", bootstrap, group, ["topic"]) as consumer:
        wait_for(lambda: consumer.owned == {("topic", 0)}, consumer)

A process can be stopped (it closes its consumer) and killed. `owned` is which partitions it has now, `owned_since` all
that it had one after the other, `read` everything that it read. kcat tells its assignments on standard error, and
commits only by itself.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from group_worker import COMMIT_INTERVAL_MS, HEARTBEAT_MS

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
PYTHON_CLIENTS = ("confluent", "confluent-consumer", "kafka-python", "aiokafka")
WORKER = Path(__file__).parent / "group_worker.py"
DEADLINE_SECONDS = 60.0
KCAT_REBALANCED = re.compile(r"rebalanced.*?\b(assigned|revoked|incremental assignment|incremental revoke)")
KCAT_PARTITION = re.compile(r"(\S+) \[(\d+)\]")


Owned = set[tuple[str, int]]


class GroupClient:
    """One consumer of one client."""

    def __init__(
        self,
        client: str,
        bootstrap: str,
        group: str,
        topics: Sequence[str] = (),
        *,
        pattern: str | None = None,
        instance: str | None = None,
        reset: str = "earliest",
        commit: str = "auto",
        strategy: str | None = None,
        session_ms: int = 6000,
    ) -> None:
        self.client = client
        self.owned: Owned = set()
        self.owned_since: list[Owned] = []
        self.read: list[tuple[str, int, int]] = []
        self.failure = ""
        settings = {
            "bootstrap": bootstrap, "group": group, "topics": list(topics), "pattern": pattern,
            "instance": instance, "reset": reset, "commit": commit, "strategy": strategy,
            "session_ms": session_ms,
        }  # fmt: skip
        is_kcat = client == "kcat"
        command = kcat_command(settings) if is_kcat else [sys.executable, str(WORKER), client, json.dumps(settings)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._readers = [
            threading.Thread(target=self._follow, args=(self._process.stdout, self._on_line)),
            threading.Thread(target=self._follow, args=(self._process.stderr, self._on_error_line)),
        ]
        self._errors: list[str] = []
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def partitions(self) -> set[int]:
        return {partition for _, partition in self.owned}

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """It closes its consumer, which leaves the group unless it is a static member."""
        self._process.send_signal(signal.SIGINT if self.client == "kcat" else signal.SIGTERM)
        self._end()

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def wait_failed(self) -> None:
        """Until it says why it cannot go on."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self.failure:
            assert time.monotonic() < deadline, f"it did not fail in time: {self.said()}"
            time.sleep(0.02)

    def _end(self) -> None:
        self._process.wait(DEADLINE_SECONDS)
        for reader in self._readers:
            reader.join()
        self.owned = set()

    def said(self) -> str:
        return f"{self.client}: owned {self.owned}, read {len(self.read)}, {self.failure}\n" + "".join(
            self._errors[-10:]
        )

    def _follow(self, stream: IO[str], on_line: Callable[[str], None]) -> None:
        with stream:
            for line in stream:
                on_line(line)

    def _on_line(self, line: str) -> None:
        event: dict[str, Any] = json.loads(line)
        if "owned" in event:
            self._on_owned({(topic, partition) for topic, partition in event["owned"]})
        elif "read" in event:
            topic, partition, offset = event["read"]
            self.read.append((topic, partition, offset))
        elif "failed" in event:
            self.failure = event["failed"]
        else:  # kcat's record
            self.read.append((event["topic"], event["partition"], event["offset"]))

    def _on_error_line(self, line: str) -> None:
        self._errors.append(line)
        found = KCAT_REBALANCED.search(line) if self.client == "kcat" else None
        if found is None:
            self.failure = self.failure or (line.strip() if "ERROR" in line else "")
            return
        parts = {(topic, int(number)) for topic, number in KCAT_PARTITION.findall(line)}
        self._on_owned(self.owned | parts if "assign" in found[1] else self.owned - parts)

    def _on_owned(self, owned: Owned) -> None:
        self.owned = owned
        self.owned_since.append(owned)


def kcat_command(settings: dict[str, Any]) -> list[str]:
    assert KCAT is not None, "kcat is not installed"
    options = {
        "auto.offset.reset": {"none": "error"}.get(settings["reset"], settings["reset"]),
        "session.timeout.ms": settings["session_ms"],
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
        "topic.metadata.refresh.interval.ms": 500,
        "partition.assignment.strategy": settings["strategy"] or "range",
    }
    if settings["instance"]:
        options["group.instance.id"] = settings["instance"]
    flags = [word for name, value in options.items() for word in ("-X", f"{name}={value}")]
    pattern = settings["pattern"]
    topics = [f"^({pattern})$"] if pattern else settings["topics"]
    return [KCAT, "-b", settings["bootstrap"], "-G", settings["group"], "-J", "-u", *flags, *topics]


def wait_for(is_so: Callable[[], bool], *consumers: GroupClient) -> None:
    """Until it is so; a consumer that ends meanwhile is a failure."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        said = "\n".join(each.said() for each in consumers)
        assert all(each.is_running for each in consumers), f"one has ended: {said}"
        assert time.monotonic() < deadline, f"it did not happen in time: {said}"
        time.sleep(0.02)
