"""Writing Arrow: the partitions that other clients choose, every row once, and clear words for what cannot be."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pyarrow as pa
import pytest

import penstock
from brokers import Broker, PenstockProcess
from changes import check_seen
from penstock.client.admin import Admin
from penstock.client.arrow.placement import Placement
from penstock.client.arrow.schema import SchemaError
from penstock.client.arrow.writer import ArrowWriter
from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.client.partitioner import consistent_random, murmur2_random
from penstock.client.transactional import TransactionalSession
from penstock.env.chance import system_chance
from penstock.errors import ConfigError, ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.records import Codec

KEYS = [b"a", b"user-1", b"\x00", b"\xff" * 33, "\u00e9\u00e8".encode(), *(b"%d" % number for number in range(200))]


def read(broker: Broker, topic: str, *columns: str) -> list[tuple]:
    table = penstock.read(topic, bootstrap=broker.bootstrap, columns=columns).read_all()
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


def test_keys_go_where_confluent_kafka_sends_them(broker: Broker, new_topic: Callable[..., str]) -> None:
    ours, theirs = new_topic(partitions=7), new_topic(partitions=7)
    penstock.write(ours, pa.table({"key": KEYS, "value": KEYS}), broker.bootstrap)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    for key in KEYS:
        producer.produce(theirs, key, key)
    assert producer.flush(60) == 0
    columns = ("partition", "offset", "key")
    assert sorted(read(broker, ours, *columns)) == sorted(read(broker, theirs, *columns))


@pytest.mark.parametrize(
    ("name", "partitioner"), [("consistent_random", consistent_random), ("murmur2_random", murmur2_random)]
)
def test_the_partitioner_is_that_of_the_other_producer(name: str, partitioner: Callable) -> None:
    keys = [*KEYS, b"", None]
    placed = Placement("t", name, system_chance()).place(pa.record_batch({"key": keys, "value": keys}), 5, 900_000)
    found = {key: partition for partition, rows in placed for key in rows["key"].to_pylist()}
    for key in keys:
        expected = partitioner(key, 5)
        assert expected is None or found[key] == expected


def test_a_partitioner_that_is_not_known_is_an_error(broker: Broker, topic: str) -> None:
    with pytest.raises(ConfigError, match="'random' is not a partitioner"):
        penstock.write(topic, pa.table({"value": ["x"]}), broker.bootstrap, partitioner="random")


def test_rows_without_a_key_are_spread_batch_by_batch() -> None:
    placement = Placement("t", "consistent_random", system_chance())
    rows = pa.record_batch({"value": ["x" * 84] * 1000})
    placed = list(placement.place(rows, 4, 10_000))
    sizes = Counter()
    for partition, part in placed:
        sizes[partition] += part.num_rows
    assert len(placed) == 11  # 88 bytes with the offset, 16 of a record around it: 96 to a batch
    assert set(sizes) == {0, 1, 2, 3}
    assert sum(sizes.values()) == 1000


def test_a_partition_column_comes_before_the_key(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    by_key = consistent_random(b"k", 3)
    table = pa.table({"key": ["k", "k", None], "value": ["0", "1", "2"], "partition": [2, None, 1]})
    penstock.write(topic, table, broker.bootstrap)
    assert sorted(read(broker, topic, "value", "partition")) == [(b"0", 2), (b"1", by_key), (b"2", 1)]


@pytest.mark.parametrize("partition", [3, -1])
def test_a_partition_that_is_not_there_is_an_error(
    broker: Broker, new_topic: Callable[..., str], partition: int
) -> None:
    topic = new_topic(partitions=3)
    with pytest.raises(KafkaError, match=f"'partition' has {partition}, but topic '{topic}' has 3") as caught:
        penstock.write(topic, pa.table({"value": ["x"], "partition": [partition]}), broker.bootstrap)
    assert caught.value.code is ErrorCode.INVALID_PARTITIONS


def test_a_column_may_name_the_topics(broker: Broker, new_topic: Callable[..., str]) -> None:
    first, second = new_topic(), new_topic(partitions=2)
    table = pa.table({"topic": [first, second, first], "value": ["0", "1", "2"]})
    result = penstock.write(None, table, broker.bootstrap)
    assert result.row_count == 3
    assert read(broker, first, "value") == [(b"0",), (b"2",)]
    assert read(broker, second, "value") == [(b"1",)]
    with pytest.raises(SchemaError, match="'topic' has a null"):
        penstock.write(None, pa.table({"topic": [first, None], "value": ["0", "1"]}), broker.bootstrap)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"key": ["a"]}, "no column 'value'"),
        ({"value": [1]}, "Column 'value' is int64; binary or string is expected. Encode it first"),
        ({"value": ["a"], "key": [1.5]}, "Column 'key' is double; binary or string is expected"),
        ({"value": ["a"], "partition": ["0"]}, "Column 'partition' is string; an integer is expected"),
        ({"value": ["a"], "partition": [2**40]}, "Column 'partition', int64, cannot be made int32"),
        ({"value": ["a"], "timestamp": [5]}, "Column 'timestamp' is int64; a timestamp is expected"),
        ({"value": ["a"], "headers": [["x"]]}, "Column 'headers' is list<.*; list<struct<key: string, value: binary>>"),
        ({"value": ["a"], "headers": [[{"key": None, "value": b""}]]}, "'headers' has a header without a key"),
        ({"value": ["a"], "vlaue": ["a"]}, "no column 'vlaue'. What can be written is key, value,"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_schema_is_a_sentence_that_names_the_column(
    broker: Broker, topic: str, columns: dict, words: str
) -> None:
    with pytest.raises(SchemaError, match=words):
        penstock.write(topic, pa.table(columns), broker.bootstrap)
    assert read(broker, topic, "value") == []


def test_a_table_without_a_topic_needs_the_column(broker: Broker) -> None:
    with pytest.raises(SchemaError, match="No topic is named, and there is no column 'topic'"):
        penstock.write(None, pa.table({"value": ["x"]}), broker.bootstrap)


def test_an_unknown_topic_is_an_error(broker: Broker, name: str) -> None:
    with pytest.raises(UnknownTopicError):
        penstock.write(name, pa.table({"value": ["x"]}), broker.bootstrap)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_batches_that_are_too_large_for_the_topic_become_smaller(
    broker: Broker, new_topic: Callable[..., str], codec: Codec
) -> None:
    topic = new_topic(**{"max.message.bytes": "5000"})
    values = [uuid.uuid5(uuid.NAMESPACE_OID, str(number)).bytes for number in range(3000)]
    with Cluster(broker.bootstrap) as cluster, ArrowWriter(cluster, topic, codec=codec, batch_bytes=20_000) as writer:
        writer.write(pa.table({"value": values}))
    assert writer.written[TopicPartition(topic, 0)].row_count == 3000
    assert read(broker, topic, "value") == [(value,) for value in values]


def test_a_row_that_is_too_large_is_an_error_that_stays(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(**{"max.message.bytes": "5000"})
    with Cluster(broker.bootstrap) as cluster:
        writer = ArrowWriter(cluster, topic)
        writer.write(pa.table({"value": ["x" * 6000]}))
        with pytest.raises(KafkaError, match=f"Partition {topic}-0") as caught:
            writer.flush()
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        writer.write(pa.table({"value": ["y"]}))
        with pytest.raises(KafkaError) as again:
            writer.close()
        assert again.value is caught.value


@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_acknowledgements_may_be_chosen(broker: Broker, topic: str, acks: object) -> None:
    with Cluster(broker.bootstrap) as cluster, ArrowWriter(cluster, topic, acks=acks) as writer:
        writer.write(pa.table({"value": ["0", "1"]}))
        writer.flush()
        written = writer.written[TopicPartition(topic, 0)]
    assert written.row_count == 2
    assert (written.base_offset, written.end_offset) == ((-1, -1) if acks == 0 else (0, 2))
    while len(found := read(broker, topic, "value")) < 2:
        assert acks == 0
    assert found == [(b"0",), (b"1",)]


def test_idempotence_needs_every_acknowledgement(broker: Broker, topic: str) -> None:
    with Cluster(broker.bootstrap) as cluster:
        with pytest.raises(ConfigError, match="need acks='all'"):
            ArrowWriter(cluster, topic, acks=1, idempotent=True)
        with pytest.raises(ConfigError, match="acks=2 is not known"):
            ArrowWriter(cluster, topic, acks=2)  # type: ignore[arg-type]


def test_many_small_writes_make_few_batches_in_order(broker: Broker, topic: str) -> None:
    with Cluster(broker.bootstrap) as cluster, ArrowWriter(cluster, topic) as writer:
        for number in range(500):
            writer.write(pa.record_batch({"value": [str(number)]}))
        writer.write(pa.record_batch({"key": ["k"], "value": ["500"]}))  # another schema
    assert read(broker, topic, "value") == [(b"%d" % number,) for number in range(501)]


def test_a_transaction_is_seen_as_a_whole_or_not_at_all(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    table = pa.table({"key": KEYS, "value": KEYS})
    with Cluster(broker.bootstrap) as cluster:
        session = TransactionalSession(cluster, f"x-{uuid.uuid4().hex[:12]}")
        committed = 0
        for is_commit in (False, True, True):
            transaction = session.begin()
            with ArrowWriter(cluster, topic, transaction=transaction) as writer:
                writer.write(table)
            assert len(read(broker, topic, "value")) == committed
            transaction.commit() if is_commit else transaction.abort()
            committed += len(KEYS) * is_commit
            check_seen(broker, lambda: len(read(broker, topic, "value")), committed)  # Kafka writes markers later
    assert Counter(value for (value,) in read(broker, topic, "value")) == Counter(KEYS * 2)


def test_a_failed_transactional_write_leaves_nothing(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic, transactional_id = new_topic(partitions=2), f"x-{uuid.uuid4().hex[:12]}"
    good = pa.record_batch({"value": ["x" * 1000] * 5000})

    def batches():
        yield good
        raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError, match="the source failed"):
        penstock.write(topic, batches(), broker.bootstrap, transactional_id=transactional_id)
    assert read(broker, topic, "offset") == []
    assert penstock.write(topic, good, broker.bootstrap, transactional_id=transactional_id).row_count == 5000
    check_seen(broker, lambda: len(read(broker, topic, "offset")), 5000)


@pytest.mark.parametrize("is_transactional", [False, True])
def test_nothing_is_lost_or_doubled_when_the_broker_is_killed(
    tmp_path: Path, name: str, is_transactional: bool
) -> None:
    with PenstockProcess(tmp_path) as process, Cluster(process.bootstrap) as cluster:
        Admin(cluster).create_topic(name, partitions=2)
        begun = threading.Event()
        restarted = threading.Event()

        def kill() -> None:
            for _ in range(2):
                begun.wait()
                begun.clear()
                process.kill()
                process.start()
            restarted.set()

        killer = threading.Thread(target=kill)
        killer.start()
        transaction = TransactionalSession(cluster, "x").begin() if is_transactional else None
        written, number = 0, 0
        with ArrowWriter(cluster, name, transaction=transaction, batch_bytes=50_000) as writer:
            while not restarted.is_set() or written < 20:
                keys = [f"{number}-{row}" for row in range(2000)]
                writer.write(pa.table({"key": keys, "value": keys}))
                written, number = written + 1, number + 1
                if written >= 5 and writer.written:
                    begun.set()
        killer.join()
        if transaction is not None:
            transaction.commit()
        found = penstock.read(name, bootstrap=process.bootstrap, columns=["partition", "value"]).read_all()
    expected = [f"{batch}-{row}".encode() for batch in range(number) for row in range(2000)]
    for partition in range(2):
        mine = [value for value in expected if consistent_random(value, 2) == partition]
        chosen = zip(found["partition"].to_pylist(), found["value"].to_pylist(), strict=True)
        assert [value for each, value in chosen if each == partition] == mine
    assert sum(each.row_count for each in writer.written.values()) == len(expected)


def test_a_broker_that_does_not_come_back_is_an_error(tmp_path: Path, name: str) -> None:
    with PenstockProcess(tmp_path) as process:
        with Cluster(process.bootstrap) as cluster:
            Admin(cluster).create_topic(name)
            writer = ArrowWriter(cluster, name, delivery_timeout_ms=500)
            writer.write(pa.table({"value": ["x"]}))
            writer.flush()
            process.kill()
            writer.write(pa.table({"value": ["x"]}))
            with pytest.raises(KafkaError):
                writer.flush()
        process.start()
