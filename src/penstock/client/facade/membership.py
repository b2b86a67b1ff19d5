"""Which partitions a consumer has, and where it begins in each.

In a group the coordinator shares partitions out: librdkafka calls us inside `poll` when some come or go. Without a
group the caller names them, once.

Rules:
- a partition of which the group remembers a position begins there; else `start` decides;
- "latest" and times are turned into offsets while the partition is being taken, so what is written after
  `wait_assigned` is read for certain;
- "earliest" is said while the partition is being taken too: left to itself, librdkafka finds that there is no position,
  takes that for an error and waits 100 ms. When we do not learn in time what the group remembers, it is left to itself;
- a partition that goes is forgotten: its position belongs to the next owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from penstock.client.facade.client_error import ClientError, error_of
from penstock.client.facade.consumer_settings import ConsumerSettings, Start
from penstock.client.facade.librdkafka import confluent_kafka, milliseconds
from penstock.types import TopicPartition

TIMEOUT_SECONDS = 10.0
HASTE_TIMEOUT_SECONDS = 1.0
"""For questions whose answer only saves time."""
EARLIEST_TIMESTAMP = -2
"""Kafka's mark in ListOffsets."""
NO_OFFSET = 0
"""Offsets below it are librdkafka's marks: none, beginning, end."""

RawPartitions = list[confluent_kafka.TopicPartition]


class Membership:
    """The partitions of one consumer, from subscribing to leaving."""

    def __init__(
        self,
        raw: confluent_kafka.Consumer,
        settings: ConsumerSettings,
        before_revoked: Callable[[list[TopicPartition]], None],
        forget: Callable[[list[TopicPartition]], None],
    ) -> None:
        self._raw = raw
        self._settings = settings
        self._before_revoked = before_revoked
        """Ends what is under way for partitions that we still own."""
        self._forget = forget
        """Drops what we know of partitions that we do not own any more."""
        self._ended: set[TopicPartition] = set()
        self._is_leaving = False

    def subscribe(self, topics: list[str]) -> None:
        """Join the group."""
        self._raw.subscribe(
            topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )  # fmt: skip

    def take(self, topics: list[str], numbers: Iterable[int] | str) -> None:
        """Read partitions without a group."""
        wanted = [where for topic in topics for where in self._named(topic, numbers)]
        self._raw.assign(self.located(wanted, self._settings["start"]))
        self._tell("on_assigned", wanted)

    def leave(self) -> None:
        """Give up everything while we are still a member: librdkafka may leave first and tell us too late to commit."""
        self._revoke(self.partitions)
        self._is_leaving = True

    @property
    def partitions(self) -> list[TopicPartition]:
        return plain(self._raw.assignment())

    def located(self, wanted: Iterable[TopicPartition], start: Start | int) -> RawPartitions:
        """The partitions with the offset that `start` means in each."""
        bare = [confluent_kafka.TopicPartition(*where) for where in wanted]
        if start == "earliest":
            return self._earliest(bare)
        try:
            return [self._located_one(each, start) for each in bare]
        except confluent_kafka.KafkaException as failure:
            raise error_of(failure, f"Where {start!s} is, is not known") from None

    # The ends of partitions, for stop_at_end.

    def on_end(self, where: TopicPartition) -> None:
        self._ended.add(where)

    def on_more(self, partitions: Iterable[TopicPartition]) -> None:
        """There is something to read in these: a message came, or they are read from elsewhere."""
        self._ended.difference_update(partitions)

    @property
    def is_at_end(self) -> bool:
        """Every partition that we have was read to its end; false while we have none."""
        mine = self.partitions
        return bool(mine) and self._ended.issuperset(mine)

    # What librdkafka calls. It takes or gives up the partitions itself when we do not.

    def _on_assign(self, raw: confluent_kafka.Consumer, partitions: RawPartitions) -> None:
        if self._is_leaving:
            return
        mine = plain(partitions)
        self._ended.difference_update(mine)
        begun = self._begun(partitions) if partitions else None
        if begun is not None:
            (raw.incremental_assign if self._is_cooperative else raw.assign)(begun)
        self._tell("on_assigned", mine)

    def _on_revoke(self, raw: confluent_kafka.Consumer, partitions: RawPartitions) -> None:
        if not self._is_leaving:
            self._revoke(plain(partitions))

    def _on_lost(self, raw: confluent_kafka.Consumer, partitions: RawPartitions) -> None:
        if self._is_leaving:
            return
        gone = plain(partitions)
        self._tell("on_lost" if "on_lost" in self._settings else "on_revoked", gone)
        self._drop(gone)

    def _revoke(self, gone: list[TopicPartition]) -> None:
        self._before_revoked(gone)
        self._tell("on_revoked", gone)
        self._drop(gone)

    def _drop(self, gone: list[TopicPartition]) -> None:
        self._ended.difference_update(gone)
        self._forget(gone)

    def _tell(self, listener: str, partitions: list[TopicPartition]) -> None:
        told: Any = self._settings.get(listener)
        if told is not None:
            told(partitions)

    def _begun(self, partitions: RawPartitions) -> RawPartitions | None:
        """Each where the group was, or else at `start`; None when librdkafka can find out by itself and should."""
        is_earliest = self._settings["start"] == "earliest"
        try:
            remembered = self._remembered(partitions, HASTE_TIMEOUT_SECONDS if is_earliest else TIMEOUT_SECONDS)
        except confluent_kafka.KafkaException as failure:
            if is_earliest:
                return None
            raise error_of(failure, "The positions of the group are not known") from None
        new = [each for each in remembered if each.offset < NO_OFFSET]
        known = [each for each in remembered if each.offset >= NO_OFFSET]
        return known + self.located(plain(new), self._settings["start"])

    def _remembered(self, partitions: RawPartitions, timeout: float) -> RawPartitions:
        remembered: RawPartitions = self._raw.committed(partitions, timeout=timeout)
        for each in remembered:
            if each.error is not None:
                raise confluent_kafka.KafkaException(each.error)
        return remembered

    def _earliest(self, bare: RawPartitions) -> RawPartitions:
        """Offsets where brokers tell them in time, else the mark, which makes librdkafka ask.

        It would do so one by one, after half a second when it does not know the leader yet; and what it finds first it
        fetches first: if that is empty, the others wait for half a second too.
        """
        asked = [confluent_kafka.TopicPartition(each.topic, each.partition, EARLIEST_TIMESTAMP) for each in bare]
        try:
            found = self._raw.offsets_for_times(asked, timeout=HASTE_TIMEOUT_SECONDS)
        except confluent_kafka.KafkaException:
            found = []
        known = {(each.topic, each.partition): each.offset for each in found if each.error is None}
        for each in bare:
            offset = known.get((each.topic, each.partition), NO_OFFSET - 1)
            each.offset = offset if offset >= NO_OFFSET else confluent_kafka.OFFSET_BEGINNING
        return bare

    def _located_one(self, where: confluent_kafka.TopicPartition, start: Start | int) -> confluent_kafka.TopicPartition:
        if start == "latest":
            where.offset = self._raw.get_watermark_offsets(where, timeout=TIMEOUT_SECONDS)[1]
        elif isinstance(start, datetime):
            where.offset = milliseconds(start)
            found = self._raw.offsets_for_times([where], timeout=TIMEOUT_SECONDS)[0]
            if found.error is not None:
                raise confluent_kafka.KafkaException(found.error)
            if found.offset < NO_OFFSET:  # nothing is that late yet
                return self._located_one(where, "latest")
            where.offset = found.offset
        else:
            where.offset = int(start)
        return where

    def _named(self, topic: str, numbers: Iterable[int] | str) -> list[TopicPartition]:
        if numbers != "all":
            return [TopicPartition(topic, int(number)) for number in numbers]
        try:
            found = self._raw.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
        except confluent_kafka.KafkaException as failure:
            raise error_of(failure, f"The partitions of {topic!r} are not known") from None
        if found.error is not None:
            raise ClientError(found.error, f"The partitions of {topic!r} are not known")
        return [TopicPartition(topic, number) for number in sorted(found.partitions)]

    @property
    def _is_cooperative(self) -> bool:
        """Partitions come and go one by one; librdkafka mixes no strategies of the two kinds."""
        options = self._settings.get("options") or {}
        strategy = str(options.get("partition.assignment.strategy", ""))
        return "cooperative" in strategy or options.get("group.protocol") == "consumer"


def plain(partitions: Iterable[confluent_kafka.TopicPartition]) -> list[TopicPartition]:
    return [TopicPartition(each.topic, each.partition) for each in partitions]
