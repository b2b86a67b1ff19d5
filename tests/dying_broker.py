"""`penstock serve` that kills itself with SIGKILL in the middle of the end of a transaction.

PENSTOCK_DIES_BEFORE=marker:2     before the third marker of its life is written
PENSTOCK_DIES_BEFORE=complete     when all are written, before the record that says so
PENSTOCK_DIES_BEFORE=prepare      before the record that decides the outcome
"""

from __future__ import annotations

import os
import signal
from typing import Any

from penstock.broker.replicas.partition import Partition
from penstock.broker.transactions import states
from penstock.broker.transactions.metadata import COMPLETE_ABORT, COMPLETE_COMMIT, ENDING, TransactionState
from penstock.broker.transactions.records import TransactionRecord
from penstock.cli.main import main


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_marker(count: int) -> None:
    append_marker, left = Partition.append_marker, [count]

    def append(self: Partition, *marker: Any) -> int:
        if not left[0]:
            die()
        left[0] -= 1
        return append_marker(self, *marker)

    Partition.append_marker = append  # type: ignore[assignment,method-assign]


def die_before_record(dying: frozenset[TransactionState]) -> None:
    """Its bytes are made, whatever way it takes to the log."""
    encode = states.encode

    def checked(record: TransactionRecord) -> tuple[bytes, bytes | None]:
        if record.metadata is not None and record.metadata.state in dying:
            die()
        return encode(record)

    states.encode = checked


if __name__ == "__main__":
    when, _, count = os.environ["PENSTOCK_DIES_BEFORE"].partition(":")
    if when == "marker":
        die_before_marker(int(count))
    elif when == "prepare":
        die_before_record(ENDING)
    else:
        die_before_record(frozenset((COMPLETE_COMMIT, COMPLETE_ABORT)))
    main()
