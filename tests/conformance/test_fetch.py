"""Fetch on raw frames: limits, waiting, offsets out of range, epochs, topic ids."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as Code

import raw
from brokers import Broker

LONG_MS = 20_000
"""A wait that no test should ever sit out."""


@pytest.fixture
def filled(connection: raw.Connection, topic: str) -> str:
    """Ten records in five batches of 1079 bytes each."""
    for number in range(5):
        raw.produce(connection, topic, raw.batch([b"%d" % number * 500] * 2))
    return topic


def base_offsets(answer: Any) -> list[int]:
    """Where the whole batches begin; Kafka may cut the last one, which a client throws away."""
    return [batch.base_offset for batch in raw.batches(answer.records)]


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_by_name(connection: raw.Connection, filled: str, version: int) -> None:
    answer = raw.fetch(connection, filled, 8, version)
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 10, 10)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert raw.values(answer.records) == [b"4" * 500] * 2


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_by_topic_id(connection: raw.Connection, filled: str, version: int) -> None:
    known, unknown = raw.topic_id(connection, filled), uuid.uuid4()
    asked = [{"partition": 0, "fetch_offset": 8, "partition_max_bytes": 1 << 20}]
    topics = [{"topic_id": topic_id, "partitions": asked} for topic_id in (known, unknown)]
    response = connection.call(
        "Fetch", version, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1, topics=topics
    )
    answers = {topic.topic_id: topic.partitions[0] for topic in response.responses}
    assert response.error_code == 0
    assert raw.values(answers[known].records) == [b"4" * 500] * 2
    assert answers[unknown].error_code == Code.unknown_topic_id


def test_a_batch_is_sent_whole_from_the_one_that_holds_the_offset(connection: raw.Connection, filled: str) -> None:
    assert base_offsets(raw.fetch(connection, filled, 0)) == [0, 2, 4, 6, 8]
    assert base_offsets(raw.fetch(connection, filled, 3)) == [2, 4, 6, 8]
    assert base_offsets(raw.fetch(connection, filled, 9)) == [8]


def test_at_the_end_there_is_nothing_and_beyond_it_an_error(connection: raw.Connection, filled: str) -> None:
    end = raw.fetch(connection, filled, 10)
    assert (end.error_code, end.high_watermark, bytes(end.records)) == (0, 10, b"")
    for offset in (11, -1, 1 << 60):
        answer = raw.fetch(connection, filled, offset)
        assert (Code(answer.error_code), answer.high_watermark) == (Code.offset_out_of_range, -1)


def test_before_the_start_is_out_of_range(connection: raw.Connection, filled: str) -> None:
    asked = [{"name": filled, "partitions": [{"partition_index": 0, "offset": 5}]}]
    connection.call("DeleteRecords", 2, topics=asked, timeout_ms=30_000)
    assert raw.fetch(connection, filled, 4).error_code == Code.offset_out_of_range
    answer = raw.fetch(connection, filled, 5)
    assert (base_offsets(answer), answer.log_start_offset) == ([4, 6, 8], 5)


@pytest.mark.parametrize("partition", [0, 9])
def test_unknown_topics_and_partitions(connection: raw.Connection, filled: str, name: str, partition: int) -> None:
    topic = name if partition == 0 else filled
    answer = raw.fetch(connection, topic, 0, partition=partition)
    assert (Code(answer.error_code), answer.high_watermark) == (Code.unknown_topic_or_partition, -1)


@pytest.mark.parametrize("limit", [0, 1, 1078, 1079])
@pytest.mark.parametrize("which", ["max_bytes", "partition_max_bytes"])
def test_one_batch_comes_however_small_the_limit(
    connection: raw.Connection, filled: str, which: str, limit: int
) -> None:
    assert base_offsets(raw.fetch(connection, filled, 0, **{which: limit})) == [0]


@pytest.mark.parametrize("which", ["max_bytes", "partition_max_bytes"])
def test_as_many_batches_come_as_fit(connection: raw.Connection, filled: str, which: str) -> None:
    assert base_offsets(raw.fetch(connection, filled, 0, **{which: 3 * 1079})) == [0, 2, 4]
    assert base_offsets(raw.fetch(connection, filled, 0, **{which: 4 * 1079 - 1})) == [0, 2, 4]


def test_the_limit_of_a_response_is_shared_by_its_partitions(
    connection: raw.Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        raw.produce(connection, topic, raw.batch([b"x" * 1000]), partition)
    asked = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for n in (2, 0, 1)]
    fields = {"max_wait_ms": 0, "min_bytes": 0, "session_epoch": -1, "topics": [{"topic": topic, "partitions": asked}]}
    for limit, expected in ((1, [2]), (2200, [2, 0]), (1 << 20, [2, 0, 1])):
        response = connection.call("Fetch", 12, max_bytes=limit, **fields)
        answers = response.responses[0].partitions
        assert [p.partition_index for p in answers] == [2, 0, 1]
        assert [p.partition_index for p in answers if raw.batches(p.records)] == expected


def test_read_committed_sees_all_that_is_not_in_a_transaction(connection: raw.Connection, filled: str) -> None:
    answer = raw.fetch(connection, filled, 0, isolation_level=1)
    assert (base_offsets(answer), answer.aborted_transactions) == ([0, 2, 4, 6, 8], [])
    assert raw.fetch(connection, filled, 0).aborted_transactions is None


@pytest.mark.parametrize(("epoch", "code"), [(-1, Code.none), (0, Code.none), (7, Code.unknown_leader_epoch)])
def test_the_leader_epoch_is_checked(connection: raw.Connection, filled: str, epoch: int, code: Code) -> None:
    answer = raw.fetch(connection, filled, 0, partition_fields={"current_leader_epoch": epoch})
    assert answer.error_code == code


def test_a_fetch_for_nothing_is_answered_with_nothing(connection: raw.Connection) -> None:
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_epoch": -1}
    response = connection.call("Fetch", 17, topics=[], **limits)
    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])


def test_a_waiting_fetch_is_woken_by_a_produce(broker: Broker, connection: raw.Connection, topic: str) -> None:
    with raw.Connection(broker.bootstrap) as waiting:
        waiting.send("Fetch", 12, **raw.fetch_fields(topic, 0, max_wait_ms=LONG_MS, min_bytes=1))
        assert waiting.is_silent(0.2)
        raw.produce(connection, topic, raw.batch([b"wake"]))
        response = waiting.receive("Fetch", 12)
    assert raw.values(response.responses[0].partitions[0].records) == [b"wake"]


def test_a_waiting_fetch_sleeps_until_min_bytes_are_there(
    broker: Broker, connection: raw.Connection, topic: str
) -> None:
    with raw.Connection(broker.bootstrap) as waiting:
        waiting.send("Fetch", 12, **raw.fetch_fields(topic, 0, max_wait_ms=LONG_MS, min_bytes=1500))
        raw.produce(connection, topic, raw.batch([b"x" * 1000]))
        assert waiting.is_silent(0.2)
        raw.produce(connection, topic, raw.batch([b"y" * 1000]))
        response = waiting.receive("Fetch", 12)
    assert raw.values(response.responses[0].partitions[0].records) == [b"x" * 1000, b"y" * 1000]


def test_any_partition_wakes_a_fetch_of_many(
    broker: Broker, connection: raw.Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=50)
    asked = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for n in range(50)]
    fields = {"max_wait_ms": LONG_MS, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    with raw.Connection(broker.bootstrap) as waiting:
        waiting.send("Fetch", 12, topics=[{"topic": topic, "partitions": asked}], **fields)
        raw.produce(connection, topic, raw.batch([b"wake"]), partition=37)
        response = waiting.receive("Fetch", 12)
    woken = [p.partition_index for p in response.responses[0].partitions if raw.batches(p.records)]
    assert woken == [37]


def test_many_waiting_consumers_are_woken_by_one_produce(
    broker: Broker, connection: raw.Connection, topic: str
) -> None:
    waiting = [raw.Connection(broker.bootstrap) for _ in range(20)]
    for one in waiting:
        one.send("Fetch", 12, **raw.fetch_fields(topic, 0, max_wait_ms=LONG_MS, min_bytes=1))
    raw.produce(connection, topic, raw.batch([b"wake"]))
    for one in waiting:
        with one:
            assert raw.values(one.receive("Fetch", 12).responses[0].partitions[0].records) == [b"wake"]


def test_a_waiting_fetch_ends_empty_when_its_time_is_over(connection: raw.Connection, topic: str) -> None:
    answer = raw.fetch(connection, topic, 0, max_wait_ms=100, min_bytes=1)
    assert (answer.error_code, answer.high_watermark, bytes(answer.records)) == (0, 0, b"")


@pytest.mark.parametrize("case", ["an error", "nothing asked for", "data for another partition"])
def test_a_fetch_does_not_wait_when_there_is_something_to_say(
    connection: raw.Connection, filled: str, case: str
) -> None:
    """With a wait beyond the test's own timeout."""
    asked = {
        "an error": raw.fetch_fields(filled, 99, max_wait_ms=LONG_MS * 10, min_bytes=1),
        "nothing asked for": raw.fetch_fields(filled, 10, max_wait_ms=LONG_MS * 10, min_bytes=0),
        "data for another partition": raw.fetch_fields(filled, 0, max_wait_ms=LONG_MS * 10, min_bytes=1),
    }[case]
    assert connection.call("Fetch", 12, **asked).error_code == 0


def test_a_deleted_topic_ends_the_wait(broker: Broker, connection: raw.Connection, topic: str) -> None:
    with raw.Connection(broker.bootstrap) as waiting:
        waiting.send("Fetch", 12, **raw.fetch_fields(topic, 0, max_wait_ms=LONG_MS, min_bytes=1))
        assert waiting.is_silent(0.1)
        connection.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=30_000)
        code = waiting.receive("Fetch", 12).responses[0].partitions[0].error_code
    assert code in (Code.unknown_topic_or_partition, Code.not_leader_or_follower)


def test_consumers_that_vanish_while_they_wait_harm_nobody(
    broker: Broker, connection: raw.Connection, topic: str
) -> None:
    for number in range(30):
        vanishing = raw.Connection(broker.bootstrap)
        vanishing.send("Fetch", 12, **raw.fetch_fields(topic, number, max_wait_ms=LONG_MS, min_bytes=1))
        if number % 2:
            vanishing.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # ends with a reset
        vanishing.close()
        assert raw.produce(connection, topic, raw.batch([b"v"])).base_offset == number
    assert raw.values(raw.fetch(connection, topic).records) == [b"v"] * 30


def test_a_consumer_that_does_not_read_its_answers_holds_up_nobody(
    broker: Broker, connection: raw.Connection, topic: str
) -> None:
    for _ in range(5):
        raw.produce(connection, topic, raw.batch([b"x" * 1_000_000]))
    with raw.Connection(broker.bootstrap) as slow:
        asked = [slow.frame("Fetch", 12, **raw.fetch_fields(topic, 0, partition_max_bytes=50 << 20)) for _ in range(20)]
        slow.send_bytes(b"".join(asked))
        for number in range(20):
            assert raw.produce(connection, topic, raw.batch([b"%d" % number])).error_code == 0
            assert raw.values(raw.fetch(connection, topic, 5 + number).records) == [b"%d" % number]
        for number in range(1, 21):
            answer = slow.receive("Fetch", 12, number).responses[0].partitions[0]
            assert raw.values(answer.records)[:5] == [b"x" * 1_000_000] * 5
