"""Kafka's own Java consumer as a process: VerifiableConsumer, which tells what happens to it as JSON, line by line.

    with JavaConsumer(bootstrap, topic, group, tmp_path, protocol="consumer") as consumer:
        consumer.wait_until(lambda: consumer.owned == {0, 1})

It commits synchronously after each poll, or by itself with `--enable-autocommit`. `stop` closes the consumer, `kill`
does not give it the time.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import oracle

VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
DEADLINE_SECONDS = 120.0
CLASSIC_OPTIONS = ("--session-timeout", "6000")
CLASSIC_CONFIG = {"heartbeat.interval.ms": "300"}


class JavaConsumer:
    """One consumer. `owned` is which partitions it has now, `offsets` what it has read of each, `committed` how far."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, directory: Path, *options: str, protocol: str = "classic"
    ) -> None:
        self.owned: set[int] = set()
        self.offsets: dict[int, list[int]] = {}
        self.committed: dict[int, int] = {}
        self.events: list[dict[str, Any]] = []
        self._stderr = (directory / f"consumer-{time.monotonic_ns()}.stderr").open("w+")
        # A topic's new partitions and its own first metadata are looked at every 5 minutes otherwise.
        config = {"metadata.max.age.ms": "1000"} | (CLASSIC_CONFIG if protocol == "classic" else {})
        properties = directory / f"consumer-{time.monotonic_ns()}.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
        arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"]
        arguments += ["--group-protocol", protocol, "--command-config", str(properties)]
        arguments += [*(CLASSIC_OPTIONS if protocol == "classic" else ()), *options]
        command = [*oracle.java_command(), *oracle.QUICK_START, VERIFIABLE_CONSUMER, *arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._stderr, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._stderr.close()

    @property
    def values_read(self) -> int:
        return sum(len(each) for each in self.offsets.values())

    @property
    def names(self) -> list[str]:
        """Of what happened, in order."""
        return [event["name"] for event in self.events]

    def stop(self) -> None:
        """SIGTERM: it closes its consumer, which leaves the group unless it is a static member."""
        self._process.terminate()
        self._end()

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def wait(self) -> int:
        """Its exit status, when it has ended by itself."""
        status = self._process.wait(DEADLINE_SECONDS)
        self._reader.join()
        return status

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not is_so():
            assert self._process.poll() is None, f"it has ended: {self._said()}"
            assert time.monotonic() < deadline, f"it did not happen in time: {self._said()}"
            time.sleep(0.05)

    def _end(self) -> None:
        self._process.wait(DEADLINE_SECONDS)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _said(self) -> str:
        self._stderr.seek(0)
        return "\n".join([f"owned {self.owned}", *map(str, self.events[-10:]), self._stderr.read()[-2000:]])

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._on_event(json.loads(line))

    def _on_event(self, event: dict[str, Any]) -> None:
        name = event["name"]
        if name == "partitions_assigned":
            self.owned = self.owned | {each["partition"] for each in event["partitions"]}
        elif name == "partitions_revoked":
            self.owned = self.owned - {each["partition"] for each in event["partitions"]}
        elif name == "record_data":
            self.offsets.setdefault(event["partition"], []).append(event["offset"])
        elif name == "offsets_committed" and event["success"]:
            self.committed |= {each["partition"]: each["offset"] for each in event["offsets"]}
        self.events.append(event)
