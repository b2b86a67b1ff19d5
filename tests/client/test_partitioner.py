"""Keys go where other clients send them: Java's hash by known values, kafka-python's code, and librdkafka itself."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_kafka_python

from brokers import PenstockProcess
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.partitioner import PARTITIONERS, consistent_random, murmur2, murmur2_random, round_robin

JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""From the tests of Kafka's Java client; signed, as Java prints them."""


@pytest.mark.parametrize("key", JAVA, ids=lambda key: key.decode())
def test_the_hash_is_that_of_java(key: bytes) -> None:
    assert murmur2(key) == JAVA[key] & 0xFFFFFFFF


@given(st.binary(max_size=64))
def test_the_hash_is_that_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) == murmur2_of_kafka_python(key) & 0xFFFFFFFF


def test_no_key_is_no_choice() -> None:
    assert murmur2_random(None, 3) is None
    assert consistent_random(None, 3) is None
    assert consistent_random(b"", 3) is None
    assert murmur2_random(b"", 3) is not None


def test_round_robin_takes_one_after_the_other_for_each_producer() -> None:
    first, second = round_robin(), round_robin()
    assert [first(b"same", 3) for _ in range(4)] == [0, 1, 2, 0]
    assert second(b"same", 3) == 0


@pytest.mark.parametrize("name", ["murmur2_random", "consistent_random"])
def test_librdkafka_sends_keys_to_the_same_partitions(penstock: PenstockProcess, name: str) -> None:
    topic = f"t-{uuid.uuid4().hex[:12]}"
    with Cluster(penstock.bootstrap) as cluster:
        Admin(cluster).create_topic(topic, partitions=7)
    theirs: dict[bytes, int] = {}

    def on_delivery(error: object, message: object) -> None:
        assert error is None
        theirs[message.key()] = message.partition()

    producer = Producer({"bootstrap.servers": penstock.bootstrap, "partitioner": name})
    keys = [b"k%d" % number * (number % 5 + 1) for number in range(100)]
    for key in keys:
        producer.produce(topic, b"v", key=key, on_delivery=on_delivery)
    assert producer.flush(30) == 0
    assert {key: PARTITIONERS[name]()(key, 7) for key in keys} == theirs
