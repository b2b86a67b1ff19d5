"""M01: broker, topic, partition, segment, offset, producer, consumer, consumer group. A user names only the topic."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import confluent_kafka.admin

from brokers import PenstockProcess
from clients import Confluent, Record


def test_m01_a_user_names_only_the_topic(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str], group: str
) -> None:
    topic = topic_on_penstock(partitions=4)
    producer = confluent_kafka.Producer({"bootstrap.servers": penstock.bootstrap})
    delivered: list[tuple[int, int]] = []

    def on_delivery(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None
        delivered.append((message.partition() or 0, message.offset() or 0))

    for number in range(100):
        producer.produce(topic, b"message", key=b"%d" % number, on_delivery=on_delivery)
    assert producer.flush(30) == 0
    assert {partition for partition, _ in delivered} == {0, 1, 2, 3}
    assert len(set(delivered)) == 100, "partition and offset name a message"
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": penstock.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    read: list[tuple[int, int]] = []
    while len(read) < 100:
        (message,) = consumer.consume(1, timeout=30)
        assert message.error() is None
        read.append((message.partition() or 0, message.offset() or 0))
    consumer.close()
    assert sorted(read) == sorted(delivered), "the group's consumer got them all by the topic's name alone"


def test_m01_every_partition_has_a_directory_and_a_first_segment(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock(partitions=3)
    for partition in range(3):
        assert (penstock.log_dir / f"{topic}-{partition}" / "00000000000000000000.log").exists()


def test_m01_a_topic_is_usable_as_soon_as_it_is_created(penstock: PenstockProcess, name: str) -> None:
    """No waiting and no retry between the two: the answer comes when the leader serves it."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": penstock.bootstrap})
    admin.create_topics([confluent_kafka.admin.NewTopic(name, 1, 1)])[name].result(20)
    assert Confluent().produce(penstock.bootstrap, name, [Record(b"first")], options={"retries": 0}) == [0]
