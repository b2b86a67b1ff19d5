"""How far a consumer is, by partition: what was handed to the caller, what is done, what may be committed.

A position is the offset of the next message, as Kafka commits it. A message goes through three steps: `hand` when the
caller gets it, `finish` when the caller came back for more, which is how we know that the work on it is done, and
`take_unsaved` when it is committed or marked for it. Before it is finished a crash must make it come again (at least
once), so only what is done is ever committed without being asked.

It knows nothing of librdkafka and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.types import TopicPartition

Positions = Mapping[TopicPartition, int]


class Progress:
    """The positions of the partitions that a consumer has."""

    def __init__(self) -> None:
        self._handed: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, int] = {}
        self._unsaved: dict[TopicPartition, int] = {}
        """The part of what is done that nobody has committed yet."""

    def hand(self, where: TopicPartition, offset: int) -> None:
        """The caller gets the message at this offset."""
        self._handed[where] = offset + 1

    def finish(self) -> None:
        """What was handed is done."""
        moved, self._handed = self._handed, {}
        self._done.update(moved)
        self._unsaved.update(moved)

    def take_unsaved(self) -> Positions:
        """What is done and was not taken before; whoever takes it commits it."""
        unsaved, self._unsaved = self._unsaved, {}
        return unsaved

    def abandon(self) -> None:
        """What was handed is not done: the caller failed on it."""
        self._handed = {}

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions went to another consumer, or are read from elsewhere from now on."""
        for where in partitions:
            self._handed.pop(where, None)
            self._done.pop(where, None)
            self._unsaved.pop(where, None)

    @property
    def done(self) -> Positions:
        return dict(self._done)

    @property
    def handed(self) -> Positions:
        """Everything that the caller ever got, done or not."""
        return {**self._done, **self._handed}
