"""Fetch sessions (KIP-227): a client names its partitions once, and later only what changed on either side.

A session has an id and an epoch that rises with each request; a request with the wrong epoch is refused, so that
neither side can miss a change. Full requests (epoch 0) open one, epoch -1 closes it or does without.
The cache holds a bounded number; a new session may push out one that was idle for `EVICTION_MS`, or else the smallest
of those that are that old, when it is smaller than the new one. After a restart every client gets
FETCH_SESSION_ID_NOT_FOUND and starts anew.

Partitions are answered in turn: one that gave data moves to the end, so that a small `max_bytes` starves nobody.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from penstock.errors import ErrorCode, KafkaError

EVICTION_MS = 120_000
"""Kafka's `min.incremental.fetch.session.eviction.ms`."""

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
NO_SESSION = 0
UNSENT = -2
"""No answer was sent yet, so whatever is found differs from it."""


class FetchPartition:
    """What a client wants of one partition, and what it was told last."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "max_bytes",
        "name",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic_id",
    )

    def __init__(self, name: str, topic_id: bytes, partition: int) -> None:
        self.name = name
        """Empty when the request names topics by id; the handler looks it up each time."""
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.sent_high_watermark = UNSENT
        self.sent_log_start_offset = UNSENT

    @property
    def key(self) -> tuple[str | bytes, int]:
        return (self.name or self.topic_id, self.partition)


class FetchSession:
    """One client's remembered partitions."""

    __slots__ = ("created_ms", "epoch", "partitions", "session_id", "used_ms", "uses_topic_ids")

    def __init__(self, session_id: int, now_ms: int, uses_topic_ids: bool) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.uses_topic_ids = uses_topic_ids
        self.partitions: dict[tuple[str | bytes, int], FetchPartition] = {}

    def update(self, wanted: Iterable[FetchPartition], forgotten: Iterable[tuple[str | bytes, int]]) -> None:
        for partition in wanted:
            known = self.partitions.get(partition.key)
            if known is not None:
                partition.sent_high_watermark = known.sent_high_watermark
                partition.sent_log_start_offset = known.sent_log_start_offset
            self.partitions[partition.key] = partition
        for key in forgotten:
            self.partitions.pop(key, None)

    def to_end(self, partition: FetchPartition) -> None:
        """It gave data: the others come first next time."""
        current = self.partitions.pop(partition.key, None)
        if current is not None:  # a later request may have changed it, or forgotten it
            self.partitions[partition.key] = current


class FetchSessions:
    """The sessions of one broker, at most `capacity`."""

    def __init__(self, capacity: int, chance: random.Random) -> None:
        self._capacity = capacity
        self._chance = chance
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, partition_count: int, now_ms: int, uses_topic_ids: bool) -> FetchSession | None:
        """A new session, or None when there is no room: the client goes on with full requests."""
        if len(self._sessions) >= self._capacity and not self._evict(partition_count, now_ms):
            return None
        session_id = self._chance.randrange(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = self._chance.randrange(1, 2**31 - 1)
        session = self._sessions[session_id] = FetchSession(session_id, now_ms, uses_topic_ids)
        return session

    def resume(self, session_id: int, epoch: int, now_ms: int, uses_topic_ids: bool) -> FetchSession:
        """The session that an incremental request goes on with; raises the error for the whole request."""
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = epoch + 1 if epoch < 2**31 - 1 else 1
        session.used_ms = now_ms
        del self._sessions[session_id]  # the least recently used stays first
        self._sessions[session_id] = session
        return session

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def _evict(self, partition_count: int, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            self.close(oldest.session_id)
            return True
        had_their_time = [each for each in self._sessions.values() if now_ms - each.created_ms > EVICTION_MS]
        smallest = min(had_their_time, key=lambda each: len(each.partitions), default=None)
        if smallest is None or len(smallest.partitions) >= partition_count:
            return False
        self.close(smallest.session_id)
        return True
