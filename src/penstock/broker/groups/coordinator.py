"""The group coordinator: the shell around the groups of the partitions of `__consumer_offsets` that this broker leads.

    request -> machine -> answers and records -> the partition's log -> committed -> machine -> more answers

It loads partitions, writes records, keeps a timer for each group, gives answers to whoever waits, and nothing else:
what to decide is decided in `shard` and the machines under it. All of it runs on the loop; only reading logs does not.

`__consumer_offsets` is created when the first client looks for a coordinator. While a partition is loaded its groups
answer COORDINATOR_LOAD_IN_PROGRESS. After a crash everything is as the log has it: members and offsets as committed,
with a fresh session each; whoever waited has lost its connection and asks again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor

from penstock.broker.config import BrokerConfig
from penstock.broker.controller.controller import Controller
from penstock.broker.controller.topics import NewTopic
from penstock.broker.groups import rebalance
from penstock.broker.groups.consumer_coordinator import ConsumerCoordinator
from penstock.broker.groups.consumer_group import ConsumerGroup
from penstock.broker.groups.group import ClassicGroup, GroupLimits
from penstock.broker.groups.home import Home
from penstock.broker.groups.join import join, refusal
from penstock.broker.groups.leave import leave, nobody_left
from penstock.broker.groups.outcome import Client, Now, Outcome, Ticket
from penstock.broker.groups.records import (
    GroupRecord,
    OffsetRecord,
    Record,
    TransactionalOffset,
    TransactionEnd,
    decode_logged,
    encode,
)
from penstock.broker.groups.shard import Shard
from penstock.broker.groups.sync import sync
from penstock.broker.internal_topic import HomeState, InternalTopic, partition_for, told
from penstock.broker.replicas.group_commit import GroupCommit
from penstock.broker.replicas.manager import ReplicaManager
from penstock.broker.replicas.partition import Partition
from penstock.broker.replicated import ReplicatedLog
from penstock.env.clock import Clock
from penstock.errors import ErrorCode, KafkaError
from penstock.log.verification import VerificationGuard
from penstock.metadata.image import Delta, Image
from penstock.types import TopicPartition
from penstock.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.api.join_group import JoinGroupRequest
from penstock.wire.api.leave_group import MemberIdentity
from penstock.wire.api.offset_commit import OffsetCommitRequest
from penstock.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from penstock.wire.records import NO_SEQUENCE

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
MAX_RECORDS_PER_BATCH = 1_000
"""Of tombstones that need not stand in one batch."""
MINUTE_MS = 60_000

OnDone = Callable[[KafkaError | None], None]


class GroupCoordinator:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        chance: random.Random,
        executor: Executor,
        config: BrokerConfig,
        controller: Controller,
        replicas: ReplicaManager,
        group_commit: GroupCommit,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._chance = chance
        self._executor = executor
        self._config = config
        self._controller = controller
        self._replicas = replicas
        self._group_commit = group_commit
        self._limits = _limits(config)
        self.consumers = ConsumerCoordinator(clock, chance, config, self._write, self._set_timer, self._on_downgraded)
        self._homes: dict[int, Home] = {}
        self._image = Image()
        self.topic = InternalTopic(OFFSETS_TOPIC, controller, self._new_topic)
        self._tasks: set[asyncio.Task[None]] = set()

    # Start, stop, and the topic.

    def start(self) -> None:
        self._spawn(self._expire_forever())

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.topic.stop()
        for home in self._homes.values():
            home.cancel_timers()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _new_topic(self, max_replicas: int) -> NewTopic:
        get = self._config.get_int
        replicas = min(get("offsets.topic.replication.factor"), max_replicas)
        configs = (
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(get("offsets.topic.segment.bytes"))),
        )
        return NewTopic(OFFSETS_TOPIC, get("offsets.topic.num.partitions"), replicas, configs=configs)

    def on_image(self, image: Image, delta: Delta) -> None:
        """Follow the image: which partitions are ours, and which topics are gone. After the replicas did."""
        self._image = image
        self.consumers.on_image(image, delta, self._replicas.config)
        for deleted in delta.topics_deleted:
            if deleted.name == OFFSETS_TOPIC:
                lost = sum(1 for home in self._homes.values() for _ in home.shard.all_groups())
                if lost:
                    logger.warning("%s was deleted with all that %d groups have committed", OFFSETS_TOPIC, lost)
                self._unload(tuple(self._homes))
            else:
                self._forget_topic(deleted.name, deleted.topic_id)
        self.topic.on_image(image)
        led = self.topic.led(self._replicas)
        self._unload([index for index in self._homes if index not in led])
        for index, partition in led.items():
            if index not in self._homes:
                self._begin_load(index, partition)

    def _begin_load(self, index: int, partition: Partition) -> None:
        log = ReplicatedLog(
            partition, self._clock, self._group_commit, self._executor, self._config.get_int("offsets.load.buffer.size")
        )
        home = self._homes[index] = Home(log, Shard(index, self._limits))
        if partition.log.log_start_offset == partition.log.high_watermark:
            home.state = HomeState.ACTIVE
        else:
            self._spawn(self._load(home))

    async def _load(self, home: Home) -> None:
        try:
            count = await home.log.load(decode_logged, home.shard.load)
        except KafkaError as error:
            home.state = HomeState.FAILED
            logger.error(
                "%s-%d cannot be loaded, and its groups are not served: %s",
                OFFSETS_TOPIC, home.shard.partition, error.message,
            )  # fmt: skip
            return
        home.state = HomeState.ACTIVE
        for end in home.ended_while_loading:
            home.shard.on_transaction_end(end)
        out = Outcome()
        home.shard.on_loaded(self._now(), out)
        self._apply(home, out)
        self._write_pieces(home, home.shard.forget_missing_topics(self._image.topics_by_id))
        for group in tuple(home.shard.groups.values()):
            self._set_timer(home, group)
        self.consumers.on_loaded(home)
        groups = sum(1 for _ in home.shard.all_groups())
        logger.debug("%s-%d: loaded %d records of %d groups", OFFSETS_TOPIC, home.shard.partition, count, groups)

    def _unload(self, indexes: Sequence[int]) -> None:
        """Another broker leads the partition, or it is gone: whoever waits here looks for its coordinator again."""
        for index in indexes:
            home = self._homes.pop(index)
            home.cancel_timers()
            out = Outcome()
            for group in home.shard.groups.values():
                for member in tuple(group.members.values()):
                    rebalance.dismiss(group, member, ErrorCode.NOT_COORDINATOR, out)
            _answer(out)

    # Where a group is.

    def _home(self, group_id: str) -> Home:
        return self.topic.home_of(group_id, self._homes)

    def shard(self, group_id: str) -> Shard:
        """Where to look a group up. NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS when that is not possible."""
        return self._home(group_id).shard

    def shards(self) -> Iterator[Shard]:
        """All of this broker's; COORDINATOR_LOAD_IN_PROGRESS while one is loaded."""
        for home in self._homes.values():
            if home.state is HomeState.LOADING:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            yield home.shard

    # Membership.

    def join(self, request: JoinGroupRequest, client: Client, ticket: Ticket) -> None:
        home = self._home(request.group_id)
        if not self._limits.min_session_timeout_ms <= request.session_timeout_ms <= self._limits.max_session_timeout_ms:
            ticket(refusal(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
            return
        self.consumers.in_turn(home, request.group_id, lambda: self._join(home, request, client, ticket))

    def _join(self, home: Home, request: JoinGroupRequest, client: Client, ticket: Ticket) -> None:
        if request.group_id in home.shard.consumer_groups:
            self._join_consumers(home, request, client, ticket)
            return
        if request.member_id and request.group_id not in home.shard.groups:
            ticket(refusal(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return
        group = home.shard.group_or_new(request.group_id)
        new_id = "" if request.member_id else self._new_member_id(request.group_instance_id or client.client_id)
        out = Outcome()
        join(group, request, client, new_id, ticket, self._now(), out)
        self._finish(home, group, out)

    def _join_consumers(self, home: Home, request: JoinGroupRequest, client: Client, ticket: Ticket) -> None:
        """A consumer group without members becomes a classic one first; one with members takes a classic one in."""

        def on_done(error: KafkaError | None) -> None:
            if error is not None:
                ticket(refusal(error.code, request.member_id))
            else:
                self._join(home, request, client, ticket)

        group = home.shard.consumer_groups[request.group_id]
        if group.members:
            new_id = "" if request.member_id else self._new_member_id(request.group_instance_id or client.client_id)
            self.consumers.join_classic(home, group, request, client, new_id, ticket)
        else:
            self.consumers.write_now(home, group.group_id, group.tombstones(), on_done)

    def _on_downgraded(self, home: Home, record: GroupRecord) -> None:
        """A consumer group has become this classic group, whose members now rebalance by themselves."""
        group, now, out = home.shard.adopt(record), self._now(), Outcome()
        for member in group.members.values():
            member.keep(now)
        rebalance.prepare(group, "its last member of the consumer protocol is gone", now, out)
        self._finish(home, group, out)

    def heartbeat_consumer(self, request: ConsumerGroupHeartbeatRequest, client: Client, ticket: Ticket) -> None:
        """KIP-848; `ticket` gets the answer, also when it is an error."""
        self.consumers.heartbeat(self._home(request.group_id), request, client, ticket)

    def sync(self, request: SyncGroupRequest, ticket: Ticket) -> None:
        home = self._home(request.group_id)
        self.consumers.in_turn(home, request.group_id, lambda: self._sync(home, request, ticket))

    def _sync(self, home: Home, request: SyncGroupRequest, ticket: Ticket) -> None:
        if request.group_id in home.shard.consumer_groups:
            ticket(self.consumers.sync_classic(home, request))
            return
        group = home.shard.groups.get(request.group_id)
        if group is None:
            ticket(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
            return
        out = Outcome()
        sync(group, request, ticket, self._now(), out)
        self._finish(home, group, out)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        home = self._home(group_id)
        if group_id in home.shard.consumer_groups:
            return self.consumers.heartbeat_classic(home, group_id, member_id, instance_id, generation)
        group = home.shard.group_or_raise(group_id, ErrorCode.UNKNOWN_MEMBER_ID)
        return group.heartbeat(member_id, instance_id, generation, self._now())

    def leave(self, group_id: str, leaving: list[MemberIdentity], ticket: Ticket) -> None:
        home = self._home(group_id)
        self.consumers.in_turn(home, group_id, lambda: self._leave(home, group_id, leaving, ticket))

    def _leave(self, home: Home, group_id: str, leaving: list[MemberIdentity], ticket: Ticket) -> None:
        if group_id in home.shard.consumer_groups:
            ticket(self.consumers.leave_classic(home, group_id, leaving))
            return
        group = home.shard.groups.get(group_id)
        if group is None:
            ticket(nobody_left(leaving))
            return
        out = Outcome()
        response = leave(group, leaving, self._now(), out)
        self._finish(home, group, out)
        ticket(response)

    # Offsets and deletion.

    def commit_offsets(
        self, request: OffsetCommitRequest, version: int, records: Sequence[OffsetRecord], on_done: OnDone
    ) -> None:
        """`on_done` is called when they are committed, or with why they are not."""
        home = self._home(request.group_id)
        home.shard.check_commit(request, version, self._now(), records)
        if records:
            self._write(home, records, on_done)
        else:
            on_done(None)

    def offsets_partition(self, group_id: str) -> TopicPartition:
        """Where the group's offsets are, which is what a transaction with offsets writes to."""
        count = self.topic.partition_count or self._config.get_int("offsets.topic.num.partitions")
        return TopicPartition(OFFSETS_TOPIC, partition_for(group_id, count))

    def start_verification(self, request: TxnOffsetCommitRequest, supports_epoch_bump: bool) -> VerificationGuard:
        """What `commit_transactional_offsets` needs: ONGOING, or a guard and the transaction coordinator's word."""
        partition = self._home(request.group_id).log.partition
        producer = (request.producer_id, request.producer_epoch)
        try:
            return partition.start_verification(*producer, NO_SEQUENCE, supports_epoch_bump, is_own=True)
        except KafkaError as error:
            raise told(error) from error

    def commit_transactional_offsets(
        self,
        request: TxnOffsetCommitRequest,
        records: Sequence[OffsetRecord],
        guard: VerificationGuard,
        on_done: OnDone,
    ) -> None:
        """Write offsets that count when the producer's transaction is committed; `on_done` when they are in the log."""
        home = self._home(request.group_id)
        home.shard.check_transactional_commit(request)

        def on_committed(error: KafkaError | None) -> None:
            if error is None:
                for record in records:
                    home.shard.replay_transactional(TransactionalOffset(request.producer_id, record))
            on_done(None if error is None else told(error))

        producer = (request.producer_id, request.producer_epoch)
        home.log.append([encode(record) for record in records], on_committed, producer, guard)

    def on_marker(self, partition: int, producer_id: int, committed: bool) -> None:
        """A marker is committed to this partition of the offsets topic."""
        home = self._homes.get(partition)
        if home is None:
            return
        end = TransactionEnd(producer_id, committed)
        if home.state is HomeState.LOADING:
            home.ended_while_loading.append(end)
        else:
            home.shard.on_transaction_end(end)

    def delete_group(self, group_id: str, on_done: OnDone) -> None:
        home = self._home(group_id)
        self.consumers.write_in_turn(home, group_id, lambda: home.shard.delete_group(group_id), on_done)

    def delete_offsets(self, group_id: str, partitions: Sequence[tuple[str, int]], on_done: OnDone) -> list[ErrorCode]:
        """An error code for each; the rest is forgotten when `on_done` is called."""
        home = self._home(group_id)
        records, codes = home.shard.delete_offsets(group_id, partitions)
        if records:
            self._write(home, records, on_done)
        else:
            on_done(None)
        return codes

    def _forget_topic(self, topic: str, topic_id: bytes) -> None:
        for home in self._homes.values():
            self._write_pieces(home, home.shard.forget_topic(topic, topic_id))

    async def _expire_forever(self) -> None:
        period_s = self._config.get_int("offsets.retention.check.interval.ms") / 1000
        while True:
            await asyncio.sleep(period_s)
            self.expire_offsets()

    def expire_offsets(self) -> None:
        retention_ms = self._config.get_int("offsets.retention.minutes") * MINUTE_MS
        for home in self._homes.values():
            if home.state is HomeState.ACTIVE:
                self._write_pieces(home, home.shard.expire(retention_ms, self._clock.now_ms(), home.waiting))

    # Records, answers, timers.

    def _write_pieces(self, home: Home, records: Sequence[Record]) -> None:
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            self._write(home, records[start : start + MAX_RECORDS_PER_BATCH], self.topic.log_failure)

    def _write(self, home: Home, records: Sequence[Record], on_done: OnDone) -> None:
        """One batch; the machines are told before `on_done` is."""

        def on_committed(error: KafkaError | None) -> None:
            failure = None if error is None else told(error)
            now, out = self._now(), Outcome()
            for record in records:
                if failure is None:
                    home.shard.on_committed(record, now, out)
                else:
                    home.shard.on_write_failed(record, failure.code, now, out)
            self._apply(home, out)
            on_done(failure)

        home.log.append([encode(record) for record in records], on_committed)

    def _finish(self, home: Home, group: ClassicGroup, out: Outcome) -> None:
        """After a request or a timer changed a group."""
        self._apply(home, out)
        home.shard.drop_if_nothing(group)
        self._set_timer(home, group)

    def _apply(self, home: Home, out: Outcome) -> None:
        for reason in out.reasons:
            logger.info("rebalance of %s", reason)
        _answer(out)
        if out.records:
            self._write(home, out.records, self.topic.log_failure)

    def _set_timer(self, home: Home, group: ClassicGroup | ConsumerGroup) -> None:
        deadline_s, group_id = group.next_deadline_s(), group.group_id
        home.set_timer(self._loop, self._clock, group_id, deadline_s, lambda: self._on_timer(home, group_id))

    def _on_timer(self, home: Home, group_id: str) -> None:
        home.timers.pop(group_id, None)
        self.consumers.in_turn(home, group_id, lambda: self._on_time(home, group_id))

    def _on_time(self, home: Home, group_id: str) -> None:
        """The group may have become one of the other kind since the timer was set, or be gone."""
        group = home.shard.groups.get(group_id)
        if group is None:
            self.consumers.on_timer(home, group_id)
            return
        out = Outcome()
        rebalance.on_time(group, self._now(), out)
        self._finish(home, group, out)

    def _now(self) -> Now:
        return Now(self._clock.now_ms(), self._clock.monotonic())

    def _new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{uuid.UUID(bytes=self._chance.randbytes(16), version=4)}"


def _answer(out: Outcome) -> None:
    for ticket, response in out.answers:
        ticket(response)


def _limits(config: BrokerConfig) -> GroupLimits:
    get = config.get_int
    return GroupLimits(
        get("group.initial.rebalance.delay.ms"),
        get("group.min.session.timeout.ms"),
        get("group.max.session.timeout.ms"),
        get("group.max.size"),
    )
