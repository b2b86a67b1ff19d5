"""End-to-end latency: from just before a record is sent to just after it has come out of a long poll.

The producer runs here and sends requests at an even pace, one record of 1 KB each, without waiting for answers. The
moment of sending is written into the record. The consumer is a process of its own with one long-poll fetch after the
other; it reads the moment out of each record and subtracts it from its own clock: CLOCK_MONOTONIC, which all processes
share.
"""

from __future__ import annotations

import gc
import multiprocessing
import socket
import struct
import time
from array import array
from multiprocessing.connection import Connection

from crc32c import crc32c

from .frames import CRC_AT, CRC_FROM, FetchAnswer, fetch_frame, make_batch, produce_error_at, produce_frame
from .loader import check_error, connect, receive_more
from .reader import FETCH_BYTES

RECORD_BATCH_BYTES = 1024
SENT_AT = 512
"""Where the moment of sending stands in the batch: well inside the value of its one record."""
CONSUMER_TIMEOUT_SECONDS = 60.0
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


def run_end_to_end(port: int, topic: str, count: int, per_second: int) -> array[int]:
    """Send `count` records at an even pace and return the nanoseconds that each was under way, sorted."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    consumer = context.Process(target=consume, args=(port, topic, count, theirs), daemon=True)
    consumer.start()
    theirs.close()
    try:
        assert ours.recv() == "ready"
        with connect(port) as connection:  # until all is consumed: Kafka drops what is unserved when a client leaves
            produce(connection, topic, count, per_second)
            if not ours.poll(CONSUMER_TIMEOUT_SECONDS):
                raise TimeoutError(f"the consumer had not got {count} records in {CONSUMER_TIMEOUT_SECONDS:.0f} s")
            taken: array[int] = ours.recv()
    finally:
        consumer.kill()
        consumer.join()
    return array("q", sorted(taken))


def produce(connection: socket.socket, topic: str, count: int, per_second: int) -> None:
    """One request per record; answers are taken when they are there."""
    batch = make_batch(RECORD_BATCH_BYTES)
    frame = bytearray(produce_frame(topic, [0], batch))
    at = frame.index(batch.data)
    covered = memoryview(frame)[at + CRC_FROM : at + len(batch.data)]
    interval_ns = 1_000_000_000 // per_second
    answers = bytearray(64 << 10)
    gc.disable()
    connection.settimeout(None)  # with a timeout, Python waits for bytes whatever MSG_DONTWAIT says
    next_ns = time.monotonic_ns()
    for _ in range(count):
        _sleep_until(next_ns)
        next_ns += interval_ns
        _LONG.pack_into(frame, at + SENT_AT, time.monotonic_ns())
        struct.pack_into(">I", frame, at + CRC_AT, crc32c(covered))
        connection.sendall(frame)
        _take_answers(connection, answers, produce_error_at(topic, 1))
    gc.enable()


def consume(port: int, topic: str, count: int, pipe: Connection) -> None:
    """In a process of its own: long polls until `count` records have come; sends what each took through the pipe."""
    gc.disable()
    taken = array("q")
    answer = FetchAnswer.of(topic)
    frame = fetch_frame(topic, 0, FETCH_BYTES, max_wait_ms=500, min_bytes=1)
    buffer = bytearray(2 * FETCH_BYTES)
    offset = 0
    with connect(port) as connection:
        connection.sendall(frame.at(offset))
        pipe.send("ready")
        while len(taken) < count:
            _receive_answer(connection, buffer)
            now_ns = time.monotonic_ns()
            check_error(buffer, answer.error_at)
            batches = max(0, _INT.unpack_from(buffer, answer.records_length_at)[0]) // RECORD_BATCH_BYTES
            offset += batches
            connection.sendall(frame.at(offset))
            for index in range(batches):
                sent_ns = _LONG.unpack_from(buffer, answer.records_at + index * RECORD_BATCH_BYTES + SENT_AT)[0]
                taken.append(now_ns - sent_ns)
    pipe.send(taken)


def _sleep_until(moment_ns: int) -> None:
    left_ns = moment_ns - time.monotonic_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)


def _take_answers(connection: socket.socket, answers: bytearray, error_at: int) -> None:
    try:
        read = connection.recv_into(answers, len(answers), socket.MSG_DONTWAIT)
    except BlockingIOError:
        return
    if read > error_at + 2:
        check_error(answers, error_at)


def _receive_answer(connection: socket.socket, buffer: bytearray) -> None:
    filled = connection.recv_into(buffer)
    while filled < 4 or filled < 4 + _INT.unpack_from(buffer)[0]:
        filled += receive_more(connection, buffer, filled)
