"""Spark and a broker for the tests in this directory: one session in the process, since a JVM starts slowly.

What takes the fixture `spark` is slow. All tests here run in one pytest-xdist worker (tests/conftest.py): then there is
one JVM.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import penstock
from brokers import SOURCE, Broker
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster as Connections
from penstock.testing import Cluster
from ports import free_ports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
}
CONNECT_PORT = "spark.connect.grpc.binding.port"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores, and a failed task is tried again."""
    from penstock.spark.java import spark_session

    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONPATH"] = path  # for the Python processes that Spark starts

    warehouse = tmp_path_factory.mktemp("warehouse")
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(warehouse), CONNECT_PORT: str(free_ports(1)[0])}
    session = spark_session("penstock-tests", master="local[2,4]", settings=settings)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


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
