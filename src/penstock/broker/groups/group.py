"""A classic group: its members, their generation, and the rules that hold between requests. Pure: no clock, no I/O.

    Empty                 no members; offsets may be there
    PreparingRebalance    members join; their answers wait until all have, or the time for it is over
    CompletingRebalance   a generation was made, its leader was told the members, everyone asks for an assignment
    Stable                the leader's assignment is committed and everyone has it
    Dead                  deleted: whoever still holds this object starts over

Who may go where is what `rebalance` does; `join`, `sync` and `leave` take the requests. A generation is hard state when
its record is committed, and not before: a crash while it is being made brings the one before back, whose members find
out by ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID and join again. Who waits for what is soft, and dies with the broker.

Timeouts are deadlines of the monotonic clock. `next_deadline_s` says when the shell must call `rebalance.on_time`;
calling it too early is harmless. A heartbeat only ever moves a deadline back, so it need not touch any timer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.broker.groups.member import Member, names_of
from penstock.broker.groups.outcome import Now
from penstock.broker.groups.records import NO_TIMESTAMP, GroupRecord
from penstock.errors import ErrorCode, KafkaError, MalformedError
from penstock.wire.api.describe_groups import DescribedGroup
from penstock.wire.api.list_groups import ListedGroup
from penstock.wire.compile import decode
from penstock.wire.consumer_subscription import ConsumerProtocolSubscription
from penstock.wire.coordinator.group_metadata import GroupMetadataValue

CONSUMER = "consumer"
"""The protocol type of consumers; Kafka Connect has another."""
CLASSIC = "classic"
"""The type of group, as clients are told."""
NEW_MEMBER_TIMEOUT_MS = 5 * 60 * 1000
"""How long a new member may wait for its first answer (Kafka's constant)."""
NEVER = float("inf")


class State(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The broker's settings for classic groups."""

    initial_rebalance_delay_ms: int = 0
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1


class ClassicGroup:
    """One group. Attributes are changed by this module, `rebalance`, `join`, `sync` and `leave` only."""

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.limits = limits
        self.state = State.EMPTY
        self.state_since_ms = NO_TIMESTAMP
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.pending_members: dict[str, float] = {}
        """Ids that were given out and not yet used -> when they are taken back."""
        self.pending_sync: dict[str, None] = {}
        """Members of this generation that have not asked for their assignment."""
        self.subscribed_topics: frozenset[str] | None = None
        """What the consumers of this generation read; None when it is not known."""
        self.join_deadline_s = NEVER
        self.sync_deadline_s = NEVER
        self.is_initial = False
        """The rebalance under way is the first since the group was empty, and waits `initial_rebalance_delay_ms`."""
        self.initial_remaining_ms = 0
        self.is_member_added = False

    @classmethod
    def loaded(cls, record: GroupRecord, limits: GroupLimits) -> ClassicGroup:
        """As its last record has it."""
        value = record.value
        assert value is not None, "a group that is forgotten is not loaded"
        group = cls(record.group_id, limits)
        group.state = State.STABLE if value.members else State.EMPTY
        group.state_since_ms = value.current_state_timestamp
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        group.leader_id = value.leader
        for stored in value.members:
            group._index(Member.loaded(stored, value.protocol))
        group.subscribed_topics = group._read_subscriptions()
        return group

    # What it is.

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member needs."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def have_all_joined(self) -> bool:
        return not self.pending_members and all(member.awaiting_join for member in self.members.values())

    def next_deadline_s(self) -> float:
        """When something is due, unless a request comes first."""
        sessions = (member.deadline_s for member in self.members.values() if member.may_expire)
        return min(self.join_deadline_s, self.sync_deadline_s, *sessions, *self.pending_members.values(), NEVER)

    def is_subscribed_to(self, topic: str) -> bool:
        """A group of consumers whose subscriptions cannot be read counts as subscribed to everything."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    # What a request must get right.

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member; UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID when another has taken the instance id over."""
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if owner != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def check_commit(self, member_id: str, instance_id: str | None, generation: int) -> Member | None:
        """Who commits; None for one from outside, who may while the group has no members."""
        if self.state is State.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and self.state is State.EMPTY:
            return None
        if generation < 0 and not member_id and instance_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.check_member(member_id, instance_id)
        self.check_generation(generation)
        if self.state is State.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    def check_transactional_commit(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Who commits in a transaction: anyone who does not say who it is, or a member of this generation."""
        if self.state is State.DEAD:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and self.state is State.EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(generation)

    def check_deletable(self) -> None:
        if self.state is State.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if self.state is not State.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_offsets_deletable(self) -> None:
        """Only consumers tell what they are subscribed to; other groups must be empty."""
        if self.state is State.DEAD:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        if self.state is not State.EMPTY and self.protocol_type != CONSUMER:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether a member with these protocols fits in: one of them must be known to all members."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        if self.protocol_type != protocol_type:
            return False
        candidates = self.candidates()
        return any(name in candidates for name in protocols)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: Now) -> ErrorCode:
        if self.state is State.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        member = self.check_member(member_id, instance_id)
        self.check_generation(generation)
        member.keep(now)
        preparing = self.state is State.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE

    # Members and generations.

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        self.pending_members.pop(member.member_id, None)
        self._index(member)
        if self.leader_id is None:
            self.leader_id = member.member_id

    def _index(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """A member, or an id that was given out. The next member leads when the leader goes."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_members.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def rename(self, member: Member, member_id: str) -> Member:
        """A static member came back under a new id and keeps its place, also as leader."""
        renamed = member.renamed(member_id)
        self.members = {
            each.member_id: each for each in (renamed if old is member else old for old in self.members.values())
        }
        self._index(renamed)
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        return renamed

    def elect_joined_leader(self) -> bool:
        """The leader stays if it has joined; else one that has takes over. False when nobody has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((member for member in self.members.values() if member.awaiting_join is not None), None)
        if joined is not None:
            self.leader_id = joined.member_id
        return joined is not None

    def candidates(self) -> set[str]:
        """The protocols that every member knows."""
        counts = Counter(name for member in self.members.values() for name in set(names_of(member.protocols)))
        return {name for name, count in counts.items() if count == len(self.members)}

    def select_protocol(self) -> str:
        """Each member votes for the one it likes best of those that all know."""
        candidates = self.candidates()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def begin_generation(self, now: Now) -> None:
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._read_subscriptions()
        self.transition(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now)
        self.pending_sync = dict.fromkeys(self.members)

    def transition(self, state: State, now: Now) -> None:
        self.state = state
        self.state_since_ms = now.wall_ms

    def _read_subscriptions(self) -> frozenset[str] | None:
        """Version 0 is the beginning of every version. None when it is not a group of consumers or bytes are odd."""
        if self.protocol_type != CONSUMER:
            return None
        topics: set[str] = set()
        try:
            for member in self.members.values():
                metadata = member.metadata(self.protocol_name)
                topics.update(decode(ConsumerProtocolSubscription, 0, memoryview(metadata)[2:]).topics)
        except MalformedError:
            return None
        return frozenset(topics)

    # As others see it.

    def record(self, assignments: Mapping[str, bytes]) -> GroupRecord:
        """The generation as it is stored."""
        members = [
            member.as_stored(self.protocol_name, assignments.get(member.member_id, b""))
            for member in self.members.values()
        ]
        value = GroupMetadataValue(
            self.protocol_type or "",
            self.generation,
            self.protocol_name,
            self.leader_id,
            self.state_since_ms,
            members,
        )
        return GroupRecord(self.group_id, value)

    def listed(self) -> ListedGroup:
        return ListedGroup(self.group_id, self.protocol_type or "", self.state.value, CLASSIC)

    def described(self) -> DescribedGroup:
        protocol = self.protocol_name if self.state is State.STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol_data=protocol or "",
            members=[member.as_described(protocol) for member in self.members.values()],
        )
