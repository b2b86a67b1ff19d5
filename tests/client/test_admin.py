"""Topics and settings through our own client, on Penstock and on Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brokers import Broker
from changes import check_seen
from penstock.client.admin import Admin, Config, ConfigSource
from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, NO_OFFSET, list_offsets
from penstock.client.producer import Producer
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def own_settings(admin: Admin, topic: str) -> dict[str, str | None]:
    configs: list[Config] = admin.describe_configs([topic])[topic]
    return {c.name: c.value for c in configs if c.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}


def test_a_topic_lives_from_its_creation_to_its_deletion(broker: Broker, name: str) -> None:
    with Cluster(broker.bootstrap) as cluster:
        admin = Admin(cluster)
        info = admin.create_topic(name, partitions=3, configs={"retention.ms": "60000"})
        assert [partition.partition for partition in info.partitions] == [0, 1, 2]
        assert name in [topic.name for topic in admin.list_topics()]
        check_seen(broker, lambda: own_settings(admin, name), {"retention.ms": "60000"})
        admin.alter_configs(name, {"retention.ms": None, "segment.ms": "100000"})
        check_seen(broker, lambda: own_settings(admin, name), {"segment.ms": "100000"})
        admin.create_partitions(name, 5)
        assert len(admin.describe_topics([name])[0].partitions) == 5
        admin.delete_topic(name)
        with pytest.raises(UnknownTopicError):
            admin.delete_topic(name)


def test_what_the_broker_refuses_is_raised_with_its_code(broker: Broker, topic: str) -> None:
    with Cluster(broker.bootstrap) as cluster:
        admin = Admin(cluster)
        assert code_of(lambda: admin.create_topic(topic)) is ErrorCode.TOPIC_ALREADY_EXISTS
        assert code_of(lambda: admin.create_topic("a b")) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert code_of(lambda: admin.create_partitions(topic, 1)) is ErrorCode.INVALID_PARTITIONS
        assert code_of(lambda: admin.alter_configs(topic, {"no.such": "1"})) is ErrorCode.INVALID_CONFIG
        assert code_of(lambda: admin.describe_topics([topic, "nope"])) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_records_are_deleted_up_to_an_offset(broker: Broker, topic: str) -> None:
    where = TopicPartition(topic, 0)
    with Cluster(broker.bootstrap) as cluster:
        admin = Admin(cluster)
        with Producer(cluster) as producer:
            for number in range(10):
                producer.send(topic, b"%d" % number, timestamp_ms=1_000 * number)
        assert admin.delete_records({where: 4}) == {where: 4}
        assert list_offsets(cluster, {where: EARLIEST})[where].offset == 4
        assert admin.delete_records({where: -1}) == {where: 10}


def test_offsets_are_found_by_position_and_by_time(broker: Broker, new_topic: Callable[..., str]) -> None:
    where = TopicPartition(new_topic(retention_ms="-1"), 0)
    base = 1_700_000_000_000
    with Cluster(broker.bootstrap) as cluster:
        for number in range(5):
            with Producer(cluster) as producer:
                producer.send(where.topic, b"v", timestamp_ms=base + 1_000 * number)

        def found(timestamp: int) -> tuple[int, int]:
            return list_offsets(cluster, {where: timestamp})[where]

        assert found(EARLIEST)[0] == 0
        assert found(LATEST)[0] == 5
        assert found(MAX_TIMESTAMP) == (4, base + 4_000)
        assert found(base + 1_500) == (2, base + 2_000)
        assert found(base + 9_000)[0] == NO_OFFSET


def test_sizes_on_disk_are_known_by_broker(broker: Broker, topic: str) -> None:
    with Cluster(broker.bootstrap) as cluster:
        with Producer(cluster) as producer:
            producer.send(topic, bytes(10_000))
        sizes = Admin(cluster).log_sizes()[TopicPartition(topic, 0)]
    assert next(iter(sizes.values())) > 10_000
