"""Fixtures for scenarios with groups."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import raw
from brokers import Broker
from members import Member, find_coordinator


@pytest.fixture
def group(connection: raw.Connection) -> str:
    """The name of a group that nobody knows; its coordinator can be asked."""
    name = f"g-{uuid.uuid4().hex[:12]}"
    find_coordinator(connection, name)
    return name


@pytest.fixture
def member(broker: Broker, group: str) -> Iterator[Callable[..., Member]]:
    """Makes members of the test's group, each on a connection of its own."""
    with ExitStack() as stack:

        def make(instance: str | None = None, **defaults: object) -> Member:
            return stack.enter_context(Member(broker.bootstrap, group, instance, **defaults))

        yield make
