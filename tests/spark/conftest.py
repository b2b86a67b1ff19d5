"""A broker for the tests in this directory, and ways to fill its topics."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pytest

import penstock
from brokers import Broker
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster as Connections
from penstock.testing import Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A broker for all tests here, each with topics of its own; one that stops it starts its own."""
    with Cluster() as running:
        yield running


class Brokers:
    """Those of `broker`, Penstock and then Apache Kafka, used like a `Cluster`."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create_topic(self, name: str | None = None, partitions: int = 1) -> str:
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        with Connections(self.bootstrap) as opened:
            Admin(opened).create_topic(name, partitions=partitions)
        return name


@pytest.fixture
def every_cluster(broker: Broker) -> Brokers:
    """For tests without Spark, which are quick enough to be run twice."""
    return Brokers(broker.bootstrap)


@pytest.fixture
def connections(cluster: Cluster) -> Iterator[Connections]:
    with Connections(cluster.bootstrap) as opened:
        yield opened


Write = Callable[..., None]


@pytest.fixture
def write(cluster: Cluster) -> Write:
    """`write("orders", ["a", "b"], partition=1)` appends these values to a partition."""

    def append(topic: str, values: Sequence[str], partition: int = 0, **columns: Sequence[object]) -> None:
        table = pa.table(
            {"value": list(values), "partition": pa.array([partition] * len(values), pa.int32()), **columns}
        )
        penstock.write(topic, table, bootstrap=cluster.bootstrap)

    return append
