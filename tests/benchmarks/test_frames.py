"""The requests that are encoded once: their sizes, their patches, and the places of things in the answers."""

from __future__ import annotations

import struct

import pytest
from benchmarks.broker import frames
from crc32c import crc32c

import raw
from fake_broker import response_frame


@pytest.mark.parametrize("size_bytes", [1 << 10, 16 << 10, 100 << 10, 900 << 10])
def test_a_batch_has_exactly_the_size_asked_for(size_bytes: int):
    batch = frames.make_batch(size_bytes)
    assert len(batch.data) == size_bytes
    assert batch.records == size_bytes // 1024
    assert len(raw.values(batch.data)) == batch.records


def test_sequenced_frames_count_up_and_have_right_crcs():
    count = 5
    data = frames.sequenced_frames("topic", 3, 4096, (77, 2), count)
    size = len(data) // count
    for index in range(count):
        frame = bytes(data[index * size : (index + 1) * size])
        assert struct.unpack(">i", frame[:4])[0] == size - 4
        at = frame.index(struct.pack(">q", 77)) - 43
        batch = frame[at : at + 4096]
        assert struct.unpack_from(">i", batch, frames.SEQUENCE_AT)[0] == index * 4
        assert struct.unpack_from(">I", batch, frames.CRC_AT)[0] == crc32c(batch[frames.CRC_FROM :])


@pytest.mark.parametrize("partitions", [1, 126, 127, 1000])
def test_the_error_code_of_a_produce_answer_stands_where_the_loader_looks(partitions: int):
    answers = [{"index": index, "error_code": 0x1234, "base_offset": 0} for index in range(partitions)]
    data = response_frame(
        "Produce", frames.PRODUCE_VERSION, responses=[{"name": "a-topic", "partition_responses": answers}]
    )
    at = frames.produce_error_at("a-topic", partitions)
    assert struct.unpack_from(">h", data, at)[0] == 0x1234


def test_the_fields_of_a_fetch_answer_stand_where_the_reader_looks():
    partition = {"partition_index": 0, "error_code": 0x1234, "records": b"the records"}
    partition |= {"high_watermark": 1, "aborted_transactions": None}
    data = response_frame("Fetch", frames.FETCH_VERSION, responses=[{"topic": "a-topic", "partitions": [partition]}])
    answer = frames.FetchAnswer.of("a-topic")
    assert struct.unpack_from(">h", data, answer.error_at)[0] == 0x1234
    assert struct.unpack_from(">i", data, answer.records_length_at)[0] == len(b"the records")
    assert data[answer.records_at :] == b"the records"


def test_a_fetch_frame_takes_another_offset_and_nothing_else_changes():
    frame = frames.fetch_frame("a-topic", 0, 1 << 20, max_wait_ms=500, min_bytes=1)
    before, after = bytes(frame.at(5)), bytes(frame.at(6))
    assert len(before) == len(after)
    assert [index for index in range(len(before)) if before[index] != after[index]] == [frame.offset_at + 7]
