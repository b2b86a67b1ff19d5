"""A consumer group's machine driven by a script, and what it said: the transcripts in `consumer_transcripts/`.

A line is a command; the lines that begin with `>` below it are what must come of it, in order. `#` begins a comment.

    topic t 4                 the topic exists, with so many partitions; `topic t 0`: it is gone
    join a                    a joins; options: topics regex instance assignor rebalance (seconds) as (another id)
    beat a                    a sends a heartbeat that says nothing; options: epoch instance topics regex
                              have=t-0,t-1 (what it says that it has; `have=` is nothing)
    leave a, pause a          a leaves; a static member leaves for now
    commit a t-0=5            a commits offsets; `commit -` comes from outside; options: epoch version
    interval 10               targets are made at most so often, in seconds
    wait 10                   seconds go by; whatever is due happens when it is due
    reload                    the broker crashes and loads what was committed
    delete, expire 60         the group is deleted; offsets are kept for so many seconds
    show                      what a client that describes the group sees

What comes out: answers (`a:` with the epoch, and the partitions when the answer has them), and the state when it
changed. A member's name is its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from penstock.broker.groups.assignors import TopicIdPartition
from penstock.broker.groups.consumer_group import ConsumerGroup
from penstock.broker.groups.consumer_heartbeat import ConsumerLimits, check_request, depart, heartbeat
from penstock.broker.groups.consumer_records import CURRENT, by_topic
from penstock.broker.groups.group import GroupLimits
from penstock.broker.groups.outcome import Client, Now, Outcome
from penstock.broker.groups.records import CommittedOffset, OffsetRecord, Record, decode, encode
from penstock.broker.groups.shard import Shard
from penstock.errors import KafkaError
from penstock.metadata.image import PartitionImage, TopicImage
from penstock.metadata.records import TopicRecord
from penstock.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from penstock.wire.api.offset_commit import OffsetCommitRequest

GROUP = "g"
START_MS = 1_000_000


class ConsumerScript:
    """One shard with one group, and the topics of a cluster."""

    def __init__(self, **limits: Any) -> None:
        self.limits = ConsumerLimits(**limits)
        self.shard = Shard(0, GroupLimits())
        self.topics: dict[str, TopicImage] = {}
        self.topic_count = 0
        self.elapsed_ms = 0
        self.epochs: dict[str, int] = {}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.lines: list[str] = []
        self.last_state = ""

    @property
    def now(self) -> Now:
        return Now(START_MS + self.elapsed_ms, self.elapsed_ms / 1000)

    @property
    def group(self) -> ConsumerGroup | None:
        return self.shard.consumer_groups.get(GROUP)

    def run(self, line: str) -> list[str]:
        """What came of one command."""
        self.lines = []
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        try:
            getattr(self, f"do_{name}")(names, options)
        except KafkaError as error:
            self.lines.append(f"{names[0] if names else name}: {error.code.name}")
        self._note_state()
        return self.lines

    # Commands.

    def do_topic(self, names: list[str], _options: dict[str, str]) -> None:
        name, count = names[0], int(names[1])
        self.topics = dict(self.topics)
        known = self.topics.pop(name, None)
        if count:
            self.topic_count += known is None
            topic_id = known.topic_id if known else self.topic_count.to_bytes(16, "big")
            parts = tuple(PartitionImage(index, 1, 0, (1,), (1,), 0, 0) for index in range(count))
            self.topics[name] = TopicImage(name, topic_id, False, parts, 0, 0, TopicRecord(name, topic_id, {}, 0))

    def do_join(self, names: list[str], options: dict[str, str]) -> None:
        (name,) = names
        self._send(
            name,
            int(options.get("version", 1)),
            member_id=options.get("as", name),
            member_epoch=0,
            instance_id=options.get("instance"),
            rebalance_timeout_ms=1000 * int(options.get("rebalance", 60)),
            subscribed_topic_names=_words(options.get("topics", "" if "regex" in options else "t")),
            subscribed_topic_regex=options.get("regex"),
            server_assignor=options.get("assignor"),
            topic_partitions=[],
        )

    def do_beat(self, names: list[str], options: dict[str, str]) -> None:
        (name,) = names
        said: dict[str, Any] = {}
        if "have" in options:
            parts = [self.partition(word) for word in _words(options["have"])]
            said["topic_partitions"] = [TopicPartitions(topic, indexes) for topic, indexes in by_topic(parts).items()]
        if "topics" in options:
            said["subscribed_topic_names"] = _words(options["topics"])
        if "regex" in options:
            said["subscribed_topic_regex"] = options["regex"]
        epoch = int(options.get("epoch", self.epochs.get(name, 1)))
        member_id = options.get("as", name)
        self._send(name, 1, member_id=member_id, member_epoch=epoch, instance_id=options.get("instance"), **said)

    def do_leave(self, names: list[str], options: dict[str, str]) -> None:
        (name,) = names
        self._send(name, 1, member_id=name, member_epoch=-1, instance_id=options.get("instance"))

    def do_pause(self, names: list[str], options: dict[str, str]) -> None:
        (name,) = names
        self._send(name, 1, member_id=name, member_epoch=-2, instance_id=options.get("instance"))

    def do_commit(self, names: list[str], options: dict[str, str]) -> None:
        (name,) = names
        version = int(options.pop("version", 9))
        epoch = int(options.pop("epoch", self.epochs.get(name, -1)))
        records = []
        for word, offset in options.items():
            topic, _, index = word.rpartition("-")
            value = CommittedOffset(int(offset), -1, "", self.now.wall_ms, topic_id=self.topics[topic].topic_id)
            records.append(OffsetRecord(GROUP, topic, int(index), value))
        request = OffsetCommitRequest(GROUP, epoch, "" if name == "-" else name)
        self.shard.check_commit(request, version, self.now, records)
        self._write(records)
        self.lines.append(f"{name}: committed")

    def do_interval(self, names: list[str], _options: dict[str, str]) -> None:
        self.limits = replace(self.limits, assignment_interval_ms=1000 * int(names[0]))

    def do_wait(self, names: list[str], _options: dict[str, str]) -> None:
        end_ms = self.elapsed_ms + round(1000 * float(names[0]))
        while self.group is not None and self.group.next_deadline_s() * 1000 <= end_ms:
            self.elapsed_ms = max(self.elapsed_ms, round(self.group.next_deadline_s() * 1000))
            late = self.group.overdue(self.now)
            if late:
                self.lines.append(f"gone: {' '.join(late)}")
                self.depart(late)
        self.elapsed_ms = end_ms

    def do_reload(self, _names: list[str], _options: dict[str, str]) -> None:
        self.shard = self.loaded()
        for group in self.shard.consumer_groups.values():
            group.on_loaded(self.now, self.limits.session_timeout_ms)

    def do_delete(self, _names: list[str], _options: dict[str, str]) -> None:
        self._write(self.shard.delete_group(GROUP))

    def do_expire(self, names: list[str], _options: dict[str, str]) -> None:
        self._write(self.shard.expire(1000 * int(names[0]), self.now.wall_ms))

    def do_show(self, _names: list[str], _options: dict[str, str]) -> None:
        group = self.shard.consumer_group_or_raise(GROUP)
        self.lines.append(f"{group.state.value} {group.epoch} {group.assignment_epoch}")
        for member in group.members.values():
            words = [member.member_id, str(member.epoch), member.state.name, *self.words(member.assigned)]
            words += [f"-{word}" for word in self.words(member.pending_revocation)]
            self.lines.append(" ".join([*words, "target", *self.words(group.targets.get(member.member_id, ()))]))
        for topic, offsets in self.shard.offsets(GROUP):
            self.lines += [f"{topic}-{index}={committed.offset}" for index, committed in offsets.items()]

    # What they do.

    def partition(self, word: str) -> TopicIdPartition:
        topic, _, index = word.rpartition("-")
        return self.topics[topic].topic_id, int(index)

    def words(self, parts: Iterable[TopicIdPartition]) -> list[str]:
        names = {topic.topic_id: topic.name for topic in self.topics.values()}
        return [f"{names.get(topic, '?')}-{index}" for topic, index in sorted(parts)]

    def loaded(self) -> Shard:
        """What a broker that starts now finds."""
        shard = Shard(0, GroupLimits())
        for key, value in self.log:
            for record in decode(key, value):
                shard.load(record)
        return shard

    def send(self, version: int, **fields: Any) -> Any:
        """The answer to a heartbeat; KafkaError when it is refused."""
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, **fields)
        check_request(request, version, self.limits)
        group = self.group
        if group is None and request.member_epoch == 0:
            group = ConsumerGroup(GROUP)
        client = Client(version, "client", "/host")
        group = group or self.shard.consumer_group_or_raise(GROUP)
        decision = heartbeat(group, request, client, self.topics, self.limits, self.now)
        self._write(decision.records)
        if decision.is_heard:
            has_moved = any(record.type is CURRENT for record in decision.records)
            group = self.shard.consumer_groups[GROUP]
            group.on_heard(request.member_id, self.now, self.limits.session_timeout_ms, has_moved)
        return decision.response

    def depart(self, member_ids: Sequence[str]) -> None:
        assert self.group is not None
        self._write(depart(self.group, member_ids, self.topics))

    def _send(self, name: str, version: int, **fields: Any) -> None:
        response = self.send(version, **fields)
        self.epochs[name] = response.member_epoch
        given = response.assignment
        parts = [] if given is None else [(t.topic_id, i) for t in given.topic_partitions for i in t.partitions]
        said = "" if given is None else " ".join(["", "has", *(self.words(parts) or ["nothing"])])
        self.lines.append(f"{name}: epoch {response.member_epoch}{said}")

    def _write(self, records: Iterable[Record]) -> None:
        for record in records:
            key, value = encode(record)
            self.log.append((key, value))
            for read in decode(key, value):
                self.shard.on_committed(read, self.now, Outcome())

    def _note_state(self) -> None:
        state = self.group.state.value if self.group is not None else "none"
        if state != self.last_state:
            self.last_state = state
            self.lines.append(state)


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]
