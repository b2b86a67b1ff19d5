"""Liveness: how a broker joins the cluster. Pure: what the store says now goes in, one transaction comes out.

Joining writes, all or nothing: the cluster's id where there is none yet; the broker's registration, ephemeral, with a
broker epoch that no broker ever had; and the controller's office, ephemeral, with a controller epoch likewise.
What is refused: an id that a live broker has, another cluster's id, and a second broker (one node is a cluster here).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from penstock.broker.controller.topics import new_topic_id
from penstock.errors import ConfigError
from penstock.metadata import records
from penstock.metadata.image import Image
from penstock.metadata.records import (
    NO_LEADER,
    BrokerRecord,
    ClusterRecord,
    ControllerRecord,
    CounterRecord,
    Endpoint,
)
from penstock.metadata.store import ABSENT, Check, Entry, Op, Put, Session
from penstock.types import topic_id_text


@dataclass(frozen=True, slots=True)
class Registration:
    """What a broker says of itself when it starts."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    cluster_id: str | None = None
    """The cluster that it belongs to, and the id that a new cluster gets; None is any, and a random one."""


@dataclass(frozen=True, slots=True)
class JoinPlan:
    ops: tuple[Op, ...]
    broker_epoch: int


def plan_join(
    image: Image,
    registration: Registration,
    session: Session,
    *,
    broker_epoch: Entry | None,
    controller_epoch: Entry | None,
    chance: random.Random,
) -> JoinPlan:
    """`broker_epoch` and `controller_epoch` are the two counters as they were read."""
    check_can_join(image, registration)
    broker_id = registration.broker_id
    broker_counter, controller_counter = _counter(broker_epoch), _counter(controller_epoch)
    broker = BrokerRecord(broker_id, broker_counter.next, registration.endpoints, registration.rack)
    controller = ControllerRecord(broker_id, controller_counter.next)
    ops: list[Op] = [
        *_count(records.BROKER_EPOCH_KEY, broker_epoch, broker_counter),
        *_count(records.CONTROLLER_EPOCH_KEY, controller_epoch, controller_counter),
        *_claim(records.broker_key(broker_id), broker.encode(), session),
        *_claim(records.CONTROLLER_KEY, controller.encode(), session),
    ]
    if not image.cluster_id:
        cluster_id = registration.cluster_id or topic_id_text(new_topic_id(chance))
        ops += _claim(records.CLUSTER_ID_KEY, ClusterRecord(cluster_id).encode(), None)
    return JoinPlan(tuple(ops), broker.epoch)


def check_can_join(image: Image, registration: Registration) -> None:
    """ConfigError, with a sentence, for a broker that has no place here."""
    broker_id, cluster_id = registration.broker_id, registration.cluster_id
    if broker_id in image.brokers:
        raise ConfigError(f"A live broker has the id {broker_id} already. Choose another node.id.")
    if cluster_id and image.cluster_id and cluster_id != image.cluster_id:
        raise ConfigError(
            f"This broker belongs to the cluster {cluster_id}, but the metadata is of {image.cluster_id}. "
            "Give it the data directory that goes with it."
        )
    if image.controller_id != NO_LEADER:
        raise ConfigError(
            f"Broker {image.controller_id} is the controller of this metadata. A second broker needs a store that "
            "several brokers share."
        )


def _counter(entry: Entry | None) -> CounterRecord:
    return records.decode_counter(entry.key, entry.value) if entry else CounterRecord(1)


def _count(key: str, entry: Entry | None, counter: CounterRecord) -> list[Op]:
    version = entry.version if entry else ABSENT
    return [Check(key, version), Put(key, CounterRecord(counter.next + 1, counter.extra).encode())]


def _claim(key: str, value: bytes, session: Session | None) -> list[Op]:
    return [Check(key, ABSENT), Put(key, value, session)]
