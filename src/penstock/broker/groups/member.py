"""A member of a classic group: who it is, how it can be assigned work, and what it waits for.

A member that waits for the answer to its JoinGroup or SyncGroup cannot send heartbeats, so it does not time out by them
while it waits. A new one, which never had an answer, does: nobody would notice if it had gone.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from penstock.broker.groups.outcome import Client, Now, Ticket
from penstock.wire.api.describe_groups import DescribedGroupMember
from penstock.wire.api.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from penstock.wire.coordinator.group_metadata import MemberMetadata

NO_ASSIGNMENT = b""
REBALANCE_TIMEOUT_SINCE = 1

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata), the one that the member likes best first."""


class Member:
    """One member. `deadline_s` is when it is taken for gone unless it says something before."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "deadline_s",
        "instance_id",
        "is_new",
        "join_answer",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = NO_ASSIGNMENT,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.deadline_s = 0.0
        self.awaiting_join: Ticket | None = None
        self.awaiting_sync: Ticket | None = None
        self.join_answer: JoinGroupResponse | None = None
        """The answer to `awaiting_join` that is given once the member's new id is committed."""

    @classmethod
    def joining(cls, member_id: str, request: JoinGroupRequest, client: Client) -> Member:
        member = cls(member_id, request.group_instance_id, client.client_id, client.host, 0, 0, ())
        member.is_new = True
        member.update(request, client)
        return member

    @classmethod
    def loaded(cls, stored: MemberMetadata, protocol: str | None) -> Member:
        """As a record has it; the oldest ones have no rebalance timeout."""
        return cls(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.session_timeout if stored.rebalance_timeout < 0 else stored.rebalance_timeout,
            stored.session_timeout,
            ((protocol or "", stored.subscription),),
            stored.assignment,
        )

    def update(self, request: JoinGroupRequest, client: Client) -> None:
        """Take over what the member says when it joins again."""
        self.session_timeout_ms = request.session_timeout_ms
        has_own = client.version >= REBALANCE_TIMEOUT_SINCE
        self.rebalance_timeout_ms = request.rebalance_timeout_ms if has_own else request.session_timeout_ms
        self.protocols = protocols_of(request)

    def renamed(self, member_id: str) -> Member:
        """The same static member under a new id."""
        return Member(
            member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocols,
            self.assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def may_expire(self) -> bool:
        return self.is_new or (self.awaiting_join is None and self.awaiting_sync is None)

    def keep(self, now: Now) -> None:
        """It lives: its session begins anew."""
        self.deadline_s = now.monotonic_s + self.session_timeout_ms / 1000

    def vote(self, candidates: Container[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def as_joined(self, protocol: str | None) -> JoinGroupResponseMember:
        """As the leader sees it."""
        return JoinGroupResponseMember(self.member_id, self.instance_id, self.metadata(protocol))

    def as_stored(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )

    def as_described(self, protocol: str | None) -> DescribedGroupMember:
        """`protocol` is None unless the group is stable."""
        metadata = b"" if protocol is None else self.metadata(protocol)
        return DescribedGroupMember(
            self.member_id, self.instance_id, self.client_id, self.client_host, metadata, self.assignment
        )


def protocols_of(request: JoinGroupRequest) -> Protocols:
    return tuple((each.name, each.metadata) for each in request.protocols)


def names_of(protocols: Sequence[tuple[str, bytes]]) -> list[str]:
    return [name for name, _ in protocols]
