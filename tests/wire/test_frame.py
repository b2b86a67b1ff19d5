"""Frames: cut the same however the bytes arrive, sizes checked before anything is kept, slices counted."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import MalformedError
from penstock.wire import header
from penstock.wire.api import api_versions, fetch, metadata, produce
from penstock.wire.compile import codec, decode
from penstock.wire.frame import FrameReader, InPlace, encode_request, encode_request_parts, encode_response, read_size

LIMIT = 1000


def frame_of(body):
    return struct.pack(">i", len(body)) + body


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1))
def test_frames_are_cut_the_same_however_the_bytes_arrive(bodies, steps):
    data = b"".join(map(frame_of, bodies))
    reader = FrameReader(LIMIT)
    frames, position, turn = [], 0, 0
    while position < len(data):
        step = steps[turn % len(steps)]
        frames += [bytes(frame) for frame in reader.feed(data[position : position + step])]
        position += step
        turn += 1
    assert frames == bodies
    assert not reader.has_partial


def test_a_frame_that_is_whole_is_not_copied():
    data = bytearray(frame_of(b"abc") + frame_of(b"defg"))
    first, second = FrameReader(LIMIT).feed(data)
    data[4:7] = b"xyz"
    assert bytes(first) == b"xyz"
    assert bytes(second) == b"defg"


@pytest.mark.parametrize("size", [-1, 0, LIMIT + 1, -(2**31), 2**31 - 1])
def test_a_wrong_size_is_refused_before_its_bytes_are_kept(size):
    with pytest.raises(MalformedError, match=str(size)):
        FrameReader(LIMIT).feed(struct.pack(">i", size) + b"x")
    reader = FrameReader(LIMIT)
    for byte in struct.pack(">i", size)[:3]:
        reader.feed(bytes([byte]))
    with pytest.raises(MalformedError):
        reader.feed(struct.pack(">i", size)[3:] + bytes(10_000))
    assert len(reader._partial) <= 4


def test_the_largest_frame_is_taken():
    (frame,) = FrameReader(LIMIT).feed(frame_of(bytes(LIMIT)))
    assert len(frame) == LIMIT
    assert read_size(struct.pack(">i", LIMIT), 0, LIMIT) == LIMIT


def test_a_frame_cut_off_is_seen():
    reader = FrameReader(LIMIT)
    reader.feed(frame_of(b"abc")[:-1])
    assert reader.has_partial


@dataclass
class Slice:
    size: int


def test_slices_count_in_the_size_and_stand_where_they_belong():
    def response(*contents):
        partitions = [fetch.PartitionData(partition_index=i, records=part) for i, part in enumerate(contents)]
        return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic="t", partitions=partitions)])

    for version in fetch.API.versions:
        whole, none = encode_response(fetch.API, version, 5, response(b"a" * 200, b"", b"b" * 3))
        assert not none
        pieces = {200: b"a" * 200, 0: b"", 3: b"b" * 3}
        data, splices = encode_response(fetch.API, version, 5, response(Slice(200), Slice(0), Slice(3)))
        joined, start = bytearray(), 0
        for position, piece in splices:
            joined += data[start:position] + pieces[piece.size]
            start = position
        joined += data[start:]
        assert joined == whole
        assert struct.unpack_from(">i", data)[0] == len(whole) - 4


@pytest.mark.parametrize("version", list(metadata.API.versions))
def test_a_request_frame_decodes(version):
    request = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="orders")])
    data = encode_request(metadata.API, version, 9, "me", request)
    (frame,) = FrameReader(LIMIT).feed(data)
    assert header.read_api(frame) == (3, version)
    compiled = codec(metadata.MetadataRequest, version)
    correlation_id, client_id, body = header.read_request_header(frame, 0, compiled.is_flexible)
    assert (correlation_id, client_id) == (9, "me")
    message, end = compiled.decode(frame, body, 100)
    assert message == request
    assert end == len(frame)


def test_the_response_to_api_versions_has_the_short_header_in_every_version():
    for version in api_versions.API.versions:
        data, _ = encode_response(api_versions.API, version, 1, api_versions.ApiVersionsResponse(error_code=35))
        assert data[8:10] == b"\x00\x23"


def test_a_request_takes_no_slices():
    partition = produce.PartitionProduceData(records=Slice(3))
    request = produce.ProduceRequest(topic_data=[produce.TopicProduceData(partition_data=[partition])])
    with pytest.raises(AssertionError):
        encode_request(produce.API, 9, 0, None, request)


def test_records_in_place_are_pieces_of_the_same_request():
    def request(records):
        partitions = [produce.PartitionProduceData(index=number, records=each) for number, each in enumerate(records)]
        return produce.ProduceRequest(topic_data=[produce.TopicProduceData(partition_data=partitions)])

    for version in produce.API.versions:
        records = [b"first", b"", b"x" * 1000]
        whole = encode_request(produce.API, version, 7, "me", request(records))
        parts = encode_request_parts(produce.API, version, 7, "me", request([InPlace(each) for each in records]))
        assert b"".join(parts) == whole
        assert [part for part in parts if part is records[2]]


def test_an_unfinished_frame_can_be_completed_elsewhere():
    reader = FrameReader(100)
    assert reader.partial_size == 0
    assert reader.feed(b"\x00\x00\x00\x01a\x00\x00") == [b"a"]
    assert reader.partial_size == 0
    assert reader.feed(b"\x00\x05bc") == []
    assert reader.partial_size == 9
    whole = reader.take_partial() + b"def"
    assert not reader.has_partial
    assert reader.feed(whole) == [b"bcdef"]


def test_bytes_after_a_message_are_ignored():
    data = encode_request(metadata.API, 12, 9, "me", metadata.MetadataRequest(topics=None))
    assert decode(metadata.MetadataRequest, 12, data[17:] + b"\x00\x00").topics is None
