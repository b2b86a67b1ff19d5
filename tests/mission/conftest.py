"""Topics on the Penstock broker of the session; the mission's tests are about it alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

import raw
from brokers import PenstockProcess


@pytest.fixture
def topic_on_penstock(penstock: PenstockProcess) -> Callable[..., str]:
    """Creates a topic: `topic_on_penstock(partitions=3, segment_bytes="1048576")`."""

    def create(partitions: int = 1, **configs: str) -> str:
        name = f"m-{uuid.uuid4().hex[:12]}"
        with raw.Connection(penstock.bootstrap) as connection:
            raw.create_topic(connection, name, partitions, **configs)
        return name

    return create
