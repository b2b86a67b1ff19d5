"""Produce on raw frames: what is accepted, what is refused and with which code, and what is then in the log."""

from __future__ import annotations

import struct
import time
import uuid
from collections.abc import Callable

import crc32c
import pytest
from kio.schema.errors import ErrorCode as Code

import raw
from brokers import Broker

HOUR_MS = 3_600_000
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
BASE_OFFSET, LENGTH, MAGIC, CRC, ATTRIBUTES, LAST_OFFSET_DELTA, COUNT = 0, 8, 16, 17, 21, 23, 57
"""Where the fields of a batch's header are."""


def altered(batch: bytes, position: int, format_: str, value: int) -> bytes:
    """The batch with one field changed and its checksum right again."""
    changed = bytearray(batch)
    struct.pack_into(format_, changed, position, value)
    struct.pack_into(">I", changed, CRC, crc32c.crc32c(bytes(changed[ATTRIBUTES:])))
    return bytes(changed)


ONE = raw.batch([b"x"])


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_by_name(connection: raw.Connection, topic: str, version: int) -> None:
    first = raw.produce(connection, topic, ONE, version=version)
    assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    second = raw.produce(connection, topic, raw.batch([b"y", b"z"]), version=version)
    assert (second.error_code, second.base_offset) == (0, 1)
    assert raw.values(raw.fetch(connection, topic).records) == [b"x", b"y", b"z"]


def test_version_13_by_topic_id(connection: raw.Connection, topic: str) -> None:
    known, unknown = raw.topic_id(connection, topic), uuid.uuid4()
    data = [{"topic_id": id_, "partition_data": [{"index": 0, "records": ONE}]} for id_ in (known, unknown)]
    response = connection.call("Produce", 13, acks=-1, timeout_ms=30_000, topic_data=data)
    answers = {answer.topic_id: answer.partition_responses[0] for answer in response.responses}
    assert (answers[known].error_code, answers[known].base_offset) == (0, 0)
    assert (answers[unknown].error_code, answers[unknown].base_offset) == (Code.unknown_topic_id, -1)


def test_each_partition_of_a_request_has_its_own_answer(
    connection: raw.Connection, new_topic: Callable[..., str], name: str
) -> None:
    topic = new_topic(partitions=2)
    parts = [{"index": index, "records": ONE} for index in (0, 1, 9)]
    data = [{"name": topic, "partition_data": parts}, {"name": name, "partition_data": parts[:1]}]
    response = connection.call("Produce", 11, acks=-1, timeout_ms=30_000, topic_data=data)
    codes = {(r.name, p.index): p.error_code for r in response.responses for p in r.partition_responses}
    unknown = Code.unknown_topic_or_partition
    assert codes == {(topic, 0): 0, (topic, 1): 0, (topic, 9): unknown, (name, 0): unknown}


def test_a_request_for_nothing_is_answered_with_nothing(connection: raw.Connection) -> None:
    assert connection.call("Produce", 11, acks=-1, timeout_ms=30_000, topic_data=[]).responses == []


def test_produce_does_not_create_a_topic(connection: raw.Connection, name: str) -> None:
    assert raw.produce(connection, name, ONE).error_code == Code.unknown_topic_or_partition
    asked = [{"name": name, "topic_id": raw.NO_TOPIC_ID}]
    response = connection.call("Metadata", 12, topics=asked, allow_auto_topic_creation=False)
    assert response.topics[0].error_code == Code.unknown_topic_or_partition


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_refused(connection: raw.Connection, topic: str, acks: int) -> None:
    assert raw.produce(connection, topic, ONE, acks=acks).error_code == Code.invalid_required_acks


def test_min_insync_replicas_never_asks_for_more_than_there_are(
    connection: raw.Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(min_insync_replicas="3")
    for acks in (1, -1):
        assert raw.produce(connection, topic, ONE, acks=acks).error_code == 0


REFUSED = {
    "no batch": (b"", Code.invalid_record),
    "two batches": (ONE + ONE, Code.invalid_record),
    "a flipped bit": (ONE[:-1] + bytes([ONE[-1] ^ 1]), Code.corrupt_message),
    "magic 1": (ONE[:MAGIC] + b"\1" + ONE[MAGIC + 1 :], Code.invalid_record),
    "magic 3": (ONE[:MAGIC] + b"\3" + ONE[MAGIC + 1 :], Code.corrupt_message),
    "zeros": (bytes(80), Code.corrupt_message),
    "a batch cut short": (ONE[:-3], Code.invalid_record),
    "half a header": (ONE[:20], Code.invalid_record),
    "more records announced than there are": (altered(ONE, COUNT, ">i", 2), Code.invalid_record),
    "a last offset that does not fit the count": (altered(ONE, LAST_OFFSET_DELTA, ">i", 5), Code.invalid_record),
    "a base offset that is not 0": (altered(ONE, BASE_OFFSET, ">q", 55), Code.invalid_record),
    "a control batch": (altered(ONE, ATTRIBUTES, ">h", 0x20), Code.invalid_record),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_records_are_refused_and_leave_no_trace(connection: raw.Connection, topic: str, case: str) -> None:
    records, expected = REFUSED[case]
    answer = raw.produce(connection, topic, records)
    assert (Code(answer.error_code), answer.base_offset) == (expected, -1)
    assert raw.produce(connection, topic, ONE).base_offset == 0


def test_a_batch_of_no_records_is_refused(connection: raw.Connection, topic: str) -> None:
    empty = altered(ONE[:61], LENGTH, ">i", 49)
    empty = altered(altered(empty, LAST_OFFSET_DELTA, ">i", -1), COUNT, ">i", 0)
    assert raw.produce(connection, topic, empty).error_code == Code.invalid_record


def test_a_codec_that_does_not_exist_is_refused(connection: raw.Connection, topic: str) -> None:
    assert raw.produce(connection, topic, altered(ONE, ATTRIBUTES, ">h", 7)).error_code != 0
    assert raw.produce(connection, topic, ONE).base_offset == 0


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_records_that_do_not_decompress(
    broker: Broker, connection: raw.Connection, new_topic: Callable[..., str], codec: int
) -> None:
    """Kafka decompresses every batch; Penstock only where it has to look inside (docs/differences.md)."""
    garbage = altered(ONE, ATTRIBUTES, ">h", codec)
    refused = raw.produce(connection, new_topic(), garbage).error_code != 0
    assert refused == (broker.name == "kafka")
    for looks_inside in ({"cleanup_policy": "compact"}, {"compression_type": "uncompressed"}):
        assert raw.produce(connection, new_topic(**looks_inside), garbage).error_code != 0


def test_bytes_after_the_batch_are_ignored(connection: raw.Connection, topic: str) -> None:
    assert raw.produce(connection, topic, ONE + b"\0\0\0").error_code == 0
    assert raw.values(raw.fetch(connection, topic).records) == [b"x"]


def test_zstd_needs_version_7(connection: raw.Connection, topic: str) -> None:
    records = raw.batch([b"x" * 1000], compression=ZSTD)
    assert raw.produce(connection, topic, records, version=6).error_code == Code.unsupported_compression_type
    assert raw.produce(connection, topic, records, version=7).error_code == 0


def test_a_time_too_far_ahead_is_refused_record_by_record(connection: raw.Connection, topic: str) -> None:
    ahead = int(time.time() * 1000) + 2 * HOUR_MS
    answer = raw.produce(connection, topic, raw.batch([b"x", b"y"], timestamp=ahead))
    assert answer.error_code == Code.invalid_timestamp
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert "invalid timestamp" in answer.error_message


def test_a_time_too_far_back_is_refused_where_the_topic_says_so(
    connection: raw.Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(message_timestamp_before_max_ms=str(HOUR_MS))
    assert raw.produce(connection, topic, ONE).error_code == Code.invalid_timestamp
    now = int(time.time() * 1000)
    assert raw.produce(connection, topic, raw.batch([b"x"], timestamp=now)).error_code == 0


@pytest.mark.parametrize("compression", [0, GZIP])
def test_a_compacted_topic_wants_keys(
    connection: raw.Connection, new_topic: Callable[..., str], compression: int
) -> None:
    topic = new_topic(cleanup_policy="compact")
    values = [b"x" * 500, b"y" * 500]
    answer = raw.produce(connection, topic, raw.batch(values, keys=[b"k", None], compression=compression))
    assert answer.error_code == Code.invalid_record
    assert [error.batch_index for error in answer.record_errors] == [1]
    keyed = raw.batch(values, keys=[b"k", b"l"], compression=compression)
    assert raw.produce(connection, topic, keyed).base_offset == 0


@pytest.mark.parametrize("compression", [0, GZIP, LZ4])
def test_log_append_time_is_told_to_the_producer_and_written_in_the_batch(
    connection: raw.Connection, new_topic: Callable[..., str], compression: int
) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    answer = raw.produce(connection, topic, raw.batch([b"x" * 500] * 3, compression=compression))
    assert answer.error_code == 0
    (stored,) = raw.batches(raw.fetch(connection, topic).records)
    assert (stored.timestamp_type, stored.max_timestamp) == (1, answer.log_append_time_ms)
    assert {record.timestamp for record in stored} == {answer.log_append_time_ms}


def test_batches_are_stored_as_they_were_sent(connection: raw.Connection, topic: str) -> None:
    """All but the base offset and the leader epoch, which the checksum does not cover."""
    sent = [raw.batch([b"x" * 200] * 5, compression=codec) for codec in range(5)]
    for batch in sent:
        assert raw.produce(connection, topic, batch).error_code == 0
    data = bytes(raw.fetch(connection, topic).records)
    for index, batch in enumerate(sent):
        stored, data = data[: len(batch)], data[len(batch) :]
        assert struct.unpack_from(">qii", stored) == (index * 5, len(batch) - 12, 0)
        assert stored[MAGIC:] == batch[MAGIC:]
    assert data == b""


@pytest.mark.parametrize(
    ("setting", "codec"), [("uncompressed", 0), ("gzip", GZIP), ("snappy", SNAPPY), ("lz4", LZ4), ("zstd", ZSTD)]
)
def test_compression_type_of_a_topic_recompresses(
    connection: raw.Connection, new_topic: Callable[..., str], setting: str, codec: int
) -> None:
    topic = new_topic(compression_type=setting)
    for sent in range(5):
        assert raw.produce(connection, topic, raw.batch([b"x" * 500, b"y"], compression=sent)).base_offset == sent * 2
    stored = raw.batches(raw.fetch(connection, topic).records)
    assert [(batch.compression_type, batch.base_offset) for batch in stored] == [(codec, n * 2) for n in range(5)]
    assert [record.value for batch in stored for record in batch] == [b"x" * 500, b"y"] * 5


def test_acks_0_is_never_answered(connection: raw.Connection, topic: str) -> None:
    for _ in range(3):
        connection.send("Produce", 11, **raw.produce_fields(topic, ONE, acks=0))
    assert connection.call("ApiVersions", 0).error_code == 0
    assert raw.values(raw.fetch(connection, topic).records) == [b"x"] * 3


@pytest.mark.parametrize("case", ["unknown topic", "corrupt batch"])
def test_an_error_with_acks_0_closes_the_connection(
    broker: Broker, connection: raw.Connection, topic: str, name: str, case: str
) -> None:
    """There is no other way to tell the producer that it should look again."""
    wrong = (name, ONE) if case == "unknown topic" else (topic, REFUSED["a flipped bit"][0])
    connection.send("Produce", 11, **raw.produce_fields(*wrong, acks=0))
    assert connection.is_closed_by_peer()
