"""Records that a query should have read and cannot: deleted by retention, or with their topic."""

from __future__ import annotations

import logging

from penstock.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class LostDataError(KafkaError):
    """What is gone, and how to go on without it."""

    def __init__(self, what: str) -> None:
        words = f"{what} Set the option failOnDataLoss to false to go on with what is there."
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, words)


def report_loss(what: str, *, is_fatal: bool) -> None:
    """LostDataError, or a warning where the user has said that reading shall go on."""
    if is_fatal:
        raise LostDataError(what)
    log.warning("%s Reading goes on, as failOnDataLoss is false.", what)
