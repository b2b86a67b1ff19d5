"""Requests to a group coordinator that are encoded once and sent many times, and the state that they need.

    Commits      OffsetCommit of one partition by groups without members ("simple" groups), each group in its turn
    Heartbeats   Heartbeat of the only member of each of some groups; the members join first

Names have one length, so all frames of a load have one size, and the error code stands at one place in every answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import raw
from benchmarks.broker.systems import System
from members import Member

COMMIT_VERSION = 9
"""What librdkafka sends; by name."""
HEARTBEAT_VERSION = 4
HEARTBEAT_ERROR_AT = 4 + 4 + 1 + 4
"""length, correlation id, tags, throttle"""
COMMITTED_OFFSET = 12_345
SESSION_TIMEOUT_MS = 300_000
"""Longer than any run, also of a round on the other broker."""
GROUPS_PER_FETCH = 100


@dataclass(frozen=True, slots=True)
class Commits:
    """What `count` simple groups commit for partition 0 of a topic."""

    topic: str
    count: int

    @property
    def groups(self) -> list[str]:
        return [f"{self.topic}-{number:05}" for number in range(self.count)]

    def frames(self) -> list[bytes]:
        part = {"partition_index": 0, "committed_offset": COMMITTED_OFFSET, "committed_metadata": ""}
        topics = [{"name": self.topic, "partitions": [part]}]
        return [
            raw.encode_request("OffsetCommit", COMMIT_VERSION, 1, {"group_id": group, "topics": topics})
            for group in self.groups
        ]

    @property
    def error_at(self) -> int:
        """length, correlation id, tags, throttle, topics, name, partitions, index"""
        return 4 + 4 + 1 + 4 + 1 + 1 + len(self.topic) + 1 + 4

    def check(self, system: System) -> None:
        """Every group must have what it committed."""
        groups = self.groups
        with raw.Connection(system.bootstrap) as connection:
            for start in range(0, len(groups), GROUPS_PER_FETCH):
                self._check_some(connection, groups[start : start + GROUPS_PER_FETCH])

    def _check_some(self, connection: raw.Connection, groups: list[str]) -> None:
        topics = [{"name": self.topic, "partition_indexes": [0]}]
        asked = [{"group_id": group, "topics": topics} for group in groups]
        for answer in connection.call("OffsetFetch", 8, groups=asked, require_stable=False).groups:
            found = [part.committed_offset for topic in answer.topics for part in topic.partitions]
            if found != [COMMITTED_OFFSET]:
                raise RuntimeError(f"{answer.group_id} committed {COMMITTED_OFFSET} and has {found}")


@contextmanager
def heartbeats(system: System, topic: str, count: int) -> Iterator[list[bytes]]:
    """One request for each of `count` groups, while each has its member; they leave at the end."""
    with ExitStack() as stack:
        members = [
            stack.enter_context(Member(system.bootstrap, f"{topic}-{number:05}", session_timeout_ms=SESSION_TIMEOUT_MS))
            for number in range(count)
        ]
        _join_all(members)
        yield [_heartbeat(member) for member in members]
        for member in members:
            member.leave()


def _join_all(members: list[Member]) -> None:
    """At the same time: Kafka lets a new group wait for 3 seconds."""
    for member in members:
        member.begin_join()
    for member in members:
        member.end_join()
    for member in members:
        member.begin_join()
    for member in members:
        if (answer := member.end_join()).error_code:
            raise RuntimeError(f"{member.group} could not be joined: {answer}")
    for member in members:
        if (synced := member.sync({member.id: b""})).error_code:
            raise RuntimeError(f"{member.group} could not be synced: {synced}")


def _heartbeat(member: Member) -> bytes:
    fields = {"group_id": member.group, "generation_id": member.generation, "member_id": member.id}
    return raw.encode_request("Heartbeat", HEARTBEAT_VERSION, 1, fields)
