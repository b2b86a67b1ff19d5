"""Members of a classic group by raw frames: every field and version is the test's to choose, and nothing is hidden.

    with Member(broker.bootstrap, "group") as member:
        member.join()                 # until the broker answers, twice when it wants the member id
        member.sync({member.id: b"all of it"})

A request that the broker answers later is `begin_join` and then `end_join`; one connection carries one of them.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

import raw

SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 60_000
JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
"""The newest version of each API."""
READY_TIMEOUT_SECONDS = 30.0
OFFSETS_PARTITIONS = 50
"""How many `__consumer_offsets` has on either broker."""


def subscription(*topics: str) -> bytes:
    """What a consumer subscribed to the topics joins with, in version 0."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


class Member(raw.Connection):
    """One member on a connection of its own."""

    def __init__(self, bootstrap: str, group: str, instance: str | None = None, **defaults: Any) -> None:
        super().__init__(bootstrap)
        self.group = group
        self.instance = instance
        self.defaults = defaults
        self.id = ""
        self.generation = -1
        self.version = JOIN

    def begin_join(self, version: int = JOIN, **fields: Any) -> None:
        self.version = version
        self.send("JoinGroup", version, **self._join_fields(version, fields))

    def end_join(self) -> Any:
        """The answer to `begin_join`; the member remembers its id and generation."""
        answer = self.receive("JoinGroup", self.version)
        if answer.member_id:
            self.id = answer.member_id
        if answer.error_code == 0:
            self.generation = answer.generation_id
        return answer

    def join(self, version: int = JOIN, **fields: Any) -> Any:
        """The final answer: MEMBER_ID_REQUIRED is followed by a second request with the id."""
        self.begin_join(version, **fields)
        answer = self.end_join()
        if answer.error_code == raw.Code.member_id_required:
            self.begin_join(version, **{**fields, "member_id": self.id})
            answer = self.end_join()
        return answer

    def begin_sync(self, assignments: Mapping[str, bytes] | None = None, version: int = SYNC, **fields: Any) -> None:
        self.version = version
        parts = [{"member_id": member, "assignment": given} for member, given in (assignments or {}).items()]
        wanted: dict[str, Any] = {"assignments": parts, **self._identity(version, 3)}
        if version >= 5:
            wanted |= {"protocol_type": "consumer", "protocol_name": "range"}
        self.send("SyncGroup", version, **(wanted | fields))

    def end_sync(self) -> Any:
        return self.receive("SyncGroup", self.version)

    def sync(self, assignments: Mapping[str, bytes] | None = None, version: int = SYNC, **fields: Any) -> Any:
        self.begin_sync(assignments, version, **fields)
        return self.end_sync()

    def heartbeat(self, version: int = HEARTBEAT, **fields: Any) -> int:
        return int(self.call("Heartbeat", version, **(self._identity(version, 3) | fields)).error_code)

    def leave(self, version: int = LEAVE, **fields: Any) -> Any:
        wanted: dict[str, Any] = {"group_id": self.group}
        if version < 3:
            wanted["member_id"] = self.id
        else:
            wanted["members"] = [{"member_id": self.id, "group_instance_id": self.instance}]
        return self.call("LeaveGroup", version, **(wanted | fields))

    def commit(self, offsets: Mapping[tuple[str, int], int], version: int = 9, **fields: Any) -> list[int]:
        """Commit as this member; the error codes, one for each partition."""
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, partition), offset in offsets.items():
            part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
            topics.setdefault(topic, []).append(part)
        wanted: dict[str, Any] = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "topics": [{"name": topic, "partitions": parts} for topic, parts in topics.items()],
        }
        if version >= 7:
            wanted["group_instance_id"] = self.instance
        answer = self.call("OffsetCommit", version, **(wanted | fields))
        return [part.error_code for topic in answer.topics for part in topic.partitions]

    def _join_fields(self, version: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        wanted: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "member_id": self.id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription("t")}],
        }
        if version >= 1:
            wanted["rebalance_timeout_ms"] = REBALANCE_TIMEOUT_MS
        if version >= 5:
            wanted["group_instance_id"] = self.instance
        return wanted | self.defaults | dict(fields)

    def _identity(self, version: int, instances_since: int) -> dict[str, Any]:
        wanted: dict[str, Any] = {"group_id": self.group, "generation_id": self.generation, "member_id": self.id}
        if version >= instances_since:
            wanted["group_instance_id"] = self.instance
        return wanted


def find_coordinator(connection: raw.Connection, group: str) -> None:
    """Return when the group can be used. Kafka makes `__consumer_offsets` when asked first, and loads it after that."""

    def is_ready() -> bool:
        found = connection.call("FindCoordinator", 4, key_type=0, coordinator_keys=[group]).coordinators[0]
        described = connection.call("DescribeGroups", 5, groups=[group]).groups[0]
        return bool(found.error_code == described.error_code == 0)

    wait_until(is_ready, READY_TIMEOUT_SECONDS)


def find_every_coordinator(bootstrap: str) -> None:
    """Return when any group can be used: every partition of `__consumer_offsets` is there and loaded.

    A name of one character has its code point as hash, so fifty in a row are one for each of the fifty partitions.
    """
    groups = [chr(ord("0") + number) for number in range(OFFSETS_PARTITIONS)]
    with raw.Connection(bootstrap) as connection:
        find_coordinator(connection, groups[0])

        def are_ready() -> bool:
            described = connection.call("DescribeGroups", 5, groups=groups).groups
            return {each.error_code for each in described} == {0}

        wait_until(are_ready)


def state(member: Member) -> str:
    described = member.call("DescribeGroups", 5, groups=[member.group]).groups[0]
    return str(described.group_state)


def wait_until(is_so: Callable[[], bool], seconds: float = READY_TIMEOUT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
