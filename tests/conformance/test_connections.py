"""What a connection bears: pipelines, slow and broken writers, frames that are no frames."""

from __future__ import annotations

import struct

import pytest

import raw
from brokers import Broker

METADATA, FETCH, PRODUCE, LEADER_AND_ISR, VOTE = 3, 1, 0, 4, 52
MOST_BYTES = 100 * 1024 * 1024
"""`socket.request.max.bytes`."""


def frame(key: int, version: int, body: bytes = b"", flexible: bool = False) -> bytes:
    header = struct.pack(">hhih", key, version, 7, 1) + (b"t\0" if flexible else b"t")
    return struct.pack(">i", len(header) + len(body)) + header + body


BROKEN = {
    "a version that is too old": frame(PRODUCE, 2, bytes(20)),
    "a version that is too new": frame(METADATA, 99),
    "an unknown API": frame(999, 0),
    "a negative API": frame(-1, 0),
    "an API that Kafka removed": frame(LEADER_AND_ISR, 0),
    "an API of controllers": frame(VOTE, 0, bytes(10), flexible=True),
    "half a header": struct.pack(">i", 4) + b"abcd",
    "an empty frame": struct.pack(">i", 0),
    "a negative length": struct.pack(">i", -5),
    "a frame that is too large": struct.pack(">i", MOST_BYTES + 1),
    "an array longer than the frame": frame(METADATA, 12, b"\xff\xff\xff\xff\x0f", flexible=True),
    "an array of a million in four bytes": frame(METADATA, 1, struct.pack(">i", 1_000_000)),
    "null where a name must be": frame(METADATA, 1, struct.pack(">ih", 1, -1)),
    "no body": frame(METADATA, 1),
    "a body cut short": frame(FETCH, 12, b"\0\0", flexible=True),
    "another protocol": b"GET / HTTP/1.0\r\n\r\n",
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_request_ends_its_connection_and_no_other(
    broker: Broker, connection: raw.Connection, case: str
) -> None:
    with raw.Connection(broker.bootstrap) as broken:
        broken.send_bytes(BROKEN[case])
        assert broken.is_closed_by_peer()
    assert connection.call("ApiVersions", 0).error_code == 0


def test_bytes_after_a_request_are_ignored(connection: raw.Connection) -> None:
    """Clients have been seen to send a byte too many."""
    connection.send_bytes(frame(METADATA, 1, struct.pack(">i", 0) + b"extra"))
    assert struct.unpack_from(">i", connection.receive_frame()) == (7,)


def test_requests_before_a_broken_one_are_answered(connection: raw.Connection) -> None:
    connection.send_bytes(connection.frame("ApiVersions", 0) + BROKEN["an unknown API"])
    assert connection.receive("ApiVersions", 0).error_code == 0
    assert connection.is_closed_by_peer()


def test_a_request_may_come_byte_by_byte(connection: raw.Connection) -> None:
    for byte in connection.frame("ApiVersions", 0):
        connection.send_bytes(bytes([byte]))
    assert connection.receive("ApiVersions", 0).error_code == 0


def test_a_connection_may_end_in_the_middle_of_a_request(
    broker: Broker, connection: raw.Connection, topic: str
) -> None:
    with raw.Connection(broker.bootstrap) as leaving:
        whole = leaving.frame("Produce", 11, **raw.produce_fields(topic, raw.batch([b"never"])))
        leaving.send_bytes(whole[:-1])
    assert raw.produce(connection, topic, raw.batch([b"first"])).base_offset == 0


def test_many_requests_in_one_write_are_answered_in_order(connection: raw.Connection, topic: str) -> None:
    requests = [
        connection.frame("Produce", 11, **raw.produce_fields(topic, raw.batch([b"%d" % number])))
        for number in range(300)
    ]
    connection.send_bytes(b"".join(requests))
    answers = [connection.receive("Produce", 11, number + 1) for number in range(300)]
    assert [a.responses[0].partition_responses[0].base_offset for a in answers] == list(range(300))
    assert raw.values(raw.fetch(connection, topic).records) == [b"%d" % number for number in range(300)]


def test_different_requests_in_one_write_are_answered_in_order(connection: raw.Connection, topic: str) -> None:
    kinds = [
        ("Produce", 11, raw.produce_fields(topic, raw.batch([b"v"]))),
        ("Fetch", 12, raw.fetch_fields(topic, 0)),
        ("ApiVersions", 0, {}),
        ("Metadata", 12, {"topics": [{"name": topic, "topic_id": raw.NO_TOPIC_ID}]}),
        ("Produce", 9, raw.produce_fields(topic, raw.batch([b"v"]), acks=1)),
        ("ListOffsets", 6, {"replica_id": -1, "topics": []}),
    ] * 10
    connection.send_bytes(b"".join(connection.frame(api, version, **fields) for api, version, fields in kinds))
    for number, (api, version, _) in enumerate(kinds, start=1):
        connection.receive(api, version, number)


def test_a_waiting_fetch_holds_back_the_answers_behind_it(connection: raw.Connection, topic: str) -> None:
    """The answers keep their order, and what stands behind the fetch is done after it."""
    waiting = connection.frame("Fetch", 12, **raw.fetch_fields(topic, 0, max_wait_ms=300, min_bytes=1))
    connection.send_bytes(waiting + connection.frame("ApiVersions", 0))
    assert connection.receive("Fetch", 12, 1).error_code == 0
    assert connection.receive("ApiVersions", 0, 2).error_code == 0


def test_a_waiting_fetch_holds_back_nobody_else(broker: Broker, connection: raw.Connection, topic: str) -> None:
    with raw.Connection(broker.bootstrap) as waiting:
        waiting.send("Fetch", 12, **raw.fetch_fields(topic, 0, max_wait_ms=20_000, min_bytes=1 << 20))
        for number in range(20):
            assert raw.produce(connection, topic, raw.batch([b"v"])).base_offset == number


def test_hundreds_of_connections_at_once(broker: Broker, topic: str) -> None:
    opened = [raw.Connection(broker.bootstrap) for _ in range(300)]
    for one in opened:
        one.send("Produce", 11, **raw.produce_fields(topic, raw.batch([b"v"])))
    offsets = [one.receive("Produce", 11).responses[0].partition_responses[0].base_offset for one in opened]
    for one in opened:
        one.close()
    assert sorted(offsets) == list(range(300))


def test_a_request_of_many_megabytes(connection: raw.Connection, topic: str) -> None:
    """Many partitions that do not exist: the frame is large, and each is answered for itself."""
    records = raw.batch([b"x" * 900_000])
    parts = [{"index": index, "records": records} for index in range(1, 41)]
    data = [{"name": topic, "partition_data": [*parts, {"index": 0, "records": records}]}]
    response = connection.call("Produce", 11, acks=-1, timeout_ms=30_000, topic_data=data)
    answers = {p.index: p.error_code for p in response.responses[0].partition_responses}
    assert answers == {0: 0} | dict.fromkeys(range(1, 41), 3)
