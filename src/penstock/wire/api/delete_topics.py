"""DeleteTopics (key 20): delete topics by name or id.

Versions:
- 1: the lowest accepted; throttle time
- 3: TOPIC_DELETION_DISABLED may be answered
- 4: flexible
- 5: error message; THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
- 6: topics by name or id (KIP-516)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Kind, Struct, array, int16, int32, message, string, struct, uuid


@struct
class DeleteTopicState(Struct):
    """A topic by name, or by id with a null name."""

    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


@message("1-6", flexible="4+")
class DeleteTopicsRequest(Struct):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array(Kind.STRING, "0-5", ignorable=True)
    timeout_ms: int = int32()


@struct
class DeletableTopicResult(Struct):
    """What became of one topic."""

    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message("1-6", flexible="4+")
class DeleteTopicsResponse(Struct):
    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)


API = Api(20, DeleteTopicsRequest, DeleteTopicsResponse)
