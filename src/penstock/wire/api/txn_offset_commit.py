"""TxnOffsetCommit (key 28): offsets of a group, to be committed when and if the transaction is.

Versions:
- 1: same bytes; throttled clients are answered first
- 2: leader epoch of the last record read (KIP-320)
- 3: flexible; the member and its generation, so that a member that was replaced is refused (KIP-447)
- 4: TRANSACTION_ABORTABLE may be answered (KIP-890)
- 5: transaction version 2: the request also adds the group to the transaction (KIP-890)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, int16, int32, int64, message, string, struct


@struct
class TxnOffsetCommitRequestPartition(Struct):
    """The offset of one partition: the next one to read."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


@struct
class TxnOffsetCommitRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@message("0-5", flexible="3+")
class TxnOffsetCommitRequest(Struct):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@struct
class TxnOffsetCommitResponsePartition(Struct):
    """What became of one partition's offset."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class TxnOffsetCommitResponseTopic(Struct):
    """The results of one topic."""

    name: str = string()
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@message("0-5", flexible="3+")
class TxnOffsetCommitResponse(Struct):
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)


API = Api(28, TxnOffsetCommitRequest, TxnOffsetCommitResponse)
