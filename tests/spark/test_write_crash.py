"""A driver that is killed with -9, at the worst point and at random, and started again: the sink is exact."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from brokers import SOURCE as SOURCE_DIRECTORY
from members import wait_until
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster as Connections
from penstock.testing import Cluster
from spark_copier import ROWS_PER_BATCH

COPIER = Path(__file__).resolve().parents[1] / "spark_copier.py"
ROWS = 5 * ROWS_PER_BATCH
FINISHED_SECONDS = 180

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Copy:
    """A copy of a topic by drivers that come and go."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.bootstrap = cluster.bootstrap
        self.checkpoint = directory / "checkpoint"
        self._log = directory / "log"
        with Connections(self.bootstrap) as connections:
            for topic in ("source", "sink"):
                Admin(connections).create_topic(topic, partitions=2)
        partitions = pa.array([number % 2 for number in range(ROWS)], pa.int32())  # as many in each
        rows = pa.table({"value": [str(number) for number in range(ROWS)], "partition": partitions})
        penstock.write("source", rows, bootstrap=self.bootstrap)

    @contextmanager
    def driver(self, *death: str) -> Iterator[subprocess.Popen[bytes]]:
        """One driver; nothing of it is left at the end."""
        arguments = [self.bootstrap, "source", "sink", str(self.checkpoint), *death]
        path = os.pathsep.join(filter(None, [str(SOURCE_DIRECTORY), os.environ.get("PYTHONPATH")]))
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(COPIER), *arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5_000:]

    def is_committed_by_spark(self, batch: int) -> bool:
        return (self.checkpoint / "commits" / str(batch)).exists()

    def copied(self) -> Counter[str]:
        """What a reader of committed data finds, and how often."""
        found = penstock.read("sink", bootstrap=self.bootstrap).read_all().column("value").to_pylist()
        return Counter(bytes(value).decode() for value in found)


def test_the_sink_is_exact_after_drivers_were_killed_at_the_worst_point_and_at_random(tmp_path: Path) -> None:
    """The worst point: all transactions of a batch have ended, and only the tasks' markers know."""
    chance = random.Random()
    with Cluster() as cluster:
        copy = Copy(cluster, tmp_path)
        with copy.driver("before-summary", "1") as process:
            assert process.wait(FINISHED_SECONDS) == -signal.SIGKILL, copy.log()
        assert sum(copy.copied().values()) == 2 * ROWS_PER_BATCH
        assert not copy.is_committed_by_spark(1)

        with copy.driver() as process:
            wait_until(lambda: copy.is_committed_by_spark(1) or process.poll() is not None, FINISHED_SECONDS)
            time.sleep(chance.uniform(0, 1))  # anywhere in the batches after that
            os.killpg(process.pid, signal.SIGKILL)
        with copy.driver() as process:
            assert process.wait(FINISHED_SECONDS) == 0, copy.log()
        assert copy.copied() == Counter(map(str, range(ROWS)))
