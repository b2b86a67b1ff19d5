"""Images and settings for the tests of the planners."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from penstock.broker.controller.configs import ResourceType
from penstock.errors import ConfigError
from penstock.metadata import records
from penstock.metadata.image import Image
from penstock.metadata.records import BrokerRecord
from penstock.metadata.store import Check, Delete, DeleteEvent, Event, Op, Put, PutEvent

Commit = Callable[[Image, Sequence[Op]], Image]


def commit_ops(image: Image, ops: Sequence[Op]) -> Image:
    """The image after the operations were committed; versions are numbers that grow."""
    events: list[Event] = []
    for op in ops:
        if isinstance(op, Put):
            events.append(PutEvent(op.key, op.value, 100 + len(image.topics)))
        elif isinstance(op, Delete):
            events.append(DeleteEvent(op.key))
        else:
            assert isinstance(op, Check)
    return image.apply(events)[0]


def brokers_image(brokers: Iterable[int] | Mapping[int, str]) -> Image:
    racks = brokers if isinstance(brokers, Mapping) else dict.fromkeys(brokers)
    joined = [BrokerRecord(broker_id, broker_id + 10, (), rack) for broker_id, rack in racks.items()]
    events = [PutEvent(records.broker_key(broker.broker_id), broker.encode(), 1) for broker in joined]
    return Image().apply(events)[0]


class FewSettings:
    """Three settings: a number and a list, and one that a broker cannot change while it runs."""

    def is_list(self, resource_type: ResourceType, name: str) -> bool:
        return name in ("cleanup.policy", "log.cleanup.policy")

    def default(self, resource_type: ResourceType, name: str) -> str:
        return "delete"

    def check(self, resource_type: ResourceType, resource_name: str, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            if name in ("retention.ms", "log.retention.ms") and not value.removeprefix("-").isdecimal():
                raise ConfigError(f"{name} is {value!r}, which is no number.")
            if name == "cleanup.policy" and not {"compact", "delete", ""}.issuperset(value.split(",")):
                raise ConfigError(f"{name} is {value!r}.")
            if name == "node.id":
                raise ConfigError("node.id cannot be changed while the broker runs.")
            if name == "nope" and resource_type is not ResourceType.BROKER:
                raise ConfigError("There is no setting nope.")


@pytest.fixture
def commit() -> Commit:
    return commit_ops


@pytest.fixture
def one_broker() -> Image:
    return brokers_image([1])


@pytest.fixture
def make_brokers() -> Callable[[Iterable[int] | Mapping[int, str]], Image]:
    return brokers_image


@pytest.fixture
def rules() -> FewSettings:
    return FewSettings()
