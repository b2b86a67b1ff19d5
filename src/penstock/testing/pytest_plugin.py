"""The pytest plugin: a broker for the session and a fresh topic for each test that asks.

    def test_orders_are_sent(penstock_broker, penstock_topic):
        send_order(penstock_broker.bootstrap, penstock_topic)

    penstock_broker     a `penstock.testing.Cluster`, started by the first test that asks and shared by the session
    penstock_topic      the name of a topic of one partition that no other test uses
    penstock_settings   Kafka settings of the broker, by name; a project overrides it in its conftest.py

Where the package is installed pytest finds the plugin by itself. With pytest-xdist each worker has a broker of its own.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.cluster import Cluster, Value

MAX_NAME_LENGTH = 200
"""Of a test's name inside a topic's; Kafka allows 249 in all."""


@pytest.fixture(scope="session")
def penstock_settings() -> Mapping[str, Value]:
    """Kafka settings of the session's broker, such as {"num.partitions": 3}; none unless overridden."""
    return {}


@pytest.fixture(scope="session")
def penstock_broker(penstock_settings: Mapping[str, Value]) -> Iterator[Cluster]:
    """A Kafka broker for the session; `penstock_broker.bootstrap` is its address."""
    from penstock.testing.cluster import Cluster

    with Cluster(settings=penstock_settings) as cluster:
        yield cluster


@pytest.fixture
def penstock_topic(request: pytest.FixtureRequest, penstock_broker: Cluster) -> str:
    """The name of a new topic of one partition, for this test only."""
    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:MAX_NAME_LENGTH]
    return penstock_broker.create_topic(f"{readable}-{uuid.uuid4().hex[:8]}")
