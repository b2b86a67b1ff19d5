"""The partitions of this broker: opened, created, changed and deleted as the metadata image says.

`by_name` and `by_id` are what the hot path reads: topic -> partition index -> Partition. The image is the truth; a log
directory whose topic the image does not know is put aside and reported, never deleted (B24). A disk that fails makes
partitions unusable; it does not stop the broker, nor the controller, whose listener this is.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor

from penstock.broker.config import NO_COMPACTION, BrokerConfig
from penstock.broker.purgatory import Purgatory
from penstock.broker.replicas.partition import Partition
from penstock.errors import ErrorCode, KafkaError, StorageError
from penstock.log.config import LogConfig
from penstock.log.log import Log
from penstock.log.manager import LogManager
from penstock.metadata.image import INTERNAL_TOPICS, Delta, Image, PartitionImage, TopicImage
from penstock.metadata.records import DEFAULT_BROKER
from penstock.types import TopicPartition

logger = logging.getLogger(__name__)


class ReplicaManager:
    """What is open here, and the settings in force."""

    def __init__(
        self,
        broker_id: int,
        static_config: BrokerConfig,
        logs: LogManager,
        purgatory: Purgatory,
        executor: Executor,
        chance: random.Random,
        needs_sync: bool,
    ) -> None:
        self._broker_id = broker_id
        self._chance = chance
        self._static_config = static_config
        self._purgatory = purgatory
        self._executor = executor
        self._needs_sync = needs_sync
        self._is_open = False
        self.config = static_config
        self.logs = logs
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.by_id: dict[bytes, dict[int, Partition]] = {}

    def __iter__(self) -> Iterator[Partition]:
        for partitions in tuple(self.by_name.values()):
            yield from partitions.values()

    async def on_image(self, image: Image, delta: Delta) -> None:
        """Follow the image; returns when every new partition can be used. The first delta holds everything."""
        if delta.broker_configs_changed:
            self._apply_broker_config(image)
        if not self._is_open:
            self._is_open = True
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._executor, self._open_logs, image)
        for topic in delta.topics_deleted:
            self._delete(topic)
        await self._create(image, delta)
        for topic, state in delta.partitions_changed:
            partition = self.by_name.get(topic.name, {}).get(state.index)
            if partition is not None:
                partition.apply(state)
        self._apply_topic_configs(image, delta)

    def _open_logs(self, image: Image) -> None:
        """In a thread: see that the directories are this broker's, and recover what is there."""
        self.logs.check_identity(image.cluster_id, self._broker_id)
        self.logs.open(self._known_logs(image))
        new_ids = [self._chance.randbytes(16) for _ in self.logs.directories]
        self.logs.write_identity(image.cluster_id, self._broker_id, new_ids)
        if self._needs_sync:  # what a crash left in memory only must not be shown before it is on disk
            for log in self.logs.logs.values():
                _flush(log)

    async def _create(self, image: Image, delta: Delta) -> None:
        new = [(topic, state) for topic in delta.topics_created for state in topic.partitions]
        new += delta.partitions_added
        mine = [(topic, state) for topic, state in new if self._broker_id in state.replicas]
        if mine:  # making files and syncing directories takes a while
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._executor, self._create_logs, image, mine)
        for topic, state in mine:
            self._open_partition(topic, state)

    def _create_logs(self, image: Image, new: list[tuple[TopicImage, PartitionImage]]) -> None:
        """In a thread."""
        configs = {topic.name: self.log_config(image, topic.name) for topic, _ in new}
        for name, config in configs.items():
            if config.compacts and name not in INTERNAL_TOPICS:
                logger.warning("topic %s: cleanup.policy: %s", name, NO_COMPACTION)
        for topic, state in new:
            tp = TopicPartition(topic.name, state.index)
            if tp in self.logs.logs:
                continue
            try:
                self.logs.create(tp, topic.topic_id, configs[topic.name], sync=False)
            except StorageError as error:
                logger.error("%s cannot be used until the next start: %s", tp, error)
        self.logs.sync_names()

    def _open_partition(self, topic: TopicImage, state: PartitionImage) -> None:
        log = self.logs.logs.get(TopicPartition(topic.name, state.index))
        if log is None:  # it could not be made, which was said
            return
        partition = Partition(self._broker_id, log, state, self._purgatory, self._needs_sync)
        partitions = self.by_name.setdefault(topic.name, {})
        partitions[state.index] = partition
        self.by_id[topic.topic_id] = partitions

    def _delete(self, topic: TopicImage) -> None:
        partitions = self.by_id.pop(topic.topic_id, {})
        if self.by_name.get(topic.name) is partitions:
            del self.by_name[topic.name]
        for index, partition in partitions.items():
            partition.retire()
            try:
                self.logs.delete(TopicPartition(topic.name, index))
            except StorageError as error:  # the next start puts the directory aside
                logger.error("%s", error)

    def _apply_broker_config(self, image: Image) -> None:
        default = image.broker_config(DEFAULT_BROKER)
        mine = image.broker_config(str(self._broker_id))
        self.config = self._static_config.with_dynamic(default, mine)

    def _apply_topic_configs(self, image: Image, delta: Delta) -> None:
        names = set(self.by_name) if delta.broker_configs_changed else set(delta.topic_configs_changed)
        for name in names & set(self.by_name):
            config = self.log_config(image, name)
            for partition in self.by_name[name].values():
                partition.log.update_config(config)
                partition.on_config()

    def log_config(self, image: Image, topic: str) -> LogConfig:
        return self.config.log_config(image.topic_config(topic))

    def _known_logs(self, image: Image) -> Mapping[TopicPartition, tuple[bytes, LogConfig]]:
        """What recovery may open: every partition that the image gives to this broker."""
        known: dict[TopicPartition, tuple[bytes, LogConfig]] = {}
        for topic in image.topics.values():
            config = self.log_config(image, topic.name)
            for state in topic.partitions:
                if self._broker_id in state.replicas:
                    known[TopicPartition(topic.name, state.index)] = (topic.topic_id, config)
        return known

    def partition_or_raise(self, topic: str, index: int) -> Partition:
        partition = self.by_name.get(topic, {}).get(index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition


def _flush(log: Log) -> None:
    try:
        log.flush()
    except StorageError as error:  # the log is fenced: it shows what is on disk, and takes nothing
        logger.error("%s", error)
