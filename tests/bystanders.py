"""A client that behaves while others do not: it must be served correctly all the while.

    with Bystander(broker.bootstrap) as bystander:
        abuse(broker)

Leaving the block fails when one of its messages was refused, lost or changed.
"""

from __future__ import annotations

import threading
import time
import uuid
from types import TracebackType
from typing import Self

import raw

PAUSE_SECONDS = 0.005
"""Between rounds: it is there to notice wrong answers, not to load the machine."""


class Bystander:
    """Produces a batch, reads it back, and compares, over and over, in a thread and on a connection of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.topic = f"bystander-{uuid.uuid4().hex}"
        self.rounds = 0
        self.failure: Exception | None = None
        self.slowest_seconds = 0.0
        self._connection = raw.Connection(bootstrap)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bystander", daemon=True)

    def __enter__(self) -> Self:
        raw.create_topic(self._connection, self.topic)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if error is None:
            try:
                self.check()
            finally:
                self._connection.close()

    def check(self) -> None:
        """It was served, and is still."""
        if self.failure is not None:
            raise AssertionError(f"the bystander was not served after {self.rounds} rounds") from self.failure
        assert self.rounds > 0, "the bystander had no turn"

    def wait_for_rounds(self, count: int) -> None:
        """Until it was served so many times more."""
        target = self.rounds + count
        while self.rounds < target and self.failure is None:
            time.sleep(PAUSE_SECONDS)
        self.check()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                self._round()
                self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
                self.rounds += 1
                self._stopping.wait(PAUSE_SECONDS)
        except Exception as failure:
            self.failure = failure

    def _round(self) -> None:
        value = b"round %d" % self.rounds
        produced = raw.produce(self._connection, self.topic, raw.batch([value]))
        assert produced.error_code == 0, produced
        assert produced.base_offset == self.rounds, produced
        fetched = raw.fetch(self._connection, self.topic, produced.base_offset)
        assert fetched.error_code == 0, fetched
        assert raw.values(fetched.records) == [value], fetched
