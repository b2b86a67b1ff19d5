"""librdkafka's own batches in every codec: produced to the mock cluster inside it, fetched back raw, and read by us."""

from __future__ import annotations

import socket
import struct

import pytest
from confluent_kafka import Producer

from penstock.errors import KafkaError
from penstock.wire.columns import decode_columns
from penstock.wire.record import Record, iterate_records
from penstock.wire.records import Codec, check_batch

TOPIC = "frames"


@pytest.mark.parametrize("codec", list(Codec))
def test_librdkafka_s_batches_are_read_record_for_record(codec: Codec) -> None:
    settings = {"test.mock.num.brokers": 1, "compression.codec": codec.name.lower(), "linger.ms": 50}
    producer = Producer({**settings, "log_level": 0})
    broker = next(iter(producer.list_topics(TOPIC, timeout=30).brokers.values()))
    expected = [
        Record(i, 1_700_000_000_000 - i, b"key" if i % 2 else None, b"value " * i or None, (("h", b"x"), ("n", None)))
        for i in range(40)
    ]
    for record in expected:
        producer.produce(TOPIC, record.value, record.key, 0, timestamp=record.timestamp, headers=list(record.headers))
    assert producer.flush(30) == 0
    batches = fetch(broker.host, broker.port)
    assert {check_batch(batch, 0, len(batch)).compression for batch in batches} == {codec}
    assert [record for batch in batches for record in iterate_records(batch)] == expected
    assert decode_columns(b"".join(batches), with_headers=True).row_count == len(expected)


def fetch(host: str, port: int) -> list[bytes]:
    """Fetch v4 from offset 0 by hand, and every intact batch in the answer."""
    body = struct.pack(">iiiibi", -1, 1_000, 1, 1 << 20, 0, 1) + struct.pack(">h", len(TOPIC)) + TOPIC.encode()
    body += struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    request = struct.pack(">hhih", 1, 4, 7, -1) + body
    with socket.create_connection((host, port), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        stream = connection.makefile("rb")
        (size,) = struct.unpack(">i", stream.read(4))
        return intact_batches(stream.read(size))


def intact_batches(answer: bytes) -> list[bytes]:
    found = []
    pos = 0
    while pos < len(answer):
        try:
            size = check_batch(answer, pos, len(answer)).size_bytes
        except KafkaError:
            pos += 1
            continue
        found.append(answer[pos : pos + size])
        pos += size
    return found
