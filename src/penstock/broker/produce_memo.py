"""The produce requests that a connection repeats: served without decoding them anew.

A producer sends the same request over and over: the same client id, acks, topic and partition; only the correlation
id and the batch differ. The bytes before the batch decode to the same every time, so a connection remembers them with
the partition that they lead to and the response that follows, and a request that starts with the same bytes goes
straight to the log. This halves the cost of a small request.

A memo is made from a request that was decoded and answered in full, and only for one partition, acks 1 or all, and no
error. Whatever does not fit, a batch that is refused included, takes the long way, which answers it. A memo cannot go
stale: a partition that is deleted or no longer led refuses the append.
"""

from __future__ import annotations

import struct

from penstock.broker.replicas.manager import ReplicaManager
from penstock.broker.replicas.partition import Partition
from penstock.errors import KafkaError
from penstock.wire.api.produce import ProduceRequest, ProduceResponse
from penstock.wire.compile import codec
from penstock.wire.primitives import append_uvarint, read_uvarint_tail

PRODUCE_KEY = 0
TOPIC_IDS_SINCE = 13
ZSTD_SINCE = 7
"""Before that a batch's codec has to be looked at, which is the long way's to do."""

MAX_MEMOS = 256
"""Partitions remembered per connection; beyond that all are forgotten and learned again."""

MAX_ENDS = 4
"""Lengths of topic names that are tried; a connection that uses more of them at once takes the long way for some."""

BODY_AT = 8
"""API key, version and correlation id come before; version is part of what is compared, the id is not."""

NO_TAGS = bytes(3)
"""After the batch: the empty tags of partition, topic and request, in flexible versions."""

_HEAD = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_RESULT = struct.Struct(">qqq")
"""Base offset, log append time, log start offset."""

_MARK = 0x5EED_5EED_5EED_5EED
"""Stands for the base offset while the template is made, to find its place."""


class ProduceMemos:
    """What one connection repeats. `_ends` is where the length of the batch stood, one place per length of name."""

    __slots__ = ("_ends", "_memos")

    def __init__(self) -> None:
        self._ends: tuple[int, ...] = ()
        self._memos: dict[bytes, _Memo] = {}

    def serve(self, frame: memoryview, version: int, correlation_id: int) -> bytearray | None:
        """The answer to a request that is known, None for any other."""
        for end in self._ends:
            memo = self._memos.get(bytes(frame[BODY_AT:end]))
            if memo is not None and memo.version == version:
                return memo.serve(frame, end, correlation_id)
        return None

    def learn(
        self, frame: memoryview, version: int, request: ProduceRequest, response: ProduceResponse, partition: Partition
    ) -> None:
        """Remember a request that was answered without an error."""
        is_flexible = codec(ProduceRequest, version).is_flexible
        records = request.topic_data[0].partition_data[0].records
        suffix = NO_TAGS if is_flexible else b""
        end = len(frame) - len(suffix) - len(records) - _length_size(len(records), is_flexible)
        if frame[len(frame) - len(suffix) :] != suffix:
            return  # a tag that we do not know
        prefix = bytes(frame[BODY_AT:end])
        if end not in self._ends:
            self._ends = (end, *self._ends)[:MAX_ENDS]
        if len(self._memos) >= MAX_MEMOS:
            self._memos.clear()
        self._memos[prefix] = _Memo(version, is_flexible, suffix, request.acks, response, partition)


def only_partition(
    replicas: ReplicaManager, version: int, request: ProduceRequest, response: ProduceResponse
) -> Partition | None:
    """The partition that the request went to, when it is one that can be remembered."""
    if request.transactional_id is not None or len(request.topic_data) != 1 or version < ZSTD_SINCE:
        return None
    topic = request.topic_data[0]
    if len(topic.partition_data) != 1 or response.responses[0].partition_responses[0].error_code:
        return None
    partitions = replicas.by_id[topic.topic_id] if version >= TOPIC_IDS_SINCE else replicas.by_name[topic.name]
    return partitions[topic.partition_data[0].index]


class _Memo:
    """One partition's request: where it leads, and its answer with three numbers to fill in."""

    __slots__ = ("_acks", "_append", "_is_flexible", "_result_at", "_suffix", "_template", "version")

    def __init__(
        self,
        version: int,
        is_flexible: bool,
        suffix: bytes,
        acks: int,
        response: ProduceResponse,
        partition: Partition,
    ) -> None:
        self.version = version
        self._is_flexible = is_flexible
        self._suffix = suffix
        self._acks = acks
        self._append = partition.append
        self._template, self._result_at = _template(response, version, is_flexible)

    def serve(self, frame: memoryview, end: int, correlation_id: int) -> bytearray | None:
        size = len(frame)
        if size < end + 4:
            return None
        if self._is_flexible:
            length = frame[end]
            start = end + 1
            if length > 127:
                length, start = read_uvarint_tail(frame, start, length)
            length -= 1
        else:
            (length,) = _LENGTH.unpack_from(frame, end)
            start = end + 4
        stop = start + length
        suffix = self._suffix
        if length < 0 or stop + len(suffix) != size or frame[stop:] != suffix:
            return None
        try:
            result = self._append(frame[start:stop], self._acks)
        except KafkaError:
            return None  # nothing was written; the long way says why
        out = bytearray(self._template)
        _LENGTH.pack_into(out, 4, correlation_id)
        _RESULT.pack_into(out, self._result_at, result[0], result[2], result[3])
        return out


def _length_size(length: int, is_flexible: bool) -> int:
    """How many bytes the length of the batch takes in the request."""
    if not is_flexible:
        return 4
    out = bytearray()
    append_uvarint(out, length + 1)
    return len(out)


def _template(response: ProduceResponse, version: int, is_flexible: bool) -> tuple[bytes, int]:
    """The whole answer, and where its base offset stands."""
    answer = response.responses[0].partition_responses[0]
    base_offset = answer.base_offset
    answer.base_offset = _MARK
    out = bytearray(_HEAD.pack(0, 0))
    if is_flexible:
        out.append(0)
    codec(ProduceResponse, version).encode(response, out, [])
    answer.base_offset = base_offset
    _LENGTH.pack_into(out, 0, len(out) - 4)
    return bytes(out), out.index(_MARK.to_bytes(8, "big"))
