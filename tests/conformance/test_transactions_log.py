"""Transactions as the partitions show them, on raw frames: Fetch, ListOffsets, DescribeProducers, WriteTxnMarkers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from kio.schema.errors import ErrorCode as Code

import raw
from brokers import Broker
from members import wait_until
from transactional import Transactional

COMMITTED, UNCOMMITTED = 1, 0
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
LONG_MS = 20_000
MARKER_BYTES = 78


@pytest.fixture
def transactional(broker: Broker) -> Iterator[Callable[..., Transactional]]:
    """Makes producers that have begun, each on a connection of its own."""
    with ExitStack() as stack:

        def make(transactional_id: str | None = None) -> Transactional:
            producer = stack.enter_context(Transactional(broker.bootstrap, transactional_id))
            assert producer.settled(producer.init) == 0
            return producer

        yield make


@pytest.fixture
def producer(transactional: Callable[..., Transactional]) -> Transactional:
    return transactional()


def write(producer: Transactional, topic: str, values: list[bytes], partition: int = 0) -> None:
    assert producer.settled(lambda: producer.add(topic, partition)) == 0
    assert producer.produce(topic, values, partition) == 0


def end(connection: raw.Connection, producer: Transactional, topic: str, committed: bool) -> None:
    """Returns when the marker is in the topic: both brokers answer EndTxn before that."""
    before = stable(connection, topic, UNCOMMITTED)
    assert producer.end(committed) == 0
    wait_until(lambda: stable(connection, topic, UNCOMMITTED) > before)
    wait_until(lambda: producer.state() in ("CompleteCommit", "CompleteAbort"))


def stable(connection: raw.Connection, topic: str, isolation: int, timestamp: int = LATEST) -> int:
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
    answer = connection.call("ListOffsets", 8, replica_id=-1, isolation_level=isolation, topics=asked)
    found: int = answer.topics[0].partitions[0].offset
    return found


def fetch(connection: raw.Connection, topic: str, offset: int = 0, isolation: int = COMMITTED, **fields: Any) -> Any:
    return raw.fetch(connection, topic, offset, isolation_level=isolation, **fields)


def aborted(answer: Any) -> list[tuple[int, int]] | None:
    found = answer.aborted_transactions
    return None if found is None else [(each.producer_id, each.first_offset) for each in found]


def offsets(answer: Any) -> list[int]:
    return [batch.base_offset for batch in raw.batches(answer.records)]


# Reading.


@pytest.mark.parametrize("version", range(4, 13))
def test_committed_readers_end_where_a_transaction_is_open(
    connection: raw.Connection, producer: Transactional, topic: str, version: int
) -> None:
    raw.produce(connection, topic, raw.batch([b"before"]))
    write(producer, topic, [b"in", b"in"])
    raw.produce(connection, topic, raw.batch([b"after"]))
    answer = fetch(connection, topic, version=version)
    assert (answer.high_watermark, answer.last_stable_offset) == (4, 1)
    assert (offsets(answer), aborted(answer)) == ([0], [])
    answer = fetch(connection, topic, isolation=UNCOMMITTED, version=version)
    assert (answer.high_watermark, answer.last_stable_offset) == (4, 1)
    assert (offsets(answer), aborted(answer)) == ([0, 1, 3], None)


def test_at_the_last_stable_offset_there_is_nothing_and_no_error(
    connection: raw.Connection, producer: Transactional, topic: str
) -> None:
    write(producer, topic, [b"in"])
    for offset in (0, 1):
        answer = fetch(connection, topic, offset)
        assert (answer.error_code, answer.last_stable_offset, len(answer.records or b"")) == (0, 0, 0)
        assert aborted(answer) == []


def test_what_was_aborted_is_sent_and_named(connection: raw.Connection, producer: Transactional, topic: str) -> None:
    write(producer, topic, [b"gone", b"gone"])
    end(connection, producer, topic, committed=False)
    write(producer, topic, [b"there"])
    end(connection, producer, topic, committed=True)
    write(producer, topic, [b"gone again"])
    end(connection, producer, topic, committed=False)
    answer = fetch(connection, topic)
    assert (answer.high_watermark, answer.last_stable_offset) == (7, 7)
    assert offsets(answer) == [0, 2, 3, 4, 5, 6]
    assert aborted(answer) == [(producer.producer_id, 0), (producer.producer_id, 5)]
    assert aborted(fetch(connection, topic, 1)) == [(producer.producer_id, 0), (producer.producer_id, 5)]
    assert aborted(fetch(connection, topic, 3)) == [(producer.producer_id, 5)]
    assert aborted(fetch(connection, topic, 0, UNCOMMITTED)) is None
    assert aborted(fetch(connection, topic, 7)) == []


def test_transactions_that_interleave_are_named_in_the_order_of_their_ends(
    connection: raw.Connection, transactional: Callable[..., Transactional], topic: str
) -> None:
    first, second, third = transactional(), transactional(), transactional()
    write(first, topic, [b"1"])
    write(second, topic, [b"2"])
    write(third, topic, [b"3"])
    end(connection, second, topic, committed=False)
    assert stable(connection, topic, COMMITTED) == 0
    end(connection, first, topic, committed=False)
    answer = fetch(connection, topic)
    assert (answer.last_stable_offset, offsets(answer)) == (2, [0, 1])
    assert aborted(answer) == [(second.producer_id, 1), (first.producer_id, 0)]
    end(connection, third, topic, committed=True)
    assert stable(connection, topic, COMMITTED) == stable(connection, topic, UNCOMMITTED) == 6


def test_a_marker_has_the_same_bytes(connection: raw.Connection, producer: Transactional, topic: str) -> None:
    write(producer, topic, [b"v"])
    end(connection, producer, topic, committed=False)
    write(producer, topic, [b"v"])
    end(connection, producer, topic, committed=True)
    markers = [each for each in raw.batches(fetch(connection, topic).records) if each.is_control_batch]
    assert [(each.base_offset, each.size_in_bytes, each.base_sequence) for each in markers] == [
        (1, MARKER_BYTES, -1),
        (3, MARKER_BYTES, -1),
    ]
    assert {(each.producer_id, each.producer_epoch) for each in markers} == {(producer.producer_id, producer.epoch)}
    assert [[(record.key, record.value) for record in each] for each in markers] == [
        [(b"\0\0\0\0", b"\0\0\0\0\0\0")],
        [(b"\0\0\0\1", b"\0\0\0\0\0\0")],
    ]


def test_a_committed_long_poll_wakes_when_the_transaction_ends_and_not_before(
    broker: Broker, connection: raw.Connection, producer: Transactional, topic: str
) -> None:
    write(producer, topic, [b"first"])
    with raw.Connection(broker.bootstrap) as waiting:
        waiting.send(
            "Fetch", 12, **raw.fetch_fields(topic, isolation_level=COMMITTED, min_bytes=1, max_wait_ms=LONG_MS)
        )
        assert producer.produce(topic, [b"more"] * 10) == 0
        assert waiting.is_silent(0.3)
        end(connection, producer, topic, committed=True)
        answer = waiting.receive("Fetch", 12).responses[0].partitions[0]
    assert (offsets(answer), answer.last_stable_offset) == ([0, 1, 11], 12)


def test_a_committed_long_poll_waits_for_as_many_bytes_as_it_asked_for(
    broker: Broker, connection: raw.Connection, producer: Transactional, topic: str
) -> None:
    write(producer, topic, [b"first"])
    with raw.Connection(broker.bootstrap) as waiting:
        wanted = raw.fetch_fields(topic, isolation_level=COMMITTED, min_bytes=1000, max_wait_ms=LONG_MS)
        waiting.send("Fetch", 12, **wanted)
        end(connection, producer, topic, committed=True)
        assert waiting.is_silent(0.3)
        raw.produce(connection, topic, raw.batch([b"x" * 1000]))
        answer = waiting.receive("Fetch", 12).responses[0].partitions[0]
    assert offsets(answer) == [0, 1, 2]


# Offsets by name and time.


def test_the_end_for_committed_readers_is_the_last_stable_offset(
    connection: raw.Connection, producer: Transactional, topic: str
) -> None:
    raw.produce(connection, topic, raw.batch([b"old"], timestamp=raw.RECENT))
    write(producer, topic, [b"in"])
    found = {
        (timestamp, isolation): stable(connection, topic, isolation, timestamp)
        for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, raw.RECENT, raw.RECENT + 1)
        for isolation in (UNCOMMITTED, COMMITTED)
    }
    assert found == {
        (LATEST, UNCOMMITTED): 2,
        (LATEST, COMMITTED): 1,
        (EARLIEST, UNCOMMITTED): 0,
        (EARLIEST, COMMITTED): 0,
        (MAX_TIMESTAMP, UNCOMMITTED): 0,
        (MAX_TIMESTAMP, COMMITTED): 0,
        (raw.RECENT, UNCOMMITTED): 0,
        (raw.RECENT, COMMITTED): 0,
        (raw.RECENT + 1, UNCOMMITTED): -1,
        (raw.RECENT + 1, COMMITTED): -1,
    }
    end(connection, producer, topic, committed=True)
    assert stable(connection, topic, COMMITTED) == 3
    assert stable(connection, topic, COMMITTED, raw.RECENT + 1) == 2, "the marker is found by its time"


def test_records_can_be_deleted_inside_an_open_transaction(
    connection: raw.Connection, producer: Transactional, topic: str
) -> None:
    write(producer, topic, [b"in"])
    for _ in range(3):
        assert producer.produce(topic, [b"in"]) == 0
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 3}]}]
    deleted = connection.call("DeleteRecords", 2, topics=asked, timeout_ms=10_000)
    assert deleted.topics[0].partitions[0].low_watermark == 3
    answer = fetch(connection, topic, 3)
    assert (answer.log_start_offset, answer.last_stable_offset, answer.high_watermark) == (3, 3, 4)
    end(connection, producer, topic, committed=False)
    assert aborted(fetch(connection, topic, 3)) == [(producer.producer_id, 0)]


# Writing.


def test_a_transactional_batch_needs_a_transactional_id(
    connection: raw.Connection, producer: Transactional, topic: str
) -> None:
    write(producer, topic, [b"in"])
    records = raw.batch([b"v"], (producer.producer_id, producer.epoch, 1), is_transactional=True)
    assert raw.produce(connection, topic, records).error_code == Code.transactional_id_authorization_failed


@pytest.mark.parametrize(
    ("version", "expected"), [(10, Code.invalid_txn_state), (11, Code.transaction_abortable), (12, Code.none)]
)
def test_a_partition_that_was_not_added(
    connection: raw.Connection, producer: Transactional, topic: str, version: int, expected: Code
) -> None:
    """From version 12 on the produce request adds it itself."""
    assert producer.produce(topic, [b"v"], version=version) == expected
    assert stable(connection, topic, UNCOMMITTED) == (1 if version >= 12 else 0)


def test_after_its_end_a_transaction_takes_nothing_more(
    connection: raw.Connection, producer: Transactional, topic: str
) -> None:
    write(producer, topic, [b"v"])
    end(connection, producer, topic, committed=True)
    assert producer.produce(topic, [b"late"], version=11) == Code.transaction_abortable
    assert stable(connection, topic, COMMITTED) == stable(connection, topic, UNCOMMITTED) == 2


def test_a_plain_batch_of_a_producer_in_a_transaction_is_refused(
    connection: raw.Connection, producer: Transactional, topic: str
) -> None:
    write(producer, topic, [b"v"])
    records = raw.batch([b"plain"], (producer.producer_id, producer.epoch, 1))
    assert raw.produce(connection, topic, records).error_code == Code.invalid_txn_state


def test_all_batches_of_a_request_are_of_one_producer(
    connection: raw.Connection, transactional: Callable[..., Transactional], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    first, second = transactional(), transactional()
    data = [
        {"index": index, "records": raw.batch([b"v"], (each.producer_id, each.epoch, 0), is_transactional=True)}
        for index, each in enumerate((first, second))
    ]
    answer = first.call(
        "Produce", 11, transactional_id=first.id, acks=-1, timeout_ms=1000,
        topic_data=[{"name": topic, "partition_data": data}],
    )  # fmt: skip
    codes = {each.error_code for each in answer.responses[0].partition_responses}
    assert codes == {Code.invalid_producer_id_mapping}


def test_requests_sent_at_once_are_written_in_their_order(
    connection: raw.Connection, producer: Transactional, topic: str
) -> None:
    for number in range(5):
        records = raw.batch([b"%d" % number], (producer.producer_id, producer.epoch, number), is_transactional=True)
        producer.send("Produce", 12, **raw.produce_fields(topic, records, transactional_id=producer.id))
    answers = [producer.receive("Produce", 12, producer.correlation_id - 4 + number) for number in range(5)]
    assert [each.responses[0].partition_responses[0].error_code for each in answers] == [0] * 5
    assert raw.values(fetch(connection, topic, isolation=UNCOMMITTED).records) == [b"%d" % each for each in range(5)]


# Markers and producers.


def mark(connection: raw.Connection, topic: str, version: int = 1, **fields: Any) -> int:
    marker = {"transaction_result": False, "topics": [{"name": topic, "partition_indexes": [0]}]}
    answer = connection.call("WriteTxnMarkers", version, markers=[marker | fields])
    (only,) = answer.markers
    assert only.producer_id == fields["producer_id"]
    return int(only.topics[0].partitions[0].error_code)


def test_a_marker_can_be_written_by_hand(connection: raw.Connection, producer: Transactional, topic: str) -> None:
    write(producer, topic, [b"v"])
    who = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
    assert mark(connection, topic, **who, coordinator_epoch=0) == 0
    assert stable(connection, topic, COMMITTED) == 2
    assert aborted(fetch(connection, topic)) == [(producer.producer_id, 0)]


def test_a_marker_of_an_older_coordinator_or_producer_is_refused(
    connection: raw.Connection, producer: Transactional, topic: str
) -> None:
    write(producer, topic, [b"v"])
    who = {"producer_id": producer.producer_id}
    assert mark(connection, topic, **who, producer_epoch=3, coordinator_epoch=7) == 0
    fenced, stale = Code.transaction_coordinator_fenced, Code.invalid_producer_epoch
    assert mark(connection, topic, **who, producer_epoch=3, coordinator_epoch=6) == fenced
    assert mark(connection, topic, **who, producer_epoch=2, coordinator_epoch=7) == stale
    assert producer.produce(topic, [b"old epoch"]) == stale
    assert mark(connection, "nowhere", **who, producer_epoch=3, coordinator_epoch=7) == Code.unknown_topic_or_partition


def test_producers_are_described(connection: raw.Connection, producer: Transactional, topic: str) -> None:
    assert described(connection, topic) == (0, [])
    raw.produce(connection, topic, raw.batch([b"before"]))
    write(producer, topic, [b"v", b"v"])
    code, (only,) = described(connection, topic)
    assert code == 0
    assert (only.producer_id, only.producer_epoch) == (producer.producer_id, producer.epoch)
    assert (only.last_sequence, only.coordinator_epoch, only.current_txn_start_offset) == (1, -1, 1)
    assert only.last_timestamp == raw.RECENT + 1
    end(connection, producer, topic, committed=True)
    _, (only,) = described(connection, topic)
    assert (only.last_sequence, only.coordinator_epoch, only.current_txn_start_offset) == (1, 0, -1)
    assert only.last_timestamp > raw.RECENT + 1
    assert described(connection, "nowhere") == (Code.unknown_topic_or_partition, [])


def described(connection: raw.Connection, topic: str) -> tuple[int, list[Any]]:
    asked = [{"name": topic, "partition_indexes": [0]}]
    answer = connection.call("DescribeProducers", 0, topics=asked).topics[0].partitions[0]
    return answer.error_code, answer.active_producers


def test_many_producers_at_once_leave_only_what_they_committed(
    broker: Broker, connection: raw.Connection, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    committed: list[bytes] = []

    def work(number: int) -> None:
        with Transactional(broker.bootstrap) as producer:
            assert producer.settled(producer.init) == 0
            for turn in range(6):
                value = b"%d.%d" % (number, turn)
                write(producer, topic, [value])
                assert producer.settled(lambda turn=turn: producer.end(turn % 2 == 0)) == 0  # type: ignore[misc]
                committed.extend([value] if turn % 2 == 0 else [])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: stable(connection, topic, COMMITTED) == 48)
    assert sorted(visible(fetch(connection, topic))) == sorted(committed)


def visible(answer: Any) -> list[bytes]:
    """What a consumer shows of a committed fetch: neither markers nor what was aborted."""
    waiting = sorted(aborted(answer) or [], key=lambda each: each[1])
    skipped: set[int] = set()
    found: list[bytes] = []
    for batch in raw.batches(answer.records):
        while waiting and waiting[0][1] <= batch.base_offset:
            skipped.add(waiting.pop(0)[0])
        if batch.is_control_batch:
            skipped.discard(batch.producer_id)
        elif batch.producer_id not in skipped:
            found += [record.value for record in batch]
    return found
