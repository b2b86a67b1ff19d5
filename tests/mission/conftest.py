"""Topics on the Penstock broker of the session, or on a watchful one; the mission's tests are about Penstock alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

import raw
from brokers import PenstockProcess


@pytest.fixture
def topic_on_penstock(penstock: PenstockProcess) -> Callable[..., str]:
    """Creates a topic: `topic_on_penstock(partitions=3, segment_bytes="1048576")`."""

    def create(partitions: int = 1, **configs: str) -> str:
        return create_topic(penstock, partitions, **configs)

    return create


def create_topic(broker: PenstockProcess, partitions: int = 1, **configs: str) -> str:
    name = f"m-{uuid.uuid4().hex[:12]}"
    with raw.Connection(broker.bootstrap) as connection:
        raw.create_topic(connection, name, partitions, **configs)
    return name


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def watchful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockProcess]:
    """A broker that allows short sessions, so that a consumer's death is noticed within a second."""
    settings = {
        "group.min.session.timeout.ms": "500",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    with PenstockProcess(tmp_path_factory.mktemp("watchful"), settings) as process:
        yield process


@pytest.fixture
def topic_on_watchful(watchful: PenstockProcess) -> Callable[..., str]:
    return lambda partitions=1: create_topic(watchful, partitions)
