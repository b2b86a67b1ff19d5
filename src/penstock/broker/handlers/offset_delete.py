"""OffsetDelete, version 0: forget offsets of partitions that the group's members are not subscribed to (KIP-496)."""

from __future__ import annotations

from penstock.broker.context import Call, Context, Later
from penstock.errors import ErrorCode, KafkaError
from penstock.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(context: Context, _call: Call, request: OffsetDeleteRequest) -> Later:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    asked = [(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
    existing = [(name, index) for name, index in asked if context.image.partition(name, index) is not None]
    codes = dict.fromkeys(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    later = Later()

    def on_done(error: KafkaError | None) -> None:
        code = ErrorCode.NONE if error is None else error.code
        later.finish(lambda: OffsetDeleteResponse(error_code=code, topics=[] if code else _topics(request, codes)))

    decided = context.groups.delete_offsets(request.group_id, existing, on_done)
    codes.update(zip(existing, decided, strict=True))
    return later


def _topics(request: OffsetDeleteRequest, codes: dict[tuple[str, int], ErrorCode]) -> list[OffsetDeleteResponseTopic]:
    return [
        OffsetDeleteResponseTopic(
            topic.name,
            [
                OffsetDeleteResponsePartition(each.partition_index, codes[topic.name, each.partition_index])
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
