"""OffsetCommit, versions 2 to 10: remember how far a group has read. The answer comes when that is committed.

The whole request is one batch of records: after a crash all of its offsets are there or none. Partitions that do not
exist, and notes longer than `offset.metadata.max.bytes`, are refused by themselves.
"""

from __future__ import annotations

from penstock.broker.context import Call, Context, Later
from penstock.broker.groups.records import NO_TIMESTAMP, CommittedOffset, OffsetRecord
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import TopicImage
from penstock.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10
NO_RETENTION = -1
MAX_TIMESTAMP_MS = 2**63 - 1


def handle(context: Context, call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse | Later:
    commit = _Commit(context, call, request)
    response = commit.response
    if not commit.records and commit.has_refused:
        return response
    later: Later | None = None
    is_done = False

    def on_done(error: KafkaError | None) -> None:
        nonlocal is_done
        is_done = True
        if error is not None:
            _refuse_rest(response, error.code)
        if later is not None:
            later.finish(lambda: response)

    context.groups.commit_offsets(request, call.version, commit.records, on_done)
    if is_done:  # as always where nobody waits for the disk
        return response
    later = Later()
    return later


def refuse(_call: Call, request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """Nothing is committed: each partition says why."""
    response = OffsetCommitResponse()
    for topic in request.topics:
        partitions = [OffsetCommitResponsePartition(each.partition_index) for each in topic.partitions]
        response.topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
    _refuse_rest(response, error.code)
    return response


class _Commit:
    """What is to be written of a request, and the answer if that goes well."""

    def __init__(self, context: Context, call: Call, request: OffsetCommitRequest) -> None:
        self.records: list[OffsetRecord] = []
        self.has_refused = False
        self._group_id = request.group_id
        self._now_ms = context.clock.now_ms()
        self._max_metadata = context.config.get_int("offset.metadata.max.bytes")
        retention_ms = request.retention_time_ms
        self._expires_ms = (
            NO_TIMESTAMP if retention_ms == NO_RETENTION else min(self._now_ms + retention_ms, MAX_TIMESTAMP_MS)
        )
        self._image = context.image
        self._by_id = call.version >= TOPIC_IDS_SINCE
        self.response = OffsetCommitResponse(topics=[self._topic(topic) for topic in request.topics])

    def _topic(self, asked: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
        found = self._image.topics_by_id.get(asked.topic_id) if self._by_id else self._image.topics.get(asked.name)
        answers = []
        for each in asked.partitions:
            code = self._check(found, each.partition_index, each.committed_metadata)
            if code is ErrorCode.NONE and found is not None:
                value = CommittedOffset(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    self._now_ms,
                    self._expires_ms,
                    found.topic_id,
                )
                self.records.append(OffsetRecord(self._group_id, found.name, each.partition_index, value))
            else:
                self.has_refused = True
            answers.append(OffsetCommitResponsePartition(each.partition_index, code))
        return OffsetCommitResponseTopic(asked.name, asked.topic_id, answers)

    def _check(self, found: TopicImage | None, index: int, metadata: str | None) -> ErrorCode:
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_ID if self._by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not 0 <= index < len(found.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if metadata and len(metadata) > self._max_metadata:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE


def _refuse_rest(response: OffsetCommitResponse, code: ErrorCode) -> None:
    """Those that were not refused already. A batch that is too large has a code of its own here."""
    told = ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code is ErrorCode.UNKNOWN_SERVER_ERROR else code
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE:
                partition.error_code = told
