"""Test code that uses Kafka against a real broker, in your own process: pytest examples/test_your_own_code.py

No server, no container: `penstock_broker` starts one in a fraction of a second, and `penstock_topic` is a topic that no
other test uses. Any Kafka client works with it.
"""

import json

import penstock
from penstock.testing import Cluster


class OrderService:
    """The code under test: yours."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = penstock.Producer(bootstrap, value_serializer=json.dumps)

    def place(self, customer: str, item: str) -> None:
        self._producer.send(self._topic, {"customer": customer, "item": item}, key=customer).result(timeout=10)


def test_an_order_is_announced(penstock_broker: Cluster, penstock_topic: str) -> None:
    OrderService(penstock_broker.bootstrap, penstock_topic).place("ann", "lamp")

    with penstock.Consumer(
        penstock_topic, penstock_broker.bootstrap, partitions="all", stop_at_end=True, value_deserializer=json.loads
    ) as consumer:
        [message] = consumer
    assert message.key == b"ann"
    assert message.value == {"customer": "ann", "item": "lamp"}


def test_a_broker_of_your_own_with_settings_of_its_own() -> None:
    with Cluster(num_partitions=3) as cluster, penstock.Producer(cluster.bootstrap) as producer:
        topic = cluster.create_topic(partitions=3)
        assert producer.send(topic, "v", partition=2).result(timeout=10).partition == 2
