"""The produce requests that a connection repeats: served without decoding them anew.

A producer sends the same request over and over: the same client id, acks, topics and partitions; only the correlation
id and the batches differ. The bytes around the batches decode to the same every time, so a connection remembers them
with the partitions that they lead to and the response that follows, and a request with the same bytes goes straight to
the logs. This halves the cost of a small request.

A memo is made from a request that was decoded and answered in full, with acks 1 or all and no error; one for several
partitions when it comes twice in a row. Whatever does not fit takes the long way, and so does a transactional request
for several partitions; one for a single partition is verified as always (transactional_append). A log takes no
transactional batch by the memo of a request without a transactional id. A memo cannot go stale: a partition that is
deleted or no longer led refuses the append.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.broker.produce_answer import failure
from penstock.broker.replicas.manager import ReplicaManager
from penstock.broker.replicas.partition import Partition
from penstock.errors import KafkaError
from penstock.log.log import AppendResult
from penstock.wire.api.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.wire.compile import codec
from penstock.wire.primitives import read_uvarint_tail

PRODUCE_KEY = 0
TOPIC_IDS_SINCE = 13
ZSTD_SINCE = 7
"""Before that a batch's codec has to be looked at, which is the long way's to do."""

MAX_BATCHES = 2048
"""Batches in all remembered requests of a connection; beyond that all are forgotten and learned again."""

MAX_ENDS = 4
"""Lengths of topic names that are tried; a connection that uses more of them at once takes the long way for some."""

BODY_AT = 8
"""API key, version and correlation id come before; version is part of what is compared, the id is not."""

MAX_PREFIX = 70_000
"""Where the first batch begins at the latest: a client id and a topic's name may have 32 KB each."""

LEAST_REST = 4
"""Bytes that follow the place of a length at least: the length itself, and the tags in flexible versions."""

_HEAD = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_RESULT = struct.Struct(">qqq")
"""Base offset, log append time, log start offset."""

_MARK = 0x5EED_5EED_0000_0000
"""Stands for the base offset of the first partition while the template is made, to find its place."""


Append = Callable[[memoryview, int], AppendResult]
"""Takes a batch, with so many acks, or raises a KafkaError: `Partition.append`, or what comes before it."""


class _Gap(NamedTuple):
    """An empty batch: shows where the batches stand in an encoded request."""

    size: int = 0


class ProduceMemos:
    """What one connection repeats. `_ends` is where the first batch's length stood, one place per length of name."""

    __slots__ = ("_ends", "_last_shape", "_memos", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Any] = deque()
        """The connection's transactional requests that are being verified, in their order (transactional_produce)."""
        self._ends: tuple[int, ...] = ()
        self._memos: dict[bytes, _One | _Many] = {}
        self._last_shape: tuple[int, ...] = ()

    def serve(self, frame: memoryview, version: int, correlation_id: int) -> bytearray | None:
        """The answer to a request that is known, None for any other."""
        for end in self._ends:
            memo = self._memos.get(bytes(frame[BODY_AT:end]))
            if memo is not None and memo.version == version:
                return memo.serve(frame, end, correlation_id)
        return None

    def is_worth_it(self, request: ProduceRequest) -> bool:
        """Whether the request may come again: one partition will, several when they came together before."""
        topics = request.topic_data
        if len(topics) == 1 and len(topics[0].partition_data) == 1:
            return True
        shape = tuple(data.index for topic in topics for data in topic.partition_data)
        is_repeated, self._last_shape = shape == self._last_shape, shape
        return is_repeated and len(shape) <= MAX_BATCHES

    def learn(
        self,
        frame: memoryview,
        version: int,
        request: ProduceRequest,
        response: ProduceResponse,
        appends: Sequence[Append],
    ) -> None:
        """Remember a request that was answered without an error, and how its batches are appended, in its order."""
        surroundings = _Surroundings.of(request, version)
        end = surroundings.end_in(frame)
        if end is None:
            return
        if end not in self._ends:
            self._ends = (end, *self._ends)[:MAX_ENDS]
        count = len(appends)
        if sum(memo.count for memo in self._memos.values()) + count > MAX_BATCHES:
            self._memos.clear()
        kind = _One if count == 1 else _Many
        self._memos[bytes(frame[BODY_AT:end])] = kind(version, surroundings, request.acks, response, appends)


def learnable_partitions(
    replicas: ReplicaManager, version: int, request: ProduceRequest, response: ProduceResponse
) -> list[Partition] | None:
    """The partitions that the request went to, in its order, when it is one that can be remembered."""
    if version < ZSTD_SINCE:
        return None
    partitions = []
    for topic, answered in zip(request.topic_data, response.responses, strict=True):
        if not topic.partition_data or any(answer.error_code for answer in answered.partition_responses):
            return None
        found = replicas.by_id[topic.topic_id] if version >= TOPIC_IDS_SINCE else replicas.by_name[topic.name]
        partitions += [found[data.index] for data in topic.partition_data]
    return partitions or None


class _Surroundings(NamedTuple):
    """What stands before the length of each batch in a request, and after the last batch."""

    gaps: tuple[bytes, ...]
    suffix: bytes
    is_flexible: bool

    @classmethod
    def of(cls, request: ProduceRequest, version: int) -> _Surroundings:
        """The request encoded with empty batches shows it."""
        compiled = codec(ProduceRequest, version)
        datas = [data for topic in request.topic_data for data in topic.partition_data]
        batches = [data.records for data in datas]
        for data in datas:
            data.records = _Gap()
        out = bytearray()
        places: list[tuple[int, Any]] = []
        compiled.encode(request, out, places)
        for data, batch in zip(datas, batches, strict=True):
            data.records = batch
        gaps, position = [], 0
        for place, _ in places:
            gaps.append(bytes(out[position : place - (1 if compiled.is_flexible else 4)]))
            position = place
        return cls(tuple(gaps), bytes(out[position:]), compiled.is_flexible)

    def end_in(self, frame: memoryview) -> int | None:
        """Where the first batch's length stands in the request itself."""
        first = bytes(frame[:MAX_PREFIX]).find(self.gaps[0], BODY_AT)
        end = first + len(self.gaps[0])
        return end if first >= 0 and self.spans(frame, end) is not None else None

    def spans(self, frame: memoryview, end: int) -> list[slice] | None:
        """Where the batches are; None when anything around them differs."""
        size, position, spans = len(frame), end, []
        for number, gap in enumerate(self.gaps):
            if number:
                stop = position + len(gap)
                if frame[position:stop] != gap:
                    return None
                position = stop
            if size - position < LEAST_REST:
                return None
            if self.is_flexible:
                length = frame[position]
                position += 1
                if length > 127:
                    length, position = read_uvarint_tail(frame, position, length)
                length -= 1
            else:
                (length,) = _LENGTH.unpack_from(frame, position)
                position += 4
            stop = position + length
            if length < 0 or stop > size:
                return None
            spans.append(slice(position, stop))
            position = stop
        return spans if frame[position:] == self.suffix else None


class _One:
    """A request for one partition: the most common by far, so written out."""

    __slots__ = ("_acks", "_append", "_is_flexible", "_place", "_suffix", "_template", "count", "version")

    def __init__(
        self,
        version: int,
        surroundings: _Surroundings,
        acks: int,
        response: ProduceResponse,
        appends: Sequence[Append],
    ) -> None:
        self.version = version
        self.count = 1
        self._is_flexible = surroundings.is_flexible
        self._suffix = surroundings.suffix
        self._acks = acks
        self._append = appends[0]
        self._template, (self._place,) = _template(response, version, surroundings.is_flexible)

    def serve(self, frame: memoryview, end: int, correlation_id: int) -> bytearray | None:
        size = len(frame)
        if size - end < LEAST_REST:
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
        _RESULT.pack_into(out, self._place, result[0], result[2], result[3])
        return out


class _Many:
    """A request for several partitions. Each succeeds or fails by itself, as always."""

    __slots__ = ("_acks", "_response", "_surroundings", "_targets", "_template", "count", "version")

    def __init__(
        self,
        version: int,
        surroundings: _Surroundings,
        acks: int,
        response: ProduceResponse,
        appends: Sequence[Append],
    ) -> None:
        self.version = version
        self.count = len(appends)
        self._surroundings = surroundings
        self._acks = acks
        self._response = response
        self._template, places = _template(response, version, surroundings.is_flexible)
        self._targets = tuple(zip(appends, places, strict=True))

    def serve(self, frame: memoryview, end: int, correlation_id: int) -> bytearray | None:
        spans = self._surroundings.spans(frame, end)
        if spans is None:
            return None
        out = bytearray(self._template)
        _LENGTH.pack_into(out, 4, correlation_id)
        acks = self._acks
        failures: dict[int, KafkaError] = {}
        for number, (append, place) in enumerate(self._targets):
            try:
                result = append(frame[spans[number]], acks)
                _RESULT.pack_into(out, place, result[0], result[2], result[3])
            except KafkaError as error:
                failures[number] = error
        return self._with_failures(out, failures) if failures else out

    def _with_failures(self, out: bytearray, failures: dict[int, KafkaError]) -> bytearray:
        """The answer told in full: those that were refused with their reasons, the others as they stand in `out`."""
        number = 0
        response = ProduceResponse()
        for topic in self._response.responses:
            answers = []
            for learned in topic.partition_responses:
                if number in failures:
                    answers.append(failure(learned.index, failures[number]))
                else:
                    numbers = _RESULT.unpack_from(out, self._targets[number][1])
                    answers.append(PartitionProduceResponse(learned.index, 0, *numbers))
                number += 1
            response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
        told = out[: _HEAD.size]
        if self._surroundings.is_flexible:
            told.append(0)
        codec(ProduceResponse, self.version).encode(response, told, [])
        _LENGTH.pack_into(told, 0, len(told) - 4)
        return told


def _template(response: ProduceResponse, version: int, is_flexible: bool) -> tuple[bytes, list[int]]:
    """The whole answer, and where each partition's base offset stands."""
    answers = [answer for topic in response.responses for answer in topic.partition_responses]
    offsets = [answer.base_offset for answer in answers]
    for number, answer in enumerate(answers):
        answer.base_offset = _MARK + number
    out = bytearray(_HEAD.pack(0, 0))
    if is_flexible:
        out.append(0)
    codec(ProduceResponse, version).encode(response, out, [])
    for answer, offset in zip(answers, offsets, strict=True):
        answer.base_offset = offset
    _LENGTH.pack_into(out, 0, len(out) - 4)
    places, place = [], 0
    for number in range(len(answers)):
        place = out.index((_MARK + number).to_bytes(8, "big"), place)
        places.append(place)
    return bytes(out), places
