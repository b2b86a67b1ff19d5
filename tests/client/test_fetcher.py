"""Reading from offsets on: nothing skipped, nothing twice, and waiting without asking all the time."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from brokers import Broker, PenstockProcess
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.fetcher import Fetcher, records_of
from penstock.client.producer import Producer
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.records import Codec


def test_reading_may_start_in_the_middle_of_a_batch(broker: Broker, topic: str) -> None:
    where = TopicPartition(topic, 0)
    with Cluster(broker.bootstrap) as cluster:
        with Producer(cluster, codec=Codec.LZ4) as producer:
            for number in range(10):
                producer.send(topic, b"%d" % number)
        with Fetcher(cluster, {where: 7}) as fetcher:
            (fetched,) = fetcher.poll()
            assert [record.offset for record in records_of(fetched)] == [7, 8, 9]
            assert fetched.high_watermark == 10
            assert fetcher.positions == {where: 10}
            fetcher.stop(where)
            assert fetcher.poll() == []


def test_many_partitions_are_read_to_their_ends(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=5)
    with Cluster(broker.bootstrap) as cluster:
        sent = set()
        with Producer(cluster, batch_bytes=3_000) as producer:
            for number in range(2_000):
                value = b"%d" % number
                sent.add((producer.send(topic, value, key=value), value))
        read = []
        positions = {TopicPartition(topic, partition): 0 for partition in range(5)}
        with Fetcher(cluster, positions, max_bytes=10_000, partition_max_bytes=5_000) as fetcher:
            while len(read) < 2_000:
                read += [(fetched.where, record.value) for fetched in fetcher.poll() for record in records_of(fetched)]
    assert len(read) == len(set(read))
    assert set(read) == sent


def test_a_message_ends_the_wait_for_it(broker: Broker, topic: str) -> None:
    where = TopicPartition(topic, 0)
    with Cluster(broker.bootstrap) as cluster, Fetcher(cluster, {where: 0}, max_wait_ms=20_000) as fetcher:
        fetched = []
        reader = threading.Thread(target=lambda: fetched.extend(fetcher.poll()))
        reader.start()
        with Cluster(broker.bootstrap) as other, Producer(other) as producer:
            producer.send(topic, b"awaited")
        reader.join()
        assert [record.value for each in fetched for record in records_of(each)] == [b"awaited"]


def test_an_offset_that_is_not_there_is_an_error(broker: Broker, topic: str) -> None:
    with (
        Cluster(broker.bootstrap) as cluster,
        Fetcher(cluster, {TopicPartition(topic, 0): 5}) as fetcher,
        pytest.raises(KafkaError) as caught,
    ):
        fetcher.poll()
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_reading_goes_on_after_the_broker_was_restarted(tmp_path: Path) -> None:
    where = TopicPartition(f"t-{uuid.uuid4().hex[:12]}", 0)
    with PenstockProcess(tmp_path) as process, Cluster(process.bootstrap) as cluster:
        Admin(cluster).create_topic(where.topic)
        read: list[bytes | None] = []
        with Fetcher(cluster, {where: 0}) as fetcher:
            for number in range(3):
                with Producer(cluster) as producer:
                    producer.send(where.topic, b"%d" % number)
                while len(read) <= number:
                    read += [record.value for fetched in fetcher.poll() for record in records_of(fetched)]
                process.restart()
    assert read == [b"0", b"1", b"2"]
