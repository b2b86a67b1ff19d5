"""Ranges of offsets: exactly their records, whatever holes they have, and an end in every case."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from brokers import Broker, PenstockProcess
from penstock.client.admin import Admin
from penstock.client.arrow import reader as reader_module
from penstock.client.arrow.ahead import Ahead
from penstock.client.arrow.reader import DataLossError, read_ranges
from penstock.client.arrow.schema import SchemaError
from penstock.client.arrow.writer import ArrowWriter
from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.client.offsets import LATEST, READ_UNCOMMITTED, list_offsets
from penstock.client.producer import Producer
from penstock.client.transactional import TransactionalSession
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.records import Codec


def table_of(start: int, stop: int) -> pa.Table:
    return pa.table({"value": [str(number) for number in range(start, stop)]})


def fill(broker: Broker, topic: str, count: int, codec: Codec = Codec.NONE) -> None:
    """Messages with their own offsets as values, about seven to a batch."""
    with Cluster(broker.bootstrap) as cluster, Producer(cluster, batch_bytes=200, codec=codec) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0)


def offsets_of(bootstrap: str, where: TopicPartition, start: int, end: int, **options: object) -> list[int]:
    with Cluster(bootstrap) as cluster:
        batches = list(read_ranges(cluster, {where: (start, end)}, **options))
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_range_may_begin_and_end_in_the_middle_of_a_batch(broker: Broker, topic: str, codec: Codec) -> None:
    fill(broker, topic, 50, codec)
    where = TopicPartition(topic, 0)
    for start, end in ((0, 50), (3, 47), (10, 11), (0, 1), (49, 50), (24, 26)):
        assert offsets_of(broker.bootstrap, where, start, end) == list(range(start, end))


def test_an_empty_range_is_over_at_once(broker: Broker, topic: str) -> None:
    where = TopicPartition(topic, 0)
    assert offsets_of(broker.bootstrap, where, 0, 0) == []
    assert offsets_of(broker.bootstrap, where, 7, 5) == []
    with Cluster(broker.bootstrap) as cluster:
        assert list(read_ranges(cluster, {})) == []


def test_columns_come_in_the_order_in_which_they_are_asked_for(broker: Broker, topic: str) -> None:
    fill(broker, topic, 3)
    with Cluster(broker.bootstrap) as cluster:
        ranges = {TopicPartition(topic, 0): (0, 3)}
        (batch,) = read_ranges(cluster, ranges, columns=["offset", "headers", "value"])
        assert batch.schema.names == ["offset", "headers", "value"]
        with pytest.raises(SchemaError, match="no column 'ofset'"):
            read_ranges(cluster, ranges, columns=["ofset"])


def test_batches_are_not_larger_than_asked_for(broker: Broker, topic: str) -> None:
    penstock.write(topic, pa.table({"value": ["x" * 1000] * 1000}), broker.bootstrap)
    ranges = {TopicPartition(topic, 0): (0, 1000)}
    with Cluster(broker.bootstrap) as cluster:
        by_rows = list(read_ranges(cluster, ranges, batch_rows=64))
        assert max(batch.num_rows for batch in by_rows) == 64
        by_bytes = list(read_ranges(cluster, ranges, batch_bytes=50_000))
        assert max(batch.nbytes for batch in by_bytes) < 60_000
    assert sum(batch.num_rows for batch in by_rows) == sum(batch.num_rows for batch in by_bytes) == 1000


def test_markers_and_aborted_records_are_holes(broker: Broker, topic: str) -> None:
    where = TopicPartition(topic, 0)
    with Cluster(broker.bootstrap) as cluster:
        session = TransactionalSession(cluster, f"x-{uuid.uuid4().hex[:12]}")
        for is_commit in (True, False, False, True, False):
            transaction = session.begin()
            with ArrowWriter(cluster, topic, transaction=transaction) as writer:
                writer.write(table_of(0, 10))
            transaction.commit() if is_commit else transaction.abort()
    # Ten records and a marker each: 0-10 committed, 11-32 aborted, 33-43 committed, 44-54 aborted.
    committed = [*range(10), *range(33, 43)]
    assert offsets_of(broker.bootstrap, where, 0, 55) == committed
    assert offsets_of(broker.bootstrap, where, 5, 40) == [*range(5, 10), *range(33, 40)]
    assert offsets_of(broker.bootstrap, where, 10, 33) == []
    assert offsets_of(broker.bootstrap, where, 15, 20) == []
    assert offsets_of(broker.bootstrap, where, 54, 55) == []
    everything = [number for number in range(55) if number % 11 != 10]
    assert offsets_of(broker.bootstrap, where, 0, 55, isolation_level=READ_UNCOMMITTED) == everything


def test_an_open_transaction_is_waited_for(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "END_GRACE_SECONDS", 0.1)
    where = TopicPartition(topic, 0)
    with Cluster(broker.bootstrap) as cluster:
        transaction = TransactionalSession(cluster, f"x-{uuid.uuid4().hex[:12]}").begin()
        writer = ArrowWriter(cluster, topic, transaction=transaction)
        writer.write(table_of(0, 10))
        writer.flush()
        with pytest.raises(KafkaError, match="a transaction is open") as caught:
            offsets_of(broker.bootstrap, where, 0, 10, timeout_ms=2_000)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        read: list[int] = []
        waiting = threading.Thread(target=lambda: read.extend(offsets_of(broker.bootstrap, where, 0, 10)))
        waiting.start()
        transaction.commit()
        waiting.join()
        writer.close()
    assert read == list(range(10))


def test_records_that_were_deleted_are_an_error_or_left_out(broker: Broker, topic: str) -> None:
    fill(broker, topic, 50)
    where = TopicPartition(topic, 0)
    with Cluster(broker.bootstrap) as cluster:
        Admin(cluster).delete_records({where: 20})
    with pytest.raises(DataLossError, match=f"{where}: offset 5 is wanted, but the log has 20 to before 50") as caught:
        offsets_of(broker.bootstrap, where, 5, 40)
    assert (caught.value.where, caught.value.wanted, caught.value.earliest) == (where, 5, 20)
    assert offsets_of(broker.bootstrap, where, 5, 40, on_missing="skip") == list(range(20, 40))
    assert offsets_of(broker.bootstrap, where, 5, 15, on_missing="skip") == []


def test_what_others_deliver_is_not_lost_when_one_partition_lacks_its_offset(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    penstock.write(topic, pa.table({"value": ["x"] * 100, "partition": [0, 1] * 50}), broker.bootstrap)
    whole, cut = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Cluster(broker.bootstrap) as cluster:
        Admin(cluster).delete_records({cut: 30})
        ranges = {whole: (0, 50), cut: (0, 50)}
        read = pa.Table.from_batches(read_ranges(cluster, ranges, on_missing="skip"))
    found = sorted(zip(read["partition"].to_pylist(), read["offset"].to_pylist(), strict=True))
    assert found == [(0, offset) for offset in range(50)] + [(1, offset) for offset in range(30, 50)]


def test_a_range_beyond_the_end_is_an_error_or_ends_there(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "END_GRACE_SECONDS", 0.1)
    fill(broker, topic, 5)
    where = TopicPartition(topic, 0)
    with pytest.raises(DataLossError, match="offset 8 is wanted, but the log has 0 to before 5"):
        offsets_of(broker.bootstrap, where, 0, 9)
    assert offsets_of(broker.bootstrap, where, 0, 9, on_missing="skip") == list(range(5))
    with pytest.raises(DataLossError, match="offset 7 is wanted"):
        offsets_of(broker.bootstrap, where, 7, 9)
    assert offsets_of(broker.bootstrap, where, 7, 9, on_missing="skip") == []


def test_an_unknown_topic_or_partition_is_an_error(broker: Broker, topic: str, name: str) -> None:
    with pytest.raises(UnknownTopicError, match=f"no topic '{name}'"):
        offsets_of(broker.bootstrap, TopicPartition(name, 0), 0, 1)
    with pytest.raises(KafkaError, match="has no partition 7"):
        offsets_of(broker.bootstrap, TopicPartition(topic, 7), 0, 1)


def test_who_stops_early_leaves_no_thread_behind(broker: Broker, topic: str) -> None:
    penstock.write(topic, table_of(0, 1000), broker.bootstrap)
    with Cluster(broker.bootstrap) as cluster:
        batches = read_ranges(cluster, {TopicPartition(topic, 0): (0, 1000)}, batch_rows=10)
        assert next(batches).num_rows == 10
        batches.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-fetch"]


def test_batches_stay_what_they_are_while_more_is_read(broker: Broker, topic: str) -> None:
    """Memory is used again only when nobody looks at it any more."""
    penstock.write(topic, pa.table({"value": [str(number) * 400 for number in range(20_000)]}), broker.bootstrap)
    with Cluster(broker.bootstrap) as cluster:
        ranges = {TopicPartition(topic, 0): (0, 20_000)}
        kept = [batch for number, batch in enumerate(read_ranges(cluster, ranges, batch_rows=500)) if number % 3 == 0]
    for batch in kept:
        batch.validate(full=True)
        expected = [(str(offset) * 400).encode() for offset in batch["offset"].to_pylist()]
        assert batch["value"].to_pylist() == expected


def test_reading_goes_on_when_the_broker_was_killed_and_is_back(tmp_path: Path, name: str) -> None:
    with PenstockProcess(tmp_path) as process, Cluster(process.bootstrap) as cluster:
        Admin(cluster).create_topic(name, partitions=2)
        count = 60_000
        value = "x" * 1000
        penstock.write(name, pa.table({"value": [value] * count}), process.bootstrap)
        partitions = [TopicPartition(name, partition) for partition in range(2)]
        ends = {where: at.offset for where, at in list_offsets(cluster, dict.fromkeys(partitions, LATEST)).items()}
        batches = read_ranges(cluster, {where: (0, end) for where, end in ends.items()}, batch_rows=100)
        read = [next(batches)]
        process.kill()
        process.start()
        read += batches
    found = pa.Table.from_batches(read)
    pairs = list(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))
    assert len(pairs) == count
    for where, end in ends.items():
        assert [offset for partition, offset in pairs if partition == where.partition] == list(range(end))


@pytest.mark.parametrize("on_missing", ["error", "skip"])
def test_a_topic_that_was_created_anew_is_another_topic(tmp_path: Path, name: str, on_missing: str) -> None:
    with PenstockProcess(tmp_path) as process, Cluster(process.bootstrap) as cluster:
        Admin(cluster).create_topic(name)
        penstock.write(name, pa.table({"value": ["old" * 1000] * 10_000}), process.bootstrap)
        batches = read_ranges(cluster, {TopicPartition(name, 0): (0, 10_000)}, batch_rows=10, on_missing=on_missing)
        read = [next(batches)]  # the stock is full now, and more is to come
        Admin(cluster).delete_topic(name)
        Admin(cluster).create_topic(name)
        penstock.write(name, pa.table({"value": ["new" * 1000] * 10_000}), process.bootstrap)
        if on_missing == "skip":
            read += batches
        else:
            with pytest.raises(DataLossError, match=f"Partition {name}-0"):
                read.extend(batches)
    values = {value for batch in read for value in batch["value"].to_pylist()}
    assert values == {b"old" * 1000}


def test_the_stock_is_bounded_and_an_error_comes_after_what_was_before_it() -> None:
    made: list[int] = []

    def produce():
        for number in range(10):
            made.append(number)
            yield number
        raise ValueError("no more")

    taken: list[int] = []

    def take(ahead: Ahead[int]) -> None:
        for number in ahead:
            taken.append(number)
            assert len(made) <= len(taken) + 4  # three in stock, one in the thread's hand

    with Ahead(produce(), lambda _: 1, max_bytes=3) as ahead, pytest.raises(ValueError, match="no more"):
        take(ahead)
    assert taken == list(range(10))
