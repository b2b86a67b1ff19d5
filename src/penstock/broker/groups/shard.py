"""The groups that live in one partition of `__consumer_offsets`, and their offsets. Pure.

Loading a shard is `load` for every record of the partition's log, oldest first, and `on_loaded` at its end. After that
`on_committed` is called with each record that this broker wrote, in the log's order, as soon as it is committed.

A group exists when a member joined or an offset was committed. It ceases to exist when its record is a tombstone, which
is written when it is deleted, or when it is empty and its last offset was forgotten.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from penstock.broker.groups import rebalance
from penstock.broker.groups.group import ClassicGroup, GroupLimits, State
from penstock.broker.groups.offsets import GroupOffsets
from penstock.broker.groups.outcome import Now, Outcome
from penstock.broker.groups.records import (
    NO_TIMESTAMP,
    GroupRecord,
    OffsetRecord,
    Record,
)
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.offset_commit import OffsetCommitRequest

GROUP_NOT_FOUND_SINCE = 9
"""Older clients do not know GROUP_ID_NOT_FOUND as an answer to a commit."""


class Shard:
    def __init__(self, partition: int, limits: GroupLimits) -> None:
        self.partition = partition
        self._limits = limits
        self.groups: dict[str, ClassicGroup] = {}
        self._offsets: dict[str, GroupOffsets] = {}

    # The log.

    def load(self, record: Record) -> None:
        """One record of the log, before the shard is used."""
        if isinstance(record, OffsetRecord):
            self._replay_offset(record)
        elif record.value is None:
            self._forget(record.group_id)
        else:
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
            self._replay_offset(record)
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

    def _replay_offset(self, record: OffsetRecord) -> None:
        offsets = self._offsets.get(record.group_id)
        if offsets is None:
            if record.value is None:
                return
            offsets = self._offsets[record.group_id] = GroupOffsets(record.group_id)
            self.group_or_new(record.group_id)
        offsets.replay(record)
        if not offsets:
            del self._offsets[record.group_id]

    def _forget(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.state = State.DEAD

    # Groups.

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
        is_used = group.generation or group.pending_members or group.group_id in self._offsets
        if group.is_empty and not is_used and self.groups.get(group.group_id) is group:
            self._forget(group.group_id)

    def delete_group(self, group_id: str) -> list[Record]:
        """What deletes a group without members, offsets and all."""
        self.group_or_raise(group_id).check_deletable()
        return [*self.offsets(group_id).tombstones(), GroupRecord(group_id, None)]

    # Offsets.

    def offsets(self, group_id: str) -> GroupOffsets:
        """Empty for a group that has none."""
        return self._offsets.get(group_id) or GroupOffsets(group_id)

    def check_commit(self, request: OffsetCommitRequest, version: int, now: Now) -> None:
        """Whether this client may commit; a member that does shows that it lives."""
        generation = request.generation_id_or_member_epoch
        group = self.groups.get(request.group_id)
        if group is None:
            if generation >= 0:
                is_known = version >= GROUP_NOT_FOUND_SINCE
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if is_known else ErrorCode.ILLEGAL_GENERATION)
            return
        member = group.check_commit(request.member_id, request.group_instance_id, generation)
        if member is not None:
            member.keep(now)

    def delete_offsets(
        self, group_id: str, partitions: Iterable[tuple[str, int]]
    ) -> tuple[list[Record], list[ErrorCode]]:
        """What forgets them, and an answer for each; a consumer's own topics are kept."""
        group = self.group_or_raise(group_id)
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
        return [record for each in self._offsets.values() for record in each.topic_tombstones(topic, topic_id)]

    def forget_missing_topics(self, known_ids: Container[bytes]) -> list[Record]:
        """What forgets the offsets of topics that were deleted while the shard was not loaded."""
        return [record for each in self._offsets.values() for record in each.missing_topics(known_ids)]

    def expire(self, retention_ms: int, now_ms: int) -> list[Record]:
        """What forgets the offsets whose time is over, and groups of which nothing is left."""
        records: list[Record] = []
        for group in self.groups.values():
            if group.state is not State.EMPTY or group.pending_members:
                continue
            offsets = self.offsets(group.group_id)
            had_members = group.protocol_type is not None
            since_ms = group.state_since_ms if had_members else NO_TIMESTAMP
            expired = offsets.expired(since_ms, retention_ms, now_ms)
            records += expired
            if len(expired) == sum(len(each) for _, each in offsets):
                records.append(GroupRecord(group.group_id, None))
        return records
