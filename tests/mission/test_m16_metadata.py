"""M16: a producer asks any broker for metadata and then talks straight to the partition's leader."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka.admin

import raw
from brokers import PenstockProcess


def test_m16_metadata_names_the_leader_and_its_address(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock(partitions=3)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": penstock.bootstrap})
    metadata = admin.list_topics(topic, timeout=20)
    addresses = {node_id: f"{node.host}:{node.port}" for node_id, node in metadata.brokers.items()}
    for partition in metadata.topics[topic].partitions.values():
        address = addresses[partition.leader]
        with raw.Connection(address) as leader:
            assert raw.produce(leader, topic, raw.batch([b"v"]), partition.id).error_code == 0


def test_m16_the_advertised_address_is_the_one_the_client_used(penstock: PenstockProcess) -> None:
    """So that a client that reached the broker once can reach it again."""
    for host in ("127.0.0.1", "localhost"):
        with raw.Connection(f"{host}:{penstock.port}") as connection:
            (node,) = connection.call("Metadata", 12, topics=[]).brokers
            assert (node.host, node.port) == ("127.0.0.1", penstock.port)
