"""A group's machine driven by a script, and what it said: the transcripts in `transcripts/`.

A line is a command; the lines that begin with `>` below it are what must come of it, in order. `#` begins a comment.

    join a                    a asks to join, with the id it has; options: version instance protocols topics session
                              rebalance (both in seconds) as (another id) reason
    sync a  a=x b=y           a asks for its assignment, and brings one when it leads; options: generation
    heartbeat a, leave a      option: generation, instance
    commit a  t-0=5           a commits offsets; `commit -` comes from outside; options: version generation keep
    wait 10                   seconds go by; whatever is due happens when it is due
    hold / release / fail     records wait to be committed; they are; they cannot be written
    reload                    the broker crashes and loads what was committed
    delete, expire 60         the group is deleted; offsets are kept for so many seconds
    show                      what a client that describes the group sees, and its offsets

A member that is new gets the id `name-1`, then `name-2`. What comes out: answers (`a:`), records (`write`), and the
state when it changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from members import subscription
from penstock.broker.groups import rebalance
from penstock.broker.groups.group import NEVER, GroupLimits
from penstock.broker.groups.join import join
from penstock.broker.groups.leave import leave
from penstock.broker.groups.outcome import Client, Now, Outcome
from penstock.broker.groups.records import (
    NO_TIMESTAMP,
    CommittedOffset,
    GroupRecord,
    OffsetRecord,
    Record,
    decode,
    encode,
)
from penstock.broker.groups.shard import Shard
from penstock.broker.groups.sync import sync
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.api.leave_group import MemberIdentity
from penstock.wire.api.offset_commit import OffsetCommitRequest
from penstock.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "g"
START_MS = 1_000_000


class Script:
    """One shard with one group."""

    def __init__(self, **limits: int) -> None:
        self.limits = GroupLimits(**limits)
        self.shard = Shard(0, self.limits)
        self.elapsed_ms = 0
        self.lines: list[str] = []
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.id_counts: dict[str, int] = {}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.waiting: list[list[Record]] = []
        self.is_held = False
        self.is_failing = False
        self.last_state = ""

    def run(self, line: str) -> list[str]:
        """What came of one command."""
        self.lines = []
        name, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        getattr(self, f"do_{name}")(names, options)
        self._note_state()
        return self.lines

    # Commands.

    def do_join(self, names: list[str], options: dict[str, str]) -> None:
        (name,) = names
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=1000 * int(options.get("session", 10)),
            rebalance_timeout_ms=1000 * int(options.get("rebalance", 60)),
            member_id=options.get("as", self.ids.get(name, "")),
            group_instance_id=options.get("instance"),
            protocol_type=options.get("type", "consumer"),
            protocols=[
                JoinGroupRequestProtocol(protocol, subscription(*options.get("topics", "t").split(",")))
                for protocol in options.get("protocols", "range").split(",")
                if protocol
            ],
            reason=options.get("reason"),
        )
        client = Client(int(options.get("version", 9)), name, "/host")
        if request.member_id and GROUP not in self.shard.groups:
            self.lines.append(f"{name}: UNKNOWN_MEMBER_ID")
            return
        out = Outcome()
        group = self.shard.group_or_new(GROUP)
        new_id = "" if request.member_id else self._new_id(name)
        join(group, request, client, new_id, self._ticket(name), self.now, out)
        self._finish(out)

    def do_sync(self, names: list[str], options: dict[str, str]) -> None:
        (name,) = names
        generation = int(options.pop("generation", self.generations.get(name, -1)))
        instance = options.pop("instance", None)
        protocol = options.pop("protocol", None)
        assignments = [
            SyncGroupRequestAssignment(self.ids.get(who, who), what.encode()) for who, what in options.items()
        ]
        request = SyncGroupRequest(GROUP, generation, self.ids.get(name, name), instance, None, protocol, assignments)
        out = Outcome()
        sync(self.shard.groups[GROUP], request, self._ticket(name), self.now, out)
        self._finish(out)

    def do_heartbeat(self, names: list[str], options: dict[str, str]) -> None:
        (name,) = names
        generation = int(options.get("generation", self.generations.get(name, -1)))
        try:
            group = self.shard.group_or_raise(GROUP, ErrorCode.UNKNOWN_MEMBER_ID)
            code = group.heartbeat(self.ids.get(name, name), options.get("instance"), generation, self.now)
        except KafkaError as error:
            code = error.code
        self.lines.append(f"{name}: {code.name}")

    def do_leave(self, names: list[str], options: dict[str, str]) -> None:
        leaving = [MemberIdentity(self.ids.get(name, name), None, options.get("reason")) for name in names]
        if "instance" in options:
            leaving.append(MemberIdentity("", options["instance"], options.get("reason")))
        out = Outcome()
        response = leave(self.shard.groups[GROUP], leaving, self.now, out)
        self.lines += [
            f"{each.member_id or each.group_instance_id}: {ErrorCode(each.error_code).name}"
            for each in response.members
        ]
        self._finish(out)

    def do_commit(self, names: list[str], options: dict[str, str]) -> None:
        (name,) = names
        generation = int(options.pop("generation", self.generations.get(name, -1)))
        version = int(options.pop("version", 9))
        keep = options.pop("keep", None)
        request = OffsetCommitRequest(
            GROUP, generation, "" if name == "-" else self.ids.get(name, name), options.pop("instance", None)
        )
        try:
            self.shard.check_commit(request, version, self.now)
        except KafkaError as error:
            self.lines.append(f"{name}: {error.code.name}")
            return
        expires_ms = NO_TIMESTAMP if keep is None else self.now.wall_ms + 1000 * int(keep)
        self._write(
            [
                OffsetRecord(GROUP, *_partition(where), CommittedOffset(int(at), -1, "", self.now.wall_ms, expires_ms))
                for where, at in options.items()
            ]
        )

    def do_wait(self, names: list[str], _options: dict[str, str]) -> None:
        end_ms = self.elapsed_ms + int(1000 * float(names[0]))
        while (group := self.shard.groups.get(GROUP)) is not None:
            due_s = group.next_deadline_s()
            if due_s == NEVER or due_s * 1000 > end_ms:
                break
            self.elapsed_ms = max(self.elapsed_ms, round(due_s * 1000))
            before = len(self.lines)
            out = Outcome()
            rebalance.on_time(group, self.now, out)
            self._finish(out)
            if len(self.lines) > before:
                self.lines.insert(before, f"at {self.elapsed_ms / 1000:g}")
            self._note_state()
        self.elapsed_ms = end_ms

    def do_hold(self, _names: list[str], _options: dict[str, str]) -> None:
        self.is_held = True

    def do_release(self, _names: list[str], _options: dict[str, str]) -> None:
        self.is_held = False
        waiting, self.waiting = self.waiting, []
        for records in waiting:
            self._commit(records)

    def do_fail(self, _names: list[str], _options: dict[str, str]) -> None:
        """The next write fails."""
        self.is_failing = True

    def do_reload(self, _names: list[str], _options: dict[str, str]) -> None:
        self.shard = Shard(0, self.limits)
        self.waiting = []
        for key, value in self.log:
            for record in decode(key, value):
                self.shard.load(record)
        out = Outcome()
        self.shard.on_loaded(self.now, out)
        self._finish(out)

    def do_delete(self, _names: list[str], _options: dict[str, str]) -> None:
        try:
            self._write(self.shard.delete_group(GROUP))
        except KafkaError as error:
            self.lines.append(error.code.name)

    def do_expire(self, names: list[str], _options: dict[str, str]) -> None:
        self._write(self.shard.expire(1000 * int(names[0]), self.now.wall_ms))

    def do_show(self, _names: list[str], _options: dict[str, str]) -> None:
        group = self.shard.groups.get(GROUP)
        if group is None:
            self.lines.append("no group")
            return
        described = group.described()
        members = [f"{each.member_id}={each.member_assignment.decode()}" for each in described.members]
        protocol = described.protocol_data or "-"
        self.lines.append(f"{described.group_state} {group.generation} {protocol} leader={group.leader_id}")
        self.lines += members
        self.lines += [
            f"{topic}-{partition} at {committed.offset}"
            for topic, offsets in self.shard.offsets(GROUP)
            for partition, committed in sorted(offsets.items())
        ]

    # What comes out.

    @property
    def now(self) -> Now:
        return Now(START_MS + self.elapsed_ms, self.elapsed_ms / 1000)

    def _new_id(self, name: str) -> str:
        self.id_counts[name] = self.id_counts.get(name, 0) + 1
        return f"{name}-{self.id_counts[name]}"

    def _ticket(self, name: str) -> Any:
        def answer(response: Any) -> None:
            self.lines.append(f"{name}: {self._say(name, response)}")

        return answer

    def _say(self, name: str, response: Any) -> str:
        if hasattr(response, "assignment"):
            if response.error_code:
                return ErrorCode(response.error_code).name
            return f"assigned {response.assignment.decode() or '-'}"
        if response.member_id:
            self.ids[name] = response.member_id
        if response.error_code:
            if response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.ids.pop(name, None)
            return f"{ErrorCode(response.error_code).name} {response.member_id}".rstrip()
        self.generations[name] = response.generation_id
        said = f"generation {response.generation_id} {response.protocol_name} leader={response.leader}"
        if response.skip_assignment:
            said += " skip"
        members = " ".join(each.member_id for each in response.members)
        return f"{said} [{members}]" if members else said

    def _finish(self, out: Outcome) -> None:
        self.lines += [f"because {reason.split(': ', 1)[1]}" for reason in out.reasons]
        for ticket, response in out.answers:
            ticket(response)
        if out.records:
            self._write(out.records)
        group = self.shard.groups.get(GROUP)
        if group is not None:
            self.shard.drop_if_nothing(group)

    def _write(self, records: Iterable[Record]) -> None:
        records = list(records)
        self.lines += [f"write {_describe(record)}" for record in records]
        if self.is_failing:
            self.is_failing = False
            out = Outcome()
            for record in records:
                self.shard.on_write_failed(record, ErrorCode.NOT_COORDINATOR, self.now, out)
            self._finish(out)
        elif self.is_held:
            self.waiting.append(records)
        else:
            self._commit(records)

    def _commit(self, records: list[Record]) -> None:
        self.log += [encode(record) for record in records]
        out = Outcome()
        for record in records:
            self.shard.on_committed(record, self.now, out)
        self._finish(out)

    def _note_state(self) -> None:
        group = self.shard.groups.get(GROUP)
        state = "gone" if group is None else group.state.value
        if self.last_state and state != self.last_state:
            self.lines.append(state)
        self.last_state = state


def _describe(record: Record) -> str:
    if isinstance(record, OffsetRecord):
        where = f"{record.topic}-{record.partition}"
        return f"{where} forgotten" if record.value is None else f"{where} at {record.value.offset}"
    assert isinstance(record, GroupRecord)
    if record.value is None:
        return "group forgotten"
    members = " ".join(f"{each.member_id}={each.assignment.decode()}" for each in record.value.members)
    return f"generation {record.value.generation} [{members}]"


def _partition(text: str) -> tuple[str, int]:
    topic, _, index = text.rpartition("-")
    return topic, int(index)
