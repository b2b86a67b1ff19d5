"""The coordinator around the groups: the disk, loading, the topic that comes and goes, and settings."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from in_process import Client, TestFiles, connected, create_topic, partition, run, running, set_config, until
from members import subscription
from penstock.broker.broker import Broker
from penstock.broker.controller.configs import ResourceType
from penstock.broker.controller.topics import TopicRef
from penstock.broker.groups.coordinator import OFFSETS_TOPIC
from penstock.broker.internal_topic import partition_for
from penstock.env.files import File, SystemFile
from penstock.errors import ErrorCode
from penstock.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.wire.api.describe_groups import DescribeGroupsRequest
from penstock.wire.api.find_coordinator import FindCoordinatorRequest
from penstock.wire.api.heartbeat import HeartbeatRequest
from penstock.wire.api.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.wire.api.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.wire.api.list_groups import ListGroupsRequest
from penstock.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from penstock.wire.api.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.wire.key_values import build_key_values

COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST = 8, 9, 10, 11, 12, 13, 14, 15, 16
CONSUMER_HEARTBEAT = 68
GROUP = "g"


def commit_request(offset: int, group: str = GROUP, metadata: str = "", **fields: Any) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(0, offset, -1, metadata)
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=[part])], **fields)


async def commit(client: Client, offset: int, group: str = GROUP, version: int = 9, **fields: Any) -> ErrorCode:
    answer = await client.call(COMMIT, version, commit_request(offset, group, **fields))
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def fetched(client: Client, group: str = GROUP) -> dict[str, int] | ErrorCode:
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    (found,) = (await client.call(FETCH, 9, asked)).groups
    if found.error_code:
        return ErrorCode(found.error_code)
    return {topic.name: topic.partitions[0].committed_offset for topic in found.topics}


async def find(client: Client, group: str = GROUP) -> int:
    return int((await client.call(FIND, 1, FindCoordinatorRequest(group))).error_code)


async def prepare(broker: Broker, client: Client) -> None:
    await create_topic(broker, "t")
    assert await find(client) == 0


def join_request(member_id: str = "", **fields: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", subscription("t"))]
    return JoinGroupRequest(
        GROUP, 10_000, 60_000, member_id, fields.pop("instance", None), "consumer", protocols, **fields
    )


def home_partition(broker: Broker) -> Any:
    return partition(broker, OFFSETS_TOPIC, partition_for(GROUP, 50))


def test_with_fsync_a_commit_counts_when_it_is_on_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = TestFiles()
        async with running(tmp_path, "penstock.durability=fsync", files=files) as broker, connected(broker) as client:
            await prepare(broker, client)
            files.may_sync.clear()
            client.send(COMMIT, 9, commit_request(5))
            await client.writer.drain()
            await until(lambda: home_partition(broker).log.log_end_offset == 1)
            async with connected(broker) as other:
                assert await fetched(other) == {}, "it is not committed yet"
            files.may_sync.set()
            assert (await client.receive()).topics[0].partitions[0].error_code == 0
            assert await fetched(client) == {"t": 5}

    run(scenario())


def test_a_commit_that_did_not_reach_the_disk_is_refused_and_not_seen(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = TestFiles()
        async with running(tmp_path, "penstock.durability=fsync", files=files) as broker, connected(broker) as client:
            await prepare(broker, client)
            assert await commit(client, 5) is ErrorCode.NONE
            files.sync_error = OSError(5, "Input/output error")
            assert await commit(client, 6) is ErrorCode.NOT_COORDINATOR
            files.sync_error = None
            assert await fetched(client) == {"t": 5}
            assert await commit(client, 7) is ErrorCode.NOT_COORDINATOR, "the log is fenced"

    run(scenario())


def test_an_assignment_that_did_not_reach_the_disk_sends_the_members_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = TestFiles()
        async with running(tmp_path, "penstock.durability=fsync", files=files) as broker, connected(broker) as client:
            await prepare(broker, client)
            joined = await client.call(JOIN, 3, join_request())
            assert joined.error_code == 0
            files.sync_error = OSError(5, "Input/output error")
            given = [SyncGroupRequestAssignment(joined.member_id, b"all")]
            asked = SyncGroupRequest(GROUP, joined.generation_id, joined.member_id, assignments=given)
            assert (await client.call(SYNC, 3, asked)).error_code == ErrorCode.NOT_COORDINATOR
            beat = HeartbeatRequest(GROUP, joined.generation_id, joined.member_id)
            assert (await client.call(HEARTBEAT, 3, beat)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
            files.sync_error = None

    run(scenario())


class SlowFiles(TestFiles):
    """Large reads of `__consumer_offsets` wait."""

    __slots__ = ("may_read",)

    def __init__(self) -> None:
        super().__init__()
        self.may_read = threading.Event()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        file = super().open(path, create=create, writable=writable)
        if OFFSETS_TOPIC in path and path.endswith(".log"):
            held = _SlowFile(file.fileno(), path)
            held.may_read = self.may_read
            file._fd = -1  # type: ignore[attr-defined]  # the descriptor has moved
            return held
        return file


class _SlowFile(SystemFile):
    __slots__ = ("may_read",)
    may_read: threading.Event

    def pread(self, size: int, position: int) -> bytes:
        if size > 20_000:  # more than anyone reads to open a log
            assert self.may_read.wait(30)
        return super().pread(size, position)


def test_while_a_partition_is_loaded_its_groups_are_not_served(tmp_path: Path) -> None:
    async def write() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await prepare(broker, client)
            for offset in range(500):
                assert await commit(client, offset, metadata="x" * 100) is ErrorCode.NONE

    async def read() -> None:
        files = SlowFiles()
        async with running(tmp_path, files=files) as broker, connected(broker) as client:
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            try:
                assert await find(client) == 0, "it is known who will serve them"
                assert await fetched(client) is loading
                assert await commit(client, 1) is loading
                assert (await client.call(JOIN, 3, join_request())).error_code == loading
                assert (await client.call(LIST, 0, ListGroupsRequest())).error_code == loading
                described = await client.call(DESCRIBE, 5, DescribeGroupsRequest([GROUP]))
                assert described.groups[0].error_code == loading
                beat = HeartbeatRequest(GROUP, 1, "m")
                assert (await client.call(HEARTBEAT, 3, beat)).error_code == 0, "all is well, as Kafka says"
                assert await fetched(client, "elsewhere") == {}
            finally:
                files.may_read.set()
            while await fetched(client) is loading:
                pass
            assert await fetched(client) == {"t": 499}

    run(write())
    run(read())


def test_a_partition_that_cannot_be_read_is_not_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def write() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await prepare(broker, client)
            assert await commit(client, 5) is ErrorCode.NONE
            cut = build_key_values([(b"\x00\x01\x00\x05ab", b"\x00\x04")], 1)
            home_partition(broker).append(memoryview(cut), -1, is_own=True)

    async def read() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            while await fetched(client) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                pass
            assert await fetched(client) is ErrorCode.NOT_COORDINATOR
            assert await fetched(client, "elsewhere") == {}

    run(write())
    run(read())
    assert "cannot be loaded" in caplog.text


def test_records_that_we_do_not_know_are_passed_over(tmp_path: Path) -> None:
    async def write() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await prepare(broker, client)
            unknown = build_key_values([(b"\x00\x63of another time", b"?"), (b"", None)], 1)
            home_partition(broker).append(memoryview(unknown), -1, is_own=True)
            assert await commit(client, 5) is ErrorCode.NONE

    async def read() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            while await fetched(client) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                pass
            assert await fetched(client) == {"t": 5}

    run(write())
    run(read())


def test_the_topic_is_made_as_the_settings_say(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = ("offsets.topic.num.partitions=3", "offsets.topic.segment.bytes=1048576")
        async with running(tmp_path, *settings) as broker, connected(broker) as client:
            assert await fetched(client) is ErrorCode.NOT_COORDINATOR, "nobody has looked for one"
            for _ in range(3):
                client.send(FIND, 1, FindCoordinatorRequest(GROUP))
            assert [(await client.receive()).error_code for _ in range(3)] == [0, 0, 0]
            partitions = broker.context.replicas.by_name[OFFSETS_TOPIC]
            assert len(partitions) == 3
            config = partitions[0].log.config
            assert (config.compacts, config.segment_bytes) == (True, 1 << 20)

    run(scenario())


def test_when_the_topic_is_deleted_everyone_starts_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client, connected(broker) as other:
            await prepare(broker, client)
            first = await client.call(JOIN, 3, join_request())
            other.send(JOIN, 3, join_request())
            await other.writer.drain()
            await until(lambda: broker.context.groups.shard(GROUP).groups[GROUP].state.value == "PreparingRebalance")
            await broker.context.controller.delete_topics([TopicRef(OFFSETS_TOPIC)])
            assert (await other.receive()).error_code == ErrorCode.NOT_COORDINATOR
            beat = HeartbeatRequest(GROUP, 1, first.member_id)
            assert (await client.call(HEARTBEAT, 3, beat)).error_code == ErrorCode.NOT_COORDINATOR
            assert await find(client) == 0
            assert await fetched(client) == {}

    run(scenario())


def test_a_broker_that_stops_does_not_wait_for_those_who_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await prepare(broker, client)
            assert (await client.call(JOIN, 3, join_request())).error_code == 0
            client.send(JOIN, 3, join_request())
            await client.writer.drain()
            await until(lambda: broker.context.groups.shard(GROUP).groups[GROUP].state.value == "PreparingRebalance")

    run(scenario())


def test_offsets_are_forgotten_when_their_time_is_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, "offsets.retention.check.interval.ms=10") as broker, connected(broker) as client:
            await prepare(broker, client)
            assert await commit(client, 5, "kept", version=2) is ErrorCode.NONE
            assert await commit(client, 5, version=2, retention_time_ms=1) is ErrorCode.NONE
            while await fetched(client) != {}:
                pass
            assert await fetched(client, "kept") == {"t": 5}
            described = await client.call(DESCRIBE, 5, DescribeGroupsRequest([GROUP, "kept"]))
            assert [each.group_state for each in described.groups] == ["Dead", "Empty"]

    run(scenario())


def test_a_note_too_large_for_a_batch_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, "message.max.bytes=1000") as broker, connected(broker) as client:
            await prepare(broker, client)
            assert await commit(client, 5, metadata="x" * 2000) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            assert await commit(client, 5) is ErrorCode.NONE

    run(scenario())


def test_the_settings_of_groups_are_obeyed(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = (
            "group.max.size=1",
            "group.min.session.timeout.ms=20000",
            "group.max.session.timeout.ms=30000",
            "offset.metadata.max.bytes=3",
        )
        async with running(tmp_path, *settings) as broker, connected(broker) as client:
            await prepare(broker, client)

            async def join(session_timeout_ms: int) -> ErrorCode:
                request = join_request()
                request.session_timeout_ms = session_timeout_ms
                return ErrorCode((await client.call(JOIN, 3, request)).error_code)

            assert await join(19_999) is ErrorCode.INVALID_SESSION_TIMEOUT
            assert await join(30_001) is ErrorCode.INVALID_SESSION_TIMEOUT
            assert await join(20_000) is ErrorCode.NONE
            assert await join(20_000) is ErrorCode.GROUP_MAX_SIZE_REACHED
            assert await commit(client, 1, "other", metadata="long") is ErrorCode.OFFSET_METADATA_TOO_LARGE

    run(scenario())


def test_the_first_rebalance_waits_for_more_members_when_told_to(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = "group.initial.rebalance.delay.ms=300"
        async with running(tmp_path, settings) as broker, connected(broker) as client, connected(broker) as other:
            await prepare(broker, client)
            client.send(JOIN, 3, join_request())
            other.send(JOIN, 3, join_request())
            answers = [await client.receive(), await other.receive()]
            assert [answer.generation_id for answer in answers] == [1, 1]
            assert sorted(len(answer.members) for answer in answers) == [0, 2]

    run(scenario())


def join_consumer_request(member_id: str, epoch: int = 0) -> ConsumerGroupHeartbeatRequest:
    if epoch:
        return ConsumerGroupHeartbeatRequest(GROUP, member_id, epoch)
    return ConsumerGroupHeartbeatRequest(
        GROUP, member_id, 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )


def test_an_assignment_that_is_on_its_way_reaches_nobody_when_the_group_is_upgraded_meanwhile(tmp_path: Path) -> None:
    """The consumer group knows nothing of it: the classic member would read what is given to another."""

    async def scenario() -> None:
        files = TestFiles()
        async with (
            running(tmp_path, "penstock.durability=fsync", files=files) as broker,
            connected(broker) as classic,
            connected(broker) as modern,
        ):
            await prepare(broker, classic)
            joined = await classic.call(JOIN, 3, join_request())
            files.may_sync.clear()
            whole = b"\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
            given = [SyncGroupRequestAssignment(joined.member_id, whole)]
            asked = SyncGroupRequest(GROUP, joined.generation_id, joined.member_id, assignments=given)
            classic.send(SYNC, 3, asked)
            await classic.writer.drain()
            await until(lambda: home_partition(broker).log.log_end_offset == 1)
            modern.send(CONSUMER_HEARTBEAT, 1, join_consumer_request("m"))
            assert (await classic.receive()).error_code == ErrorCode.REBALANCE_IN_PROGRESS
            classic.send(SYNC, 3, asked)
            classic.send(LEAVE, 3, LeaveGroupRequest(GROUP, members=[MemberIdentity(joined.member_id)]))
            files.may_sync.set()
            answer = await modern.receive()
            assert (answer.member_epoch, len(answer.assignment.topic_partitions)) == (2, 1)
            assert (await classic.receive()).error_code == ErrorCode.REBALANCE_IN_PROGRESS
            assert (await classic.receive()).error_code == 0
            assert (await modern.call(CONSUMER_HEARTBEAT, 1, join_consumer_request("m", 2))).member_epoch == 3
        async with running(tmp_path) as broker, connected(broker) as client:
            await until_loaded(client)
            (group,) = (await client.call(LIST, 5, ListGroupsRequest())).groups
            assert (group.group_type, group.group_state) == ("consumer", "Stable"), "as it was before the restart"

    run(scenario())


async def until_loaded(client: Client) -> None:
    while await fetched(client) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass


def test_the_time_between_assignments_can_be_set_for_the_broker_and_for_a_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await prepare(broker, client)

            async def epoch_of(member_id: str) -> int:
                answer = await client.call(CONSUMER_HEARTBEAT, 1, join_consumer_request(member_id))
                return int(answer.member_epoch)

            assert [await epoch_of("a"), await epoch_of("b")] == [1, 2], "no time by default"
            await set_config(broker, ResourceType.BROKER, "", group_consumer_assignment_interval_ms="15000")
            assert await epoch_of("c") == 2
            await set_config(broker, ResourceType.GROUP, GROUP, consumer_assignment_interval_ms="0")
            assert await epoch_of("d") == 4

    run(scenario())
