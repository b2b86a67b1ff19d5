"""The markers that end a transaction: one control batch in each of its partitions.

A marker that cannot be written now (the disk is full, the partition has no leader) is tried again until it is: the
outcome was decided, and nobody else carries it out. A partition whose topic is gone needs none. One that refuses the
marker because it knows a newer epoch of the producer has no open transaction of this one.

A marker in `__consumer_offsets` also tells the group coordinator, once it is committed, that offsets of the transaction
count from now on, or never will.

After a crash the prepared transaction is in `__transaction_state`, and all of its markers are written again: a second
one finds nothing to end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from penstock.broker.groups.coordinator import OFFSETS_TOPIC, GroupCoordinator
from penstock.broker.replicas.group_commit import GroupCommit
from penstock.broker.replicas.manager import ReplicaManager
from penstock.broker.replicas.partition import Partition
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition

logger = logging.getLogger(__name__)

RETRY_S = 0.1
"""How long to wait before markers that could not be written are tried again."""
TELL_PERIOD_S = 10.0
"""How often it is said that markers are tried again."""

_NOT_OURS = frozenset((ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED))


class Marker(NamedTuple):
    """How a producer's transaction ended, said by the coordinator of this epoch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


Codes = Mapping[TopicPartition, ErrorCode]


class MarkerWriter:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        replicas: ReplicaManager,
        group_commit: GroupCommit,
        groups: GroupCoordinator,
        has_topic: Callable[[str], bool],
    ) -> None:
        self._loop = loop
        self._replicas = replicas
        self._group_commit = group_commit
        self._groups = groups
        self._has_topic = has_topic
        self._retries: set[asyncio.TimerHandle] = set()
        self._told_at = float("-inf")

    def stop(self) -> None:
        for retry in self._retries:
            retry.cancel()

    def write(self, partitions: Collection[TopicPartition], marker: Marker, on_done: Callable[[Codes], None]) -> None:
        """Write the marker once to each; `on_done` gets a code for each when all are committed or refused."""
        codes: dict[TopicPartition, ErrorCode] = {}
        appended: dict[TopicPartition, Partition] = {}
        for each in partitions:
            try:
                partition = self._replicas.partition_or_raise(*each)
                partition.append_marker(*marker)
            except KafkaError as error:
                codes[each] = error.code
            else:
                appended[each] = partition
        if appended and self._group_commit.is_needed:
            self._group_commit.wait(
                appended.values(), lambda failed: self._finish(codes, appended, marker, failed, on_done)
            )
        else:
            self._finish(codes, appended, marker, frozenset(), on_done)

    def write_at_once(self, remaining: set[TopicPartition], marker: Marker) -> None:
        """Where an append is a commit: take out of `remaining` those whose marker is written, for most will be.
        What stays is for `write_until_done`, which finds out why."""
        for each in tuple(remaining):
            try:
                self._replicas.partition_or_raise(*each).append_marker(*marker)
            except KafkaError:
                continue
            remaining.discard(each)
            if each.topic == OFFSETS_TOPIC:
                self._groups.on_marker(each.partition, marker.producer_id, marker.committed)

    def _finish(
        self,
        codes: dict[TopicPartition, ErrorCode],
        appended: Mapping[TopicPartition, Partition],
        marker: Marker,
        failed: frozenset[Partition],
        on_done: Callable[[Codes], None],
    ) -> None:
        for each, partition in appended.items():
            if partition in failed:
                codes[each] = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            codes[each] = ErrorCode.NONE
            if each.topic == OFFSETS_TOPIC:
                self._groups.on_marker(each.partition, marker.producer_id, marker.committed)
        on_done(codes)

    def write_until_done(
        self,
        remaining: set[TopicPartition],
        marker: Marker,
        is_wanted: Callable[[], bool],
        on_done: Callable[[], None],
    ) -> None:
        """Take partitions out of `remaining` as their markers are committed, and call back when none is left.

        It stops without a word when it is not wanted any more, or when another coordinator has taken over.
        """
        if not is_wanted():
            return

        def on_written(codes: Codes) -> None:
            if ErrorCode.TRANSACTION_COORDINATOR_FENCED in codes.values():
                logger.error("markers of producer %d are written by another coordinator", marker.producer_id)
                return
            remaining.difference_update(each for each, code in codes.items() if self._is_settled(each, code, marker))
            if not remaining:
                on_done()
            else:
                self._tell_of_retry(remaining, codes, marker)
                self._retry_later(lambda: self.write_until_done(remaining, marker, is_wanted, on_done))

        self.write(tuple(remaining), marker, on_written)

    def _is_settled(self, where: TopicPartition, code: ErrorCode, marker: Marker) -> bool:
        if code in _NOT_OURS:
            logger.error("%s has a newer epoch of producer %d than its marker", where, marker.producer_id)
        is_gone = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not self._has_topic(where.topic)
        return code is ErrorCode.NONE or code in _NOT_OURS or is_gone

    def _tell_of_retry(self, remaining: set[TopicPartition], codes: Codes, marker: Marker) -> None:
        """One of them, now and then: a full disk stops the markers of every transaction."""
        now = self._loop.time()
        if now - self._told_at >= TELL_PERIOD_S:
            self._told_at = now
            where = min(remaining)
            words = "%d markers of producer %d are not written yet and are tried again; %s: %s"
            logger.warning(words, len(remaining), marker.producer_id, where, codes[where].message)

    def _retry_later(self, retry: Callable[[], None]) -> None:
        def on_timer() -> None:
            self._retries.discard(timer)
            retry()

        timer = self._loop.call_later(RETRY_S, on_timer)
        self._retries.add(timer)
