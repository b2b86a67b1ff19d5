"""The least that any broker can take: a process between producer and consumer that only passes records on.

It stands where a broker stands in `end_to_end.py`, for the same two clients, on the same machine, at the same pace: two
connections, one `select`, no file, no check, no log. What its p99 shows is the machine's: waking three processes on the
cores that are there. A broker's latency is to be read against it.

It answers fetches as a long poll does, with all the records that have come since the last, and produce requests not at
all: the producer takes answers only when they are there.
"""

from __future__ import annotations

import multiprocessing
import select
import socket
import struct
from array import array
from multiprocessing.connection import Connection

from .end_to_end import RECORD_BATCH_BYTES, run_end_to_end
from .frames import FetchAnswer, make_batch, produce_frame

_INT = struct.Struct(">i")
RECEIVE_BYTES = 1 << 20


def run_relay(topic: str, count: int, per_second: int) -> array[int]:
    """What `run_end_to_end` gives, with nothing in between."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=relay, args=(topic, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        return run_end_to_end(ours.recv(), topic, count, per_second)
    finally:
        process.kill()
        process.join()


def relay(topic: str, pipe: Connection) -> None:
    """The consumer connects first, as it does in `run_end_to_end`."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        consumer, producer = _accept(server), _accept(server)
    batch = make_batch(RECORD_BATCH_BYTES)
    frame = produce_frame(topic, [0], batch)
    frame_bytes, batch_at = len(frame), frame.index(batch.data)
    answer, received, waiting = FetchAnswer.of(topic), bytearray(), False
    sources = [consumer, producer]
    while consumer in sources:
        for source in select.select(sources, [], [])[0]:
            came = source.recv(RECEIVE_BYTES)
            if not came:
                sources.remove(source)
            elif source is consumer:
                waiting = True
            else:
                received += came
        whole = len(received) // frame_bytes
        if waiting and whole:
            starts = range(batch_at, whole * frame_bytes, frame_bytes)
            consumer.sendall(_answer(answer, [received[at : at + len(batch.data)] for at in starts]))
            del received[: whole * frame_bytes]
            waiting = False


def _accept(server: socket.socket) -> socket.socket:
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _answer(answer: FetchAnswer, batches: list[bytearray]) -> bytearray:
    head = bytearray(answer.records_at)
    records = b"".join(batches)
    _INT.pack_into(head, answer.records_length_at, len(records))
    _INT.pack_into(head, 0, len(head) + len(records) - 4)
    return head + records
