"""Messages that were sent are there once, in order; what could not be sent is reported. On Penstock and on Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import raw
from brokers import Broker, PenstockProcess
from changes import check_deleted
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.fetcher import Fetcher, records_of
from penstock.client.offsets import LATEST, list_offsets
from penstock.client.partitioner import round_robin
from penstock.client.producer import Delivery, Producer
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.record import Record
from penstock.wire.records import Codec


def read_all(cluster: Cluster, topic: str, partition: int = 0) -> list[Record]:
    """Every record up to the end as it is now."""
    where = TopicPartition(topic, partition)
    end = list_offsets(cluster, {where: LATEST})[where].offset
    records: list[Record] = []
    with Fetcher(cluster, {where: 0}) as fetcher:
        while fetcher.positions[where] < end:
            records += [record for fetched in fetcher.poll() for record in records_of(fetched)]
    return records


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_messages_come_back_as_they_were_sent(broker: Broker, topic: str, codec: Codec) -> None:
    deliveries: list[Delivery] = []
    headers = (("name", b"value"), ("name", None), ("größe", b""))
    with Cluster(broker.bootstrap) as cluster:
        with Producer(cluster, codec=codec, on_delivery=deliveries.append) as producer:
            producer.send(topic, b"value", key=b"key", headers=headers, timestamp_ms=1_700_000_000_000)
            producer.send(topic, None, key=b"tombstone", timestamp_ms=1_700_000_000_001)
            producer.send(topic, b"", timestamp_ms=1_700_000_000_002)
        records = read_all(cluster, topic)
    assert deliveries == [Delivery(TopicPartition(topic, 0), 3, 0)]
    assert records == [
        Record(0, 1_700_000_000_000, b"key", b"value", headers),
        Record(1, 1_700_000_000_001, b"tombstone", None),
        Record(2, 1_700_000_000_002, None, b""),
    ]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_every_acks_writes_in_order(broker: Broker, topic: str, acks: int) -> None:
    with Cluster(broker.bootstrap) as cluster:
        with Producer(cluster, acks=acks, batch_bytes=500) as producer:
            for number in range(100):
                producer.send(topic, b"%d" % number)
        with Producer(cluster) as producer:  # its answer comes after all of the others were written
            producer.send(topic, b"last")
        values = [record.value for record in read_all(cluster, topic)]
    assert values == [b"%d" % number for number in range(100)] + [b"last"]


def test_a_batch_too_large_for_its_topic_is_halved_until_it_fits(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="2000")
    deliveries: list[Delivery] = []
    with Cluster(broker.bootstrap) as cluster:
        with Producer(cluster, on_delivery=deliveries.append) as producer:
            for number in range(64):
                producer.send(topic, b"%03d" % number * 50)
            producer.send(topic, bytes(5_000))
            producer.send(topic, b"after")
        values = [record.value for record in read_all(cluster, topic)]
    assert values == [b"%03d" % number * 50 for number in range(64)] + [b"after"]
    failed = [delivery for delivery in deliveries if delivery.error is not None]
    assert [(delivery.count, delivery.error and delivery.error.code) for delivery in failed] == [
        (1, ErrorCode.MESSAGE_TOO_LARGE)
    ]


def test_messages_without_a_key_fill_one_partition_and_round_robin_all(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=4)
    with Cluster(broker.bootstrap) as cluster:
        with Producer(cluster) as sticky:
            assert len({sticky.send(topic, b"v") for _ in range(50)}) == 1
        with Producer(cluster, partitioner=round_robin()) as spreading:
            assert len({spreading.send(topic, b"v") for _ in range(50)}) == 4
        with pytest.raises(KafkaError, match="no partition 4"):
            sticky.send(topic, b"v", partition=4)


def test_a_topic_that_is_deleted_meanwhile_fails_its_messages_only(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    kept, gone = new_topic(), new_topic()
    deliveries: list[Delivery] = []
    with Cluster(broker.bootstrap) as cluster, Producer(cluster, on_delivery=deliveries.append) as producer:
        producer.send(kept, b"v")
        producer.send(gone, b"v")
        with Cluster(broker.bootstrap) as other, raw.Connection(broker.bootstrap) as connection:
            Admin(other).delete_topic(gone)
            check_deleted(broker, connection, gone)
    assert {delivery.where.topic: delivery.error is None for delivery in deliveries} == {kept: True, gone: False}


def test_a_broker_killed_while_messages_are_sent_has_each_of_them_once(tmp_path: Path) -> None:
    topic = f"t-{uuid.uuid4().hex[:12]}"
    deliveries: list[Delivery] = []
    with PenstockProcess(tmp_path) as process, Cluster(process.bootstrap) as cluster:
        Admin(cluster).create_topic(topic)
        with Producer(cluster, on_delivery=deliveries.append, batch_bytes=2_000) as producer:
            for number in range(2_000):
                producer.send(topic, b"%d" % number)
                if number in (500, 1_500):
                    process.kill()
                    process.start()
        values = [record.value for record in read_all(cluster, topic)]
    assert all(delivery.error is None for delivery in deliveries)
    assert values == [b"%d" % number for number in range(2_000)]


def test_an_answer_that_is_lost_does_not_write_a_batch_twice(broker: Broker, topic: str) -> None:
    with Cluster(broker.bootstrap, sleep=lambda seconds: None) as cluster:
        producer = Producer(cluster)
        producer.send(topic, b"first")
        producer.flush()
        lost = _lose_one_answer(cluster)
        producer.send(topic, b"second")
        producer.flush()
        values = [record.value for record in read_all(cluster, topic)]
    assert lost == ["lost"]
    assert values == [b"first", b"second"]


def _lose_one_answer(cluster: Cluster) -> list[str]:
    """The next answer is received, thrown away, and the connection ended, as if it had broken on the way back."""
    (connection,) = cluster._connections.values()
    real, lost = connection.receive, []

    class Losing:
        def __getattr__(self, name: str) -> object:
            return getattr(connection, name)

        def receive(self, deadline: float) -> object:
            real(deadline)
            lost.append("lost")
            connection.close()
            raise ConnectionResetError("the answer was lost")

    (node,) = cluster._connections
    cluster._connections[node] = Losing()  # type: ignore[assignment]
    return lost
