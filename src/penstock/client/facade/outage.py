"""An outage in the log: one line when the brokers cannot be reached, one when they can again.

librdkafka tells each attempt to connect that failed, twice: as an error and as lines of its own log. Who looks for what
is wrong needs one of them.

Rules:
- the first error of a connection is logged; those that follow are not, until the outage is over or REPEAT_SECONDS have
  passed, so that a long outage is still told of and a second one is not taken for the first;
- once all brokers were away, it is over when a message came or was delivered and no error was told for SETTLE_SECONDS.
  librdkafka does not tell that a connection is there again, and hands out for a while what it had fetched before. While
  only some are away the others deliver, so of those no end is told;
- the caller's own `on_error` hears of every error: it is a program and can choose;
- librdkafka's lines about connections are there when the logger "penstock.client.librdkafka" is set to DEBUG.

Errors come in whichever thread polls. Two of them at once may log two lines, which harms nobody.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from penstock.client.facade.client_error import ClientError
from penstock.errors import KafkaError

log = logging.getLogger("penstock.client")
librdkafka_log = logging.getLogger("penstock.client.librdkafka")

REPEAT_SECONDS = 60.0
SETTLE_SECONDS = 2.0

_CONNECTION_ERRORS = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT")
_CONNECTION_LINES = ("FAIL", "ERROR")
"""librdkafka's names of the log lines whose story the error callback tells too."""


class Outage:
    """Whether the brokers of one client can be reached, as far as it was told."""

    def __init__(
        self, bootstrap: str, on_error: Callable[[KafkaError], None] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bootstrap = bootstrap
        self._on_error = on_error
        self._clock = clock
        self._began = 0.0
        self._told: float | None = None
        self._heard = 0.0
        self.is_on = False
        """All brokers are away."""

    def hear(self, raw: Any) -> None:
        """librdkafka's error callback."""
        self.tell(ClientError(raw, f"Trouble with {self._bootstrap}"))

    def tell(self, error: ClientError) -> None:
        if self._on_error is not None:
            self._on_error(error)
        elif error.name not in _CONNECTION_ERRORS or self._is_news(error.name):
            log.warning("%s", error)

    def on_message(self) -> None:
        """One came or was delivered while the outage was on."""
        now = self._clock()
        if now - self._heard >= SETTLE_SECONDS:
            self.is_on, self._told = False, None
            log.warning("%s answers again, after %.0f s.", self._bootstrap, now - self._began)

    def _is_news(self, name: str) -> bool:
        now = self._heard = self._clock()
        if name == "_ALL_BROKERS_DOWN" and not self.is_on:
            self.is_on, self._began = True, now
        if self._told is not None and now - self._told < REPEAT_SECONDS:
            return False
        self._told = now
        return True


def _is_no_connection_line(record: logging.LogRecord) -> bool:
    """confluent-kafka logs with (name of the line, client, text) as arguments."""
    facility = record.args[0] if isinstance(record.args, tuple) and record.args else ""
    return facility not in _CONNECTION_LINES or librdkafka_log.isEnabledFor(logging.DEBUG)


librdkafka_log.addFilter(_is_no_connection_line)
