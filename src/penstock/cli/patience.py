"""What a person is told while a command waits for a broker that it has lost.

A leader that moves costs a part of a second, and nobody needs to hear of that. When it takes longer the command says
what is wrong and how long it will go on trying, repeats that now and then, and says when the broker is back.
All of it goes to standard error.
"""

from __future__ import annotations

import math

from penstock.cli.output import note
from penstock.errors import KafkaError

QUIET_SECONDS = 0.5
"""Shorter troubles are not worth a word."""

REPEAT_SECONDS = 30.0


class Patience:
    """A `client.cluster.Watcher` for the command line."""

    def __init__(self) -> None:
        self._said_after: float | None = None
        """How long the trouble had lasted when it was said last; None while there is none."""

    def on_retry(self, error: KafkaError, waited_seconds: float, left_seconds: float) -> None:
        if waited_seconds < QUIET_SECONDS:
            return
        if self._said_after is not None and 0 <= waited_seconds - self._said_after < REPEAT_SECONDS:
            return
        self._said_after = waited_seconds
        end = "until Ctrl-C" if math.isinf(left_seconds) else f"for {left_seconds:.0f} s"
        note(f"penstock: {error} Trying again {end}.")

    def on_success(self) -> None:
        if self._said_after is not None:
            note("penstock: The broker answers again.")
        self._said_after = None
