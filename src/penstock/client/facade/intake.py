"""What a consumer took since its last transaction: where to go back to, where to go on, and whether it is still whole.

Exactly once needs the position to be committed with the output, in one transaction. Until then the messages that were
handed out are the transaction's intake. When the group gives one of their partitions to another consumer, that consumer
reads them too: the intake is torn, and its transaction must not be committed.

It knows nothing of librdkafka and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.facade.progress import Positions
from penstock.types import TopicPartition


class Intake:
    """From the first message handed out to the commit, or back to the first."""

    def __init__(self) -> None:
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self.lost: list[TopicPartition] = []
        """Partitions of it that went to another consumer."""

    def hand(self, where: TopicPartition, offset: int) -> None:
        """The caller gets the message at this offset."""
        self._starts.setdefault(where, offset)
        self._ends[where] = offset + 1

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions went to another consumer."""
        self.lost += [where for where in partitions if where in self._starts]

    def clear(self) -> None:
        """It was committed, or the consumer went back."""
        self._starts, self._ends, self.lost = {}, {}, []

    @property
    def starts(self) -> Positions:
        """The offset of the first message of each partition."""
        return dict(self._starts)

    @property
    def ends(self) -> Positions:
        """The offset after the last one."""
        return dict(self._ends)
