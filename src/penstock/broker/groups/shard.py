"""The groups that live in one partition of `__consumer_offsets`, and their offsets. Pure.

Loading a shard is `load` for every record of the partition's log, oldest first, and `on_loaded` at its end. After that
`on_committed` is called with each record that this broker wrote, in the log's order, as soon as it is committed.

A group is classic or a consumer group, never both. An offset of a group that is neither makes it a classic one, without
members; whichever kind joins it first decides. A group exists when a member joined or an offset was committed. It
ceases to exist when its record is a tombstone, which is written when it is deleted, or when it is empty and its last
offset was forgotten. An offset of a transaction is `pending` until the marker comes, and keeps its group meanwhile.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from penstock.broker.groups import rebalance
from penstock.broker.groups.consumer_group import ConsumerGroup
from penstock.broker.groups.consumer_records import EPOCH, ConsumerRecord
from penstock.broker.groups.group import ClassicGroup, GroupLimits, State
from penstock.broker.groups.offsets import GroupOffsets
from penstock.broker.groups.outcome import Now, Outcome
from penstock.broker.groups.pending_offsets import PendingOffsets
from penstock.broker.groups.records import (
    NO_TIMESTAMP,
    GroupRecord,
    Logged,
    OffsetRecord,
    Record,
    TransactionalOffset,
    TransactionEnd,
)
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.offset_commit import OffsetCommitRequest
from penstock.wire.api.txn_offset_commit import TxnOffsetCommitRequest

GROUP_NOT_FOUND_SINCE = 9
"""Older clients do not know GROUP_ID_NOT_FOUND as an answer to a commit."""


class Shard:
    def __init__(self, partition: int, limits: GroupLimits) -> None:
        self.partition = partition
        self._limits = limits
        self.groups: dict[str, ClassicGroup] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        self._offsets: dict[str, GroupOffsets] = {}
        self.pending = PendingOffsets()
        """Offsets of open transactions."""

    # The log.

    def load(self, record: Logged) -> None:
        """One record of the log, before the shard is used."""
        if isinstance(record, OffsetRecord):
            self._replay_plain_offset(record)
        elif isinstance(record, TransactionalOffset):
            self.replay_transactional(record)
        elif isinstance(record, TransactionEnd):
            self.on_transaction_end(record)
        elif isinstance(record, ConsumerRecord):
            self._replay_consumer(record)
        elif record.value is None:
            self._forget(record.group_id)
        else:
            self.consumer_groups.pop(record.group_id, None)
            self.groups[record.group_id] = ClassicGroup.loaded(record, self._limits)

    def on_loaded(self, now: Now, out: Outcome) -> None:
        """The sessions of all members begin anew: they could not send heartbeats meanwhile."""
        for group in self.groups.values():
            for member in group.members.values():
                member.keep(now)
            if len(group.members) > self._limits.max_size:
                rebalance.prepare(group, "the group is larger than group.max.size", now, out)

    def on_committed(self, record: Record, now: Now, out: Outcome) -> None:
        if isinstance(record, OffsetRecord):
            self._replay_plain_offset(record)
            return
        if isinstance(record, ConsumerRecord):
            self._replay_consumer(record)
            return
        group = self.groups.get(record.group_id)
        if group is None:
            return
        if record.value is not None:
            rebalance.on_committed(group, record, now, out)
        elif group.is_empty:  # else someone joined while the tombstone was on its way: the group lives on
            self._forget(record.group_id)

    def on_write_failed(self, record: Record, code: ErrorCode, now: Now, out: Outcome) -> None:
        if isinstance(record, GroupRecord) and record.group_id in self.groups:
            rebalance.on_write_failed(self.groups[record.group_id], record, code, now, out)

    def replay_transactional(self, record: TransactionalOffset) -> None:
        """An offset of an open transaction is committed to the log."""
        self.pending.add(*record)
        if record.record.group_id not in self.consumer_groups:
            self.group_or_new(record.record.group_id)

    def on_transaction_end(self, end: TransactionEnd) -> None:
        """A marker is committed: the producer's offsets count now, or are gone."""
        for record in self.pending.end(end.producer_id, end.committed):
            self._replay_offset(record)

    def _replay_plain_offset(self, record: OffsetRecord) -> None:
        if self.pending:
            self.pending.on_plain(record)
        self._replay_offset(record)

    def _replay_offset(self, record: OffsetRecord) -> None:
        offsets = self._offsets.get(record.group_id)
        if offsets is None:
            if record.value is None:
                return
            offsets = self._offsets[record.group_id] = GroupOffsets(record.group_id)
            if record.group_id not in self.consumer_groups:
                self.group_or_new(record.group_id)
        offsets.replay(record)
        if not offsets:
            del self._offsets[record.group_id]

    def _replay_consumer(self, record: ConsumerRecord) -> None:
        group = self.consumer_groups.get(record.group_id)
        if record.value is not None:
            if group is None:
                self._forget(record.group_id)
                group = self.consumer_groups[record.group_id] = ConsumerGroup(record.group_id)
            group.replay(record)
        elif group is not None and record.type is not EPOCH:
            group.replay(record)
        elif group is not None:  # the last tombstone of a group
            del self.consumer_groups[record.group_id]
            if self._has_offsets(record.group_id):
                self.group_or_new(record.group_id)

    def _has_offsets(self, group_id: str) -> bool:
        return group_id in self._offsets or self.pending.has_group(group_id)

    def _forget(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.state = State.DEAD

    def adopt(self, record: GroupRecord) -> ClassicGroup:
        """A consumer group became this classic one."""
        group = self.groups[record.group_id] = ClassicGroup.loaded(record, self._limits)
        return group

    # Groups.

    def all_groups(self) -> Iterator[ClassicGroup | ConsumerGroup]:
        yield from self.groups.values()
        yield from self.consumer_groups.values()

    def any_group_or_raise(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        return self.consumer_groups.get(group_id) or self.group_or_raise(group_id)

    def consumer_group_or_raise(self, group_id: str) -> ConsumerGroup:
        group = self.consumer_groups.get(group_id)
        if group is None:
            is_classic = group_id in self.groups
            why = f"Group {group_id} is not a consumer group." if is_classic else f"Group {group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, why)
        return group

    def group_or_new(self, group_id: str) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self._limits)
        return group

    def group_or_raise(self, group_id: str, code: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND) -> ClassicGroup:
        group = self.groups.get(group_id)
        if group is None:
            raise KafkaError(code, f"Group {group_id} not found.")
        return group

    def drop_if_nothing(self, group: ClassicGroup) -> None:
        """A group that nobody joined in the end leaves nothing behind, nor did it write anything."""
        is_used = group.generation or group.pending_members or self._has_offsets(group.group_id)
        if group.is_empty and not is_used and self.groups.get(group.group_id) is group:
            self._forget(group.group_id)

    def delete_group(self, group_id: str) -> list[Record]:
        """What deletes a group without members, offsets and all."""
        group = self.any_group_or_raise(group_id)
        group.check_deletable()
        offsets = {*self.offsets(group_id).tombstones(), *self.pending.tombstones(group_id)}
        return [*sorted(offsets), *_tombstones(group)]

    # Offsets.

    def offsets(self, group_id: str) -> GroupOffsets:
        """Empty for a group that has none."""
        return self._offsets.get(group_id) or GroupOffsets(group_id)

    def check_commit(
        self, request: OffsetCommitRequest, version: int, now: Now, records: Sequence[OffsetRecord] = ()
    ) -> None:
        """Whether this client may commit; a member of a classic group that does shows that it lives."""
        generation = request.generation_id_or_member_epoch
        consumers = self.consumer_groups.get(request.group_id)
        if consumers is not None:
            partitions = [(record.value.topic_id, record.partition) for record in records if record.value is not None]
            consumers.check_commit(request.member_id, generation, version, partitions)
            return
        group = self.groups.get(request.group_id)
        if group is None:
            if generation >= 0:
                is_known = version >= GROUP_NOT_FOUND_SINCE
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if is_known else ErrorCode.ILLEGAL_GENERATION)
            return
        member = group.check_commit(request.member_id, request.group_instance_id, generation)
        if member is not None:
            member.keep(now)

    def check_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Whether this client may commit in a transaction. A client of an old version does not say who it is, and is
        taken at its word; its producer's epoch is what keeps zombies out."""
        generation = request.generation_id
        group = self.consumer_groups.get(request.group_id) or self.groups.get(request.group_id)
        if group is not None:
            group.check_transactional_commit(request.member_id, request.group_instance_id, generation)
        elif generation >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def delete_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]]
    ) -> tuple[list[Record], list[ErrorCode]]:
        """What forgets them, and an answer for each; a consumer's own topics are kept."""
        group = self.any_group_or_raise(group_id)
        if isinstance(group, ClassicGroup):
            group.check_offsets_deletable()
        offsets = self.offsets(group_id)
        records: list[Record] = []
        codes = []
        for topic, partition in partitions:
            is_read = group.is_subscribed_to(topic)
            codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE)
            if not is_read and offsets.get(topic, partition) is not None:
                records.append(OffsetRecord(group_id, topic, partition, None))
        return records, codes

    def forget_topic(self, topic: str, topic_id: bytes) -> list[Record]:
        """What forgets the offsets of a deleted topic."""
        committed = [record for each in self._offsets.values() for record in each.topic_tombstones(topic, topic_id)]
        return [*committed, *self.pending.topic_tombstones(topic, topic_id)]

    def forget_missing_topics(self, known_ids: Container[bytes]) -> list[Record]:
        """What forgets the offsets of topics that were deleted while the shard was not loaded."""
        return [record for each in self._offsets.values() for record in each.missing_topics(known_ids)]

    def expire(self, retention_ms: int, now_ms: int, busy: Container[str] = ()) -> list[Record]:
        """What forgets the offsets whose time is over, and groups of which nothing is left.

        Consumer groups that are `busy` have records on their way, maybe of a member that comes. Groups with offsets of
        open transactions wait for these to end.
        """
        records: list[Record] = []
        for group in self.groups.values():
            if group.state is not State.EMPTY or group.pending_members or self.pending.has_group(group.group_id):
                continue
            offsets = self.offsets(group.group_id)
            had_members = group.protocol_type is not None
            since_ms = group.state_since_ms if had_members else NO_TIMESTAMP
            expired = offsets.expired(since_ms, retention_ms, now_ms)
            records += expired
            if len(expired) == sum(len(each) for _, each in offsets):
                records.append(GroupRecord(group.group_id, None))
        for consumers in self.consumer_groups.values():
            if consumers.group_id in busy or consumers.members or self.pending.has_group(consumers.group_id):
                continue
            records += self._expire_consumers(consumers, retention_ms, now_ms)
        return records

    def _expire_consumers(self, group: ConsumerGroup, retention_ms: int, now_ms: int) -> list[Record]:
        """When it lost its last member is not known, so its offsets count from their commits, as in Kafka."""
        offsets = self.offsets(group.group_id)
        expired = offsets.expired(NO_TIMESTAMP, retention_ms, now_ms)
        is_nothing_left = len(expired) == sum(len(each) for _, each in offsets)
        return [*expired, *(group.tombstones() if is_nothing_left else ())]


def _tombstones(group: ClassicGroup | ConsumerGroup) -> Sequence[Record]:
    return group.tombstones() if isinstance(group, ConsumerGroup) else [GroupRecord(group.group_id, None)]
