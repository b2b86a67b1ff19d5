"""Groups from outside: which there are, who is in them, how far they have read; set their offsets, delete them.

    groups = Groups(cluster)
    groups.describe(["billing"])[0].members
    groups.committed("billing")                                     # partition -> the next offset to read
    groups.commit("billing", {TopicPartition("orders", 0): 42})     # only while nobody is in the group
    groups.delete("billing")

Rules:
- a group's coordinator answers for it: it is looked up for each attempt, because it may move;
- consumer groups (KIP-848) are described by ConsumerGroupDescribe, classic ones and all groups of older brokers by
  DescribeGroups; of other kinds (share, streams) only the listing is known;
- offsets of topics that are deleted are not told;
- no member is made by any of this: nothing rebalances.

Joining a group is the facade's work (`penstock.Consumer`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from penstock.client.cluster import Cluster
from penstock.client.metadata import error_code
from penstock.errors import ErrorCode, KafkaError, MalformedError
from penstock.types import TopicPartition
from penstock.wire.api import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    find_coordinator,
    list_groups,
    offset_commit,
    offset_fetch,
)
from penstock.wire.api.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from penstock.wire.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from penstock.wire.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from penstock.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.wire.api.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from penstock.wire.compile import decode
from penstock.wire.consumer_assignment import ConsumerProtocolAssignment

CLASSIC, CONSUMER = "classic", "consumer"
"""The types of group that can be described."""

CONSUMER_PROTOCOL = "consumer"
"""The protocol type of classic groups whose assignments we can read; Kafka Connect has others."""

_DEAD = "Dead"
_GROUP_KEY = 0
_NO_OFFSET = -1
_VERSION_BYTES = 2

_IN_USE = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
)
"""What a coordinator answers to a commit from outside while there are members."""


class UnknownGroupError(KafkaError):
    """No group of that name."""

    def __init__(self, group: str) -> None:
        words = f"There is no group {group!r}. `penstock group list` shows those that there are."
        super().__init__(ErrorCode.GROUP_ID_NOT_FOUND, words)


class ActiveGroupError(KafkaError):
    """What was asked for needs a group without members."""

    def __init__(self, group: str) -> None:
        words = f"Group {group!r} has members now. Stop its consumers first, or wait until their sessions time out."
        super().__init__(ErrorCode.NON_EMPTY_GROUP, words)


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group in short; brokers before Kafka 3.8 do not tell the type, nor those before 2.6 the state."""

    name: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A consumer, and the partitions that it has.

    Only in a consumer group does a member have an epoch, and a target: the partitions that it shall have.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group with its members. Only a consumer group has epochs: its own, and that of its target."""

    name: str
    state: str
    type: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


class Groups:
    """What can be asked of a cluster about its groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def list_groups(self) -> list[ListedGroup]:
        """Every group by name; each broker is asked for those that it coordinates."""

        def attempt(deadline: float) -> list[ListedGroup]:
            found = []
            for node_id in self._cluster.refresh((), deadline=deadline).nodes:
                answer = self._cluster.request(list_groups.API, ListGroupsRequest(), node_id=node_id, deadline=deadline)
                response = cast("ListGroupsResponse", answer)
                _check(response.error_code, None, f"Broker {node_id} does not tell its groups")
                found += [
                    ListedGroup(each.group_id, each.group_state, each.group_type.lower(), each.protocol_type)
                    for each in response.groups
                ]
            return sorted(found, key=lambda group: group.name)

        return self._cluster.retry(attempt)

    def describe(self, names: Collection[str]) -> list[GroupInfo]:
        """These groups in this order; UnknownGroupError when one is not there."""

        found = self.find(names)
        for name in names:
            if name not in found:
                raise UnknownGroupError(name)
        return [found[name] for name in names]

    def find(self, names: Collection[str]) -> dict[str, GroupInfo]:
        """Those of these groups that exist, by name."""
        return self._cluster.retry(lambda deadline: self._find(names, deadline))

    def committed(self, name: str) -> dict[TopicPartition, int]:
        """All that the group has committed: the next offset to read in each partition."""
        return self.committed_by([name])[name]

    def committed_by(self, names: Collection[str]) -> dict[str, dict[TopicPartition, int]]:
        """All that each of these groups has committed. What topics there are is asked once, however many groups."""
        answers: dict[str, OffsetFetchResponse] = {}

        def attempt(deadline: float) -> dict[str, dict[TopicPartition, int]]:
            missing = [name for name in names if name not in answers]
            coordinators = self._coordinators(missing, deadline) if missing else {}
            for name, node_id in coordinators.items():
                answers[name] = self._fetch_offsets(name, node_id, deadline)
            topics = self._cluster.refresh(None, deadline=deadline).topics
            by_id = {bytes(topic.topic_id): topic.name for topic in topics.values()}
            return {name: _committed(answers[name], by_id, topics) for name in names}

        return self._cluster.retry(attempt)

    def commit(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set where the group goes on, in all of these partitions; ActiveGroupError while it has members."""

        def attempt(deadline: float) -> None:
            request = OffsetCommitRequest(group_id=name, topics=self._commit_topics(offsets, deadline))
            node_id = self._coordinator(name, deadline)
            answer = self._cluster.request(offset_commit.API, request, node_id=node_id, deadline=deadline)
            for topic in cast("OffsetCommitResponse", answer).topics:
                for each in topic.partitions:
                    if each.error_code in _IN_USE:
                        raise ActiveGroupError(name)
                    _check(each.error_code, None, f"The offsets of group {name!r} were not changed")

        self._cluster.retry(attempt)

    def delete(self, name: str) -> None:
        """Forget a group and its offsets; ActiveGroupError while it has members."""
        request = DeleteGroupsRequest(groups_names=[name])
        attempts = 0

        def attempt(deadline: float) -> None:
            nonlocal attempts
            attempts += 1
            node_id = self._coordinator(name, deadline)
            answer = self._cluster.request(delete_groups.API, request, node_id=node_id, deadline=deadline)
            code = error_code(cast("DeleteGroupsResponse", answer).results[0].error_code)
            if code is ErrorCode.NON_EMPTY_GROUP:
                raise ActiveGroupError(name)
            if code is not ErrorCode.GROUP_ID_NOT_FOUND:
                _check(code, None, f"Group {name!r} was not deleted")
            elif attempts == 1:  # later it is our own work, whose answer was lost
                raise UnknownGroupError(name)

        self._cluster.retry(attempt)

    # Steps

    def _fetch_offsets(self, name: str, node_id: int, deadline: float) -> OffsetFetchResponse:
        group = OffsetFetchRequestGroup(group_id=name, topics=None)
        request = OffsetFetchRequest(group_id=name, topics=None, groups=[group])
        answer = cast(
            "OffsetFetchResponse",
            self._cluster.request(offset_fetch.API, request, node_id=node_id, deadline=deadline),
        )
        found = answer.groups[0] if answer.groups else answer
        for code in [found.error_code, *(each.error_code for topic in found.topics for each in topic.partitions)]:
            _check(code, None, f"The offsets of group {name!r} are not known")
        return answer

    def _coordinator(self, name: str, deadline: float) -> int:
        return self._coordinators([name], deadline)[name]

    def _coordinators(self, names: Sequence[str], deadline: float) -> dict[str, int]:
        """All by one request; brokers before Kafka 3.0 answer for one group at a time."""
        request = FindCoordinatorRequest(key=names[0], key_type=_GROUP_KEY, coordinator_keys=list(names))
        answer = self._cluster.request(find_coordinator.API, request, deadline=deadline)
        response = cast("FindCoordinatorResponse", answer)
        if response.coordinators:
            for each in response.coordinators:
                _check(each.error_code, each.error_message, f"The coordinator of group {each.key!r} is not known")
            return {each.key: each.node_id for each in response.coordinators}
        if len(names) > 1:
            return {name: self._coordinator(name, deadline) for name in names}
        _check(response.error_code, response.error_message, f"The coordinator of group {names[0]!r} is not known")
        return {names[0]: response.node_id}

    def _find(self, names: Collection[str], deadline: float) -> dict[str, GroupInfo]:
        found: dict[str, GroupInfo] = {}
        by_coordinator: dict[int, list[str]] = defaultdict(list)
        for name, node_id in (self._coordinators(list(names), deadline) if names else {}).items():
            by_coordinator[node_id].append(name)
        for node_id, asked in by_coordinator.items():
            found |= self._find_consumer(asked, node_id, deadline)
            others = [name for name in asked if name not in found]
            if others:
                found |= self._find_classic(others, node_id, deadline)
        return found

    def _find_classic(self, names: list[str], node_id: int, deadline: float) -> dict[str, GroupInfo]:
        request = DescribeGroupsRequest(groups=names)
        answer = self._cluster.request(describe_groups.API, request, node_id=node_id, deadline=deadline)
        found = {}
        for group in cast("DescribeGroupsResponse", answer).groups:
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or group.group_state == _DEAD:
                continue
            _check(group.error_code, group.error_message, f"Group {group.group_id!r}")
            is_known = group.protocol_type == CONSUMER_PROTOCOL
            members = tuple(
                GroupMember(
                    each.member_id,
                    each.group_instance_id,
                    each.client_id,
                    each.client_host,
                    _assigned(each.member_assignment) if is_known else (),
                )
                for each in group.members
            )
            found[group.group_id] = GroupInfo(
                group.group_id, group.group_state, CLASSIC, group.protocol_data, node_id, members
            )
        return found

    def _find_consumer(self, names: list[str], node_id: int, deadline: float) -> dict[str, GroupInfo]:
        """KIP-848; a broker that does not serve it has none."""
        request = ConsumerGroupDescribeRequest(group_ids=names)
        try:
            answer = self._cluster.request(consumer_group_describe.API, request, node_id=node_id, deadline=deadline)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return {}
            raise
        found = {}
        for group in cast("ConsumerGroupDescribeResponse", answer).groups:
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                continue
            _check(group.error_code, group.error_message, f"Group {group.group_id!r}")
            members = tuple(
                GroupMember(
                    each.member_id,
                    each.instance_id,
                    each.client_id,
                    each.client_host,
                    _partitions(each.assignment),
                    each.member_epoch,
                    _partitions(each.target_assignment),
                )
                for each in group.members
            )
            found[group.group_id] = GroupInfo(
                group.group_id,
                group.group_state,
                CONSUMER,
                group.assignor_name,
                node_id,
                members,
                group.group_epoch,
                group.assignment_epoch,
            )
        return found

    def _commit_topics(self, offsets: Mapping[TopicPartition, int], deadline: float) -> list[OffsetCommitRequestTopic]:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for where, offset in offsets.items():
            info = self._cluster.partition(where, deadline=deadline)
            if where.topic not in topics:
                topic_id = self._cluster.topic(where.topic, deadline=deadline).topic_id
                topics[where.topic] = OffsetCommitRequestTopic(name=where.topic, topic_id=topic_id)
            topics[where.topic].partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=info.partition, committed_offset=offset, committed_metadata=""
                )
            )
        return list(topics.values())


def _committed(
    response: OffsetFetchResponse, names: Mapping[bytes, str], existing: Container[str]
) -> dict[TopicPartition, int]:
    """By name, whichever of the three forms the answer has: one group, many, or topics by id; of topics that exist."""
    answer = response.groups[0] if response.groups else response
    found = {}
    for topic in answer.topics:
        name = topic.name or names.get(getattr(topic, "topic_id", b""), "")
        if name not in existing:
            continue
        for each in topic.partitions:
            if each.committed_offset != _NO_OFFSET:
                found[TopicPartition(name, each.partition_index)] = each.committed_offset
    return found


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in sorted(topic.partitions)
    )


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    """What the group's leader assigned; nothing when it is not written as consumers do: no broker checks that."""
    if len(data) <= _VERSION_BYTES:
        return ()
    try:
        assignment = decode(ConsumerProtocolAssignment, 0, memoryview(data)[_VERSION_BYTES:])
    except MalformedError:
        return ()
    return tuple(
        TopicPartition(topic.topic, number) for topic in assignment.assigned_partitions for number in topic.partitions
    )


def _check(code: int, message: str | None, what: str) -> None:
    found = error_code(code)
    if found is not ErrorCode.NONE:
        raise KafkaError(found, f"{what}: {message or found.message}")
