"""The transaction coordinator: the shell around the transactional ids of `__transaction_state` that this broker leads.

    request -> decision -> record -> the partition's log -> committed -> answer
                                                                     -> markers -> the last record of the transaction

It loads partitions, ends transactions whose time is over, and gives answers; what to decide is decided in `decide`, and
what was decided is written by `states`. One record of an id is on its way at a time; who comes meanwhile is told to
come again.

`__transaction_state` is created when the first client looks for a coordinator. After a crash everything is as the log
has it. A transaction that was prepared is carried out to the end, with the outcome that was decided; one that was open
stays open until its producer ends it, another with the same id begins, or its time is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial

from penstock.broker.client_text import shown
from penstock.broker.config import BrokerConfig
from penstock.broker.controller.controller import Controller
from penstock.broker.controller.topics import NewTopic
from penstock.broker.groups.coordinator import GroupCoordinator
from penstock.broker.internal_topic import HomeState, InternalTopic
from penstock.broker.replicas.group_commit import GroupCommit
from penstock.broker.replicas.manager import ReplicaManager
from penstock.broker.replicas.partition import Partition
from penstock.broker.replicated import ReplicatedLog
from penstock.broker.transactions import decide
from penstock.broker.transactions import metadata as steps
from penstock.broker.transactions.decide import ProducerIdAndEpoch
from penstock.broker.transactions.home import Home
from penstock.broker.transactions.markers import MarkerWriter
from penstock.broker.transactions.metadata import (
    DEAD,
    PREPARE_ABORT,
    TV_2,
    TransactionMetadata,
    new_metadata,
)
from penstock.broker.transactions.records import TransactionRecord, decode, encode
from penstock.broker.transactions.shard import Shard, TransactionalId
from penstock.broker.transactions.states import OnDone, StateWriter
from penstock.broker.transactions.verification import OnVerified
from penstock.env.clock import Clock
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import Delta, Image
from penstock.types import TopicPartition

logger = logging.getLogger(__name__)

TRANSACTION_TOPIC = "__transaction_state"
MAX_RECORDS_PER_BATCH = 1_000
"""Of ids that are forgotten."""

OnEnded = Callable[[KafkaError | None, ProducerIdAndEpoch], None]
"""Why not, or the producer id and epoch to go on with."""

NO_PRODUCER = ProducerIdAndEpoch(-1, -1)


class TransactionCoordinator:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        executor: Executor,
        config: BrokerConfig,
        controller: Controller,
        replicas: ReplicaManager,
        group_commit: GroupCommit,
        groups: GroupCoordinator,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._executor = executor
        self._config = config
        self._controller = controller
        self._replicas = replicas
        self._group_commit = group_commit
        self.markers = MarkerWriter(loop, replicas, group_commit, groups, lambda topic: topic in self._image.topics)
        self._states = StateWriter(loop, clock, self.markers, self._is_ours)
        self._homes: dict[int, Home] = {}
        self._image = Image()
        self.topic = InternalTopic(TRANSACTION_TOPIC, controller, self._new_topic)
        self._tasks: set[asyncio.Task[None]] = set()

    # Start, stop, and the topic.

    def start(self) -> None:
        get = self._config.get_int
        timeouts_s = get("transaction.abort.timed.out.transaction.cleanup.interval.ms") / 1000
        expiry_s = get("transaction.remove.expired.transaction.cleanup.interval.ms") / 1000
        self._spawn(_repeat(timeouts_s, self.abort_timed_out))
        self._spawn(_repeat(expiry_s, self.expire_ids))

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.topic.stop()
        self.markers.stop()
        self._homes.clear()  # what is still on its way finds that nothing is ours any more

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _new_topic(self, max_replicas: int) -> NewTopic:
        get = self._config.get_int
        replicas = min(get("transaction.state.log.replication.factor"), max_replicas)
        configs = (
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("min.insync.replicas", str(get("transaction.state.log.min.isr"))),
            ("segment.bytes", str(get("transaction.state.log.segment.bytes"))),
            ("unclean.leader.election.enable", "false"),
        )
        return NewTopic(TRANSACTION_TOPIC, get("transaction.state.log.num.partitions"), replicas, configs=configs)

    def on_image(self, image: Image, delta: Delta) -> None:
        """Follow the image: which partitions are ours. After the replicas and the groups did."""
        self._image = image
        if any(deleted.name == TRANSACTION_TOPIC for deleted in delta.topics_deleted):
            self._warn_of_loss()
        self.topic.on_image(image)
        led = self.topic.led(self._replicas)
        for index in [each for each in self._homes if self._homes[each].log.partition is not led.get(each)]:
            del self._homes[index]
        for index, led_partition in led.items():
            if index not in self._homes:
                self._begin_load(index, led_partition)

    def _warn_of_loss(self) -> None:
        """The topic was deleted: what was open hangs in its partitions, and nobody else will say why."""
        shards = [home.shard for home in self._homes.values()]
        left_open = sum(len(shard.ongoing) + len(shard.ending()) for shard in shards)
        if left_open:
            words = "%s was deleted with %d open transactions, which hang now; `penstock txn abort --topic` ends them"
            logger.warning(words, TRANSACTION_TOPIC, left_open)

    def _begin_load(self, index: int, led: Partition) -> None:
        buffer_bytes = self._config.get_int("transaction.state.log.load.buffer.size")
        log = ReplicatedLog(led, self._clock, self._group_commit, self._executor, buffer_bytes)
        home = self._homes[index] = Home(log, Shard(index))
        if led.log.log_start_offset == led.log.high_watermark:
            home.state = HomeState.ACTIVE
        else:
            self._spawn(self._load(home))

    async def _load(self, home: Home) -> None:
        try:
            count = await home.log.load(lambda key, value, _header: decode(key, value), home.shard.replay)
        except KafkaError as error:
            home.state = HomeState.FAILED
            logger.error(
                "%s-%d cannot be loaded, and its transactional ids are not served: %s",
                TRANSACTION_TOPIC, home.shard.partition, error.message,
            )  # fmt: skip
            return
        home.state = HomeState.ACTIVE
        words = "%s-%d: loaded %d records of %d transactional ids"
        logger.debug(words, TRANSACTION_TOPIC, home.shard.partition, count, len(home.shard.ids))
        for each in home.shard.ending():
            self._states.write_markers(home, each)

    # Where an id is.

    def _home(self, transactional_id: str) -> Home:
        return self.topic.home_of(transactional_id, self._homes)

    def described(self, transactional_id: str) -> TransactionalId:
        """TRANSACTIONAL_ID_NOT_FOUND when there is none."""
        return self._home(transactional_id).shard.id_or_raise(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    def all_ids(self) -> Iterator[TransactionalId]:
        """All that this broker coordinates; COORDINATOR_LOAD_IN_PROGRESS while some are loaded."""
        if any(home.state is HomeState.LOADING for home in self._homes.values()):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for home in self._homes.values():
            if home.state is HomeState.FAILED:  # what was read of it is old, and is not shown
                words = "%s-%d could not be loaded, and its transactional ids are not listed"
                logger.warning(words, TRANSACTION_TOPIC, home.shard.partition)
            else:
                yield from home.shard

    # Requests.

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None
    ) -> ProducerIdAndEpoch:
        """The producer id and epoch to begin with. CONCURRENT_TRANSACTIONS while an open transaction is aborted."""
        if not 0 < timeout_ms <= self._config.get_int("transaction.max.timeout.ms"):
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        home = self._home(transactional_id)
        found, decided = self._decide_init(home, transactional_id, timeout_ms, expected, None)
        if decided is None:
            new_id = await self._controller.next_producer_id()
            home = self._home(transactional_id)
            found, decided = self._decide_init(home, transactional_id, timeout_ms, expected, new_id)
        assert found is not None
        assert decided is not None
        done: asyncio.Future[None] = self._loop.create_future()
        self._states.write(home, found, decided, partial(_resolve, done))
        await done
        if decided.state is PREPARE_ABORT:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return ProducerIdAndEpoch(decided.producer_id, decided.producer_epoch)

    def _decide_init(
        self,
        home: Home,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        new_id: int | None,
    ) -> tuple[TransactionalId | None, TransactionMetadata | None]:
        """The id and what becomes of it; nothing decided when a new producer id is needed first."""
        now_ms = self._clock.now_ms()
        found = home.shard.ids.get(transactional_id)
        if found is None:
            if new_id is None:
                return None, None
            found = TransactionalId(new_metadata(transactional_id, new_id, timeout_ms, now_ms))
            home.shard.ids[transactional_id] = found
        return found, decide.init_producer_id(found.metadata, found.pending, timeout_ms, expected, new_id, now_ms)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        version: int,
        on_done: OnDone,
    ) -> None:
        """`on_done` is called when they are in the transaction, or with why they are not."""
        try:
            home = self._home(transactional_id)
            found = home.shard.id_or_raise(transactional_id)
            decided = decide.add_partitions(
                found.metadata, found.pending, producer, partitions, version, self._clock.now_ms()
            )
        except KafkaError as error:
            on_done(error)
            return
        self._states.write(home, found, decided, on_done)

    def end_at_once(
        self, transactional_id: str, producer: ProducerIdAndEpoch, is_commit: bool, version: int
    ) -> ProducerIdAndEpoch | None:
        """As `end`, done when this returns, or refused with a KafkaError; None where something has to be waited for."""
        home = self._home(transactional_id)
        if not home.log.commits_at_once:
            return None
        found = home.shard.id_or_raise(transactional_id)
        now_ms = self._clock.now_ms()
        decided = decide.end(found.metadata, found.pending, producer, is_commit, version, None, now_ms)
        if decided is None:
            return None
        if decided is not found.metadata:
            self._states.append(home, found, decided)
            self._states.write_markers(home, found)
        return _goes_on_with(decided, version)

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, is_commit: bool, version: int, on_ended: OnEnded
    ) -> None:
        """`on_ended` is called when the outcome is decided for good, or with why it is not; markers may still come."""
        self._end(transactional_id, producer, is_commit, version, None, on_ended)

    def _end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        is_commit: bool,
        version: int,
        new_id: int | None,
        on_ended: OnEnded,
    ) -> None:
        try:
            home = self._home(transactional_id)
            found = home.shard.id_or_raise(transactional_id)
            now_ms = self._clock.now_ms()
            decided = decide.end(found.metadata, found.pending, producer, is_commit, version, new_id, now_ms)
        except KafkaError as error:
            on_ended(error, NO_PRODUCER)
            return
        if decided is None:
            assert new_id is None, "one producer id is enough"
            self._spawn(self._end_with_new_id(transactional_id, producer, is_commit, version, on_ended))
            return

        def on_done(error: KafkaError | None) -> None:
            on_ended(error, _goes_on_with(decided, version) if error is None else NO_PRODUCER)

        self._states.write(home, found, decided, on_done)

    async def _end_with_new_id(
        self, transactional_id: str, producer: ProducerIdAndEpoch, is_commit: bool, version: int, on_ended: OnEnded
    ) -> None:
        try:
            new_id = await self._controller.next_producer_id()
        except KafkaError as error:
            on_ended(error, NO_PRODUCER)
        else:
            self._end(transactional_id, producer, is_commit, version, new_id, on_ended)

    # What the data path asks (see `verification`).

    def add_at_once(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        version: int,
    ) -> bool:
        """As `add_partitions`, done when this returns, or refused with a KafkaError; False where the disk has to be
        waited for."""
        home = self._home(transactional_id)
        if not home.log.commits_at_once:
            return False
        found = home.shard.id_or_raise(transactional_id)
        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        now_ms = self._clock.now_ms()
        decided = decide.add_partitions(found.metadata, found.pending, producer, partitions, version, now_ms)
        if decided is not found.metadata:
            self._states.append(home, found, decided)
        return True

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        on_verified: OnVerified,
    ) -> None:
        try:
            found = self._home(transactional_id).shard.id_or_raise(transactional_id)
            producer = ProducerIdAndEpoch(producer_id, producer_epoch)
            on_verified(decide.verify_partitions(found.metadata, producer, partitions))
        except KafkaError as error:
            on_verified(dict.fromkeys(partitions, error.code))

    def is_in_transaction(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: frozenset[TopicPartition]
    ) -> bool:
        """As `verify`, for all of them together. KafkaError when refused."""
        found = self._home(transactional_id).shard.id_or_raise(transactional_id)
        return decide.has_partitions(found.metadata, ProducerIdAndEpoch(producer_id, producer_epoch), partitions)

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        on_verified: OnVerified,
    ) -> None:
        def on_done(error: KafkaError | None) -> None:
            on_verified(dict.fromkeys(partitions, ErrorCode.NONE if error is None else error.code))

        producer = ProducerIdAndEpoch(producer_id, producer_epoch)
        self.add_partitions(transactional_id, producer, frozenset(partitions), TV_2, on_done)

    def _is_ours(self, home: Home) -> bool:
        return self._homes.get(home.shard.partition) is home

    # Time.

    def _active_homes(self) -> list[Home]:
        return [home for home in self._homes.values() if home.state is HomeState.ACTIVE]

    def abort_timed_out(self) -> None:
        """Its producer is shut out by the next epoch."""
        now_ms = self._clock.now_ms()
        for home in self._active_homes():
            for found in home.shard.timed_out(now_ms):
                logger.info("the time of a transaction of %s is over", shown(found.metadata.transactional_id))
                self._states.write(home, found, steps.fence(found.metadata, now_ms), self.topic.log_failure)

    def expire_ids(self) -> None:
        expiration_ms = self._config.get_int("transactional.id.expiration.ms")
        for home in self._active_homes():
            expired = home.shard.expired(self._clock.now_ms(), expiration_ms)
            for start in range(0, len(expired), MAX_RECORDS_PER_BATCH):
                self._forget(home, expired[start : start + MAX_RECORDS_PER_BATCH])

    def _forget(self, home: Home, expired: Sequence[TransactionalId]) -> None:
        records = [TransactionRecord(each.metadata.transactional_id, None) for each in expired]
        for each in expired:
            each.pending = DEAD

        def on_committed(error: KafkaError | None) -> None:
            for each, record in zip(expired, records, strict=True):
                each.pending = None
                if error is None:
                    home.shard.replay(record)
            self.topic.log_failure(error)

        home.log.append([encode(record) for record in records], on_committed)


def _goes_on_with(decided: TransactionMetadata, version: int) -> ProducerIdAndEpoch:
    """What EndTxn gives its producer for the next transaction."""
    return ProducerIdAndEpoch(*steps.producer_after(decided)) if version >= TV_2 else NO_PRODUCER


async def _repeat(period_s: float, work: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(period_s)
        work()


def _resolve(done: asyncio.Future[None], error: KafkaError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
