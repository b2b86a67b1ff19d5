"""The loader and the reader against a broker of a few lines: what is sent, how many in flight, what stops a run."""

from __future__ import annotations

import struct

import pytest
from benchmarks.broker.frames import Batch, FetchAnswer
from benchmarks.broker.loader import Load, run_one_at_a_time, run_pipelined
from benchmarks.broker.reader import run_reader

from fake_broker import serve

FRAME = struct.pack(">i", 12) + b"twelve bytes"
GOOD = struct.pack(">ih", 2, 0)
BAD = struct.pack(">ih", 2, 7)
ERROR_AT = 4


def test_every_frame_of_every_connection_is_sent_and_answered():
    with serve(lambda _: GOOD) as (port, got):
        run_pipelined(port, [Load.repeated(FRAME, 101, ERROR_AT, 5)] * 3, 5)
    assert got == [b"twelve bytes"] * 303


def test_frames_that_differ_are_sent_in_order():
    frames = bytearray(b"".join(struct.pack(">ii", 4, number) for number in range(50)))
    with serve(lambda _: GOOD) as (port, got):
        run_pipelined(port, [Load.sequence(frames, 50, ERROR_AT)], 5)
    assert [struct.unpack(">i", request)[0] for request in got] == list(range(50))


def test_requests_larger_than_the_socket_buffers_arrive_whole():
    body = bytes(range(256)) * 12_000
    frame = struct.pack(">i", len(body)) + body
    with serve(lambda _: GOOD) as (port, got):
        run_pipelined(port, [Load.repeated(frame, 7, ERROR_AT, 5)], 5)
    assert len(got) == 7
    assert set(got) == {body}


def test_an_error_code_stops_the_run():
    with serve(lambda _: BAD) as (port, _), pytest.raises(RuntimeError, match="error code 7"):
        run_pipelined(port, [Load.repeated(FRAME, 10, ERROR_AT, 5)], 5)


def test_a_closed_connection_stops_the_run():
    def close(_request: bytes) -> bytes:
        raise OSError("this broker hangs up")

    with serve(close) as (port, _), pytest.raises(ConnectionError):
        run_pipelined(port, [Load.repeated(FRAME, 10, ERROR_AT, 5)], 5)


def test_one_at_a_time_gives_a_latency_for_each_request():
    with serve(lambda _: GOOD) as (port, got):
        taken = run_one_at_a_time(port, Load.repeated(FRAME, 20, ERROR_AT, 1))
    assert len(taken) == len(got) == 20
    assert min(taken) > 0


def test_the_reader_reads_each_partition_to_its_end_as_often_as_asked():
    batch = Batch(bytes(4096), 4)
    answer = FetchAnswer.of("topic")

    def fetched(request: bytes) -> bytes:
        offset = struct.unpack_from(">q", request, request.index(b"topic") + 5 + 4 + 4 + 4)[0]
        records = struct.pack(">q", offset) + bytes(2 * len(batch.data) - 8)
        head = bytearray(answer.records_at)
        struct.pack_into(">i", head, 0, answer.records_at + len(records) - 4)
        struct.pack_into(">i", head, answer.records_length_at, len(records))
        return bytes(head) + records

    with serve(fetched) as (port, got):
        read_bytes = run_reader(port, "topic", partitions=2, batch=batch, batches=6, passes=3)
    assert read_bytes == 2 * 3 * 6 * len(batch.data)
    assert len(got) == 2 * 3 * 3
