"""Members of a consumer group (KIP-848) by raw frames: every field is the test's to choose, and nothing is hidden.

    with ConsumerMember(broker.bootstrap, "group", "a", ["topic"]) as member:
        member.join()
        member.beat(have={"topic": [0, 1]})

kafka-python does not know these APIs, so the codec is ours; `tests/wire` compares it with kio's and with Kafka's bytes.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import raw
from penstock.types import TopicId
from penstock.wire.api import consumer_group_describe, consumer_group_heartbeat
from penstock.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from penstock.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.wire.compile import decode, encode
from penstock.wire.schema import Struct

REBALANCE_TIMEOUT_MS = 60_000
HEARTBEAT_KEY, DESCRIBE_KEY = 68, 69
CLIENT_ID = b"penstock-tests"
RESPONSE_HEADER_BYTES = 5


class ConsumerMember(raw.Connection):
    """One member on a connection of its own."""

    def __init__(
        self, bootstrap: str, group: str, member_id: str, topics: Sequence[str], instance: str | None = None
    ) -> None:
        super().__init__(bootstrap)
        self.group = group
        self.id = member_id
        self.topics = list(topics)
        self.instance = instance
        self.epoch = 0
        self.assigned: dict[str, list[int]] = {}
        """Topic -> partitions, as the broker last said."""

    def join(self, version: int = 1, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        self.assigned = {}
        wanted = {
            "member_epoch": 0,
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "subscribed_topic_names": self.topics,
            "topic_partitions": [],
        }
        return self.send_heartbeat(version, **(wanted | fields))

    def beat(self, have: Mapping[str, Sequence[int]] | None = None, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat that says nothing, but maybe which partitions the member has."""
        if have is not None:
            ids = self.topic_ids(have)
            fields["topic_partitions"] = [TopicPartitions(ids[topic], list(parts)) for topic, parts in have.items()]
        return self.send_heartbeat(1, **({"member_epoch": self.epoch} | fields))

    def confirm(self) -> ConsumerGroupHeartbeatResponse:
        """The member has what it was told to have, and nothing else."""
        return self.beat(have=self.assigned)

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.send_heartbeat(1, member_epoch=epoch)

    def send_heartbeat(self, version: int, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        wanted = {"group_id": self.group, "member_id": self.id, "instance_id": self.instance}
        request = ConsumerGroupHeartbeatRequest(**(wanted | fields))
        response = self._exchange(HEARTBEAT_KEY, version, request, consumer_group_heartbeat.API.response)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        if response.error_code == 0:
            self.epoch = response.member_epoch
            if response.assignment is not None:
                names = {topic_id: name for name, topic_id in self.topic_ids(None).items()}
                given = response.assignment.topic_partitions
                self.assigned = {names[each.topic_id]: sorted(each.partitions) for each in given}
        return response

    def describe(self, version: int = 1) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest([self.group], True)
        response: Any = self._exchange(DESCRIBE_KEY, version, request, consumer_group_describe.API.response)
        (group,) = response.groups
        assert isinstance(group, DescribedGroup)
        return group

    def topic_ids(self, topics: Mapping[str, Any] | None) -> dict[str, TopicId]:
        wanted = None if topics is None else [{"name": name} for name in topics]
        found = self.call("Metadata", 12, topics=wanted).topics
        return {topic.name: TopicId(uuid.UUID(str(topic.topic_id)).bytes) for topic in found}

    def commit(self, topic: str, partition: int, offset: int, **fields: Any) -> int:
        part = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        wanted = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.id,
            "topics": [{"name": topic, "partitions": [part]}],
        }
        answer = self.call("OffsetCommit", 9, **(wanted | fields))
        return int(answer.topics[0].partitions[0].error_code)

    def fetch_offset(self, topic: str, partition: int, **fields: Any) -> tuple[int, int]:
        """(error code, offset)."""
        asked = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "topics": [{"name": topic, "partition_indexes": [partition]}],
        }
        (group,) = self.call("OffsetFetch", 9, groups=[asked | fields]).groups
        if group.error_code:
            return int(group.error_code), -1
        return 0, int(group.topics[0].partitions[0].committed_offset)

    def _exchange(self, key: int, version: int, request: Struct, response: type[Struct]) -> Struct:
        self.correlation_id += 1
        header = struct.pack(">hhih", key, version, self.correlation_id, len(CLIENT_ID)) + CLIENT_ID + b"\0"
        body = header + bytes(encode(request, version))
        self.send_bytes(struct.pack(">i", len(body)) + body)
        frame = self.receive_frame()
        assert struct.unpack_from(">i", frame)[0] == self.correlation_id
        answer: Struct = decode(response, version, memoryview(frame)[RESPONSE_HEADER_BYTES:])
        return answer
