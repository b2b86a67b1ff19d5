"""What the metadata store holds: the keys, the records behind them, and their JSON.

    /cluster/id                      {"version":1,"id":"<22 characters>"}
    /brokers/epoch                   {"version":1,"next":7}              the next broker's epoch; never goes back
    /brokers/ids/<id>                {"version":1,"epoch":6,"endpoints":[{"name","host","port","protocol"}],"rack"}
    /controller                      {"version":1,"broker":1,"epoch":3}
    /controller_epoch                {"version":1,"next":4}              its version in the store is the fencing token
    /topics/<name>                   {"version":1,"id":"<22>","partitions":{"0":[1,2,3]},"created_ms":...}
    /partitions/<topic id>/<p>       {"version":1,"leader":1,"leader_epoch":0,"isr":[1,2,3],"partition_epoch":0}
    /configs/topics/<name>           {"version":1,"values":{"retention.ms":"1000"}}
    /configs/brokers/<id or default> the same
    /configs/groups/<group>          the same; a group's name is percent-encoded
    /producer_ids/next               {"version":1,"next":2000}            everything below it has been handed out

A broker's registration and the controller's are ephemeral: they end with the session of their owner.
Rules: a record's JSON has "version"; a reader keeps fields that it does not know (`extra`) and writes them back, so
that an older broker never drops what a newer one wrote. No leader is -1. Partition state is keyed by topic id, so the
state of a deleted topic can never be taken for that of a new topic of the same name.
Bad JSON, a missing field or one of the wrong type is a RecordError that names the key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, unquote

from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicId, topic_id_from_text, topic_id_text

CLUSTER_ID_KEY = "/cluster/id"
BROKER_EPOCH_KEY = "/brokers/epoch"
BROKERS_PREFIX = "/brokers/ids/"
CONTROLLER_KEY = "/controller"
CONTROLLER_EPOCH_KEY = "/controller_epoch"
TOPICS_PREFIX = "/topics/"
PARTITIONS_PREFIX = "/partitions/"
TOPIC_CONFIGS_PREFIX = "/configs/topics/"
BROKER_CONFIGS_PREFIX = "/configs/brokers/"
GROUP_CONFIGS_PREFIX = "/configs/groups/"
PRODUCER_IDS_KEY = "/producer_ids/next"

DEFAULT_BROKER = "default"
"""The name of the settings that hold for every broker."""

NO_LEADER = -1

_VERSION = 1

# Made once: a start reads and writes a record for each partition, and json.dumps makes an encoder for each call.
_from_json = json.JSONDecoder().decode
_to_json = json.JSONEncoder(separators=(",", ":")).encode

Json = dict[str, Any]
R = TypeVar("R")


class RecordError(KafkaError):
    """A value in the store that is not the record its key promises."""

    def __init__(self, key: str, reason: str) -> None:
        message = f"The metadata under {key!r} cannot be read: {reason}. Restore it from a copy of the store."
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)


def _no_extra() -> Json:
    return {}


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    cluster_id: str
    extra: Json = field(default_factory=_no_extra)

    def encode(self) -> bytes:
        return _dump({"id": self.cluster_id}, self.extra)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients of one listener reach a broker. An empty host: the address that the client connected to."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    broker_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    extra: Json = field(default_factory=_no_extra)

    def encode(self) -> bytes:
        endpoints = [{"name": e.name, "host": e.host, "port": e.port, "protocol": e.protocol} for e in self.endpoints]
        return _dump({"epoch": self.epoch, "endpoints": endpoints, "rack": self.rack}, self.extra)


@dataclass(frozen=True, slots=True)
class ControllerRecord:
    broker_id: int
    epoch: int
    extra: Json = field(default_factory=_no_extra)

    def encode(self) -> bytes:
        return _dump({"broker": self.broker_id, "epoch": self.epoch}, self.extra)


@dataclass(frozen=True, slots=True)
class TopicRecord:
    name: str
    topic_id: TopicId
    partitions: Mapping[int, tuple[int, ...]]
    created_ms: int
    extra: Json = field(default_factory=_no_extra)

    def encode(self) -> bytes:
        partitions = {str(p): list(replicas) for p, replicas in self.partitions.items()}
        fields: Json = {"id": topic_id_text(self.topic_id), "partitions": partitions, "created_ms": self.created_ms}
        return _dump(fields, self.extra)


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    extra: Json = field(default_factory=_no_extra)

    def encode(self) -> bytes:
        fields: Json = {"leader": self.leader, "leader_epoch": self.leader_epoch}
        fields |= {"isr": list(self.isr), "partition_epoch": self.partition_epoch}
        return _dump(fields, self.extra)


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    values: Mapping[str, str]
    extra: Json = field(default_factory=_no_extra)

    def encode(self) -> bytes:
        return _dump({"values": dict(self.values)}, self.extra)


@dataclass(frozen=True, slots=True)
class CounterRecord:
    """The next number to hand out: a producer id, a broker epoch."""

    next: int
    extra: Json = field(default_factory=_no_extra)

    def encode(self) -> bytes:
        return _dump({"next": self.next}, self.extra)


def broker_key(broker_id: int) -> str:
    return f"{BROKERS_PREFIX}{broker_id}"


def topic_key(name: str) -> str:
    return TOPICS_PREFIX + name


def partition_key(topic_id: bytes, partition: int) -> str:
    return f"{PARTITIONS_PREFIX}{topic_id_text(topic_id)}/{partition}"


def partition_from_key(key: str) -> tuple[TopicId, int]:
    """The topic id and partition that `partition_key` wrote."""
    text, _, partition = key.removeprefix(PARTITIONS_PREFIX).partition("/")
    try:
        return topic_id_from_text(text), int(partition)
    except ValueError as error:
        raise RecordError(key, f"the key is not a topic id and a partition ({error})") from None


def topic_config_key(name: str) -> str:
    return TOPIC_CONFIGS_PREFIX + name


def broker_config_key(name: str) -> str:
    """`name` is a broker's id, or `DEFAULT_BROKER`."""
    return BROKER_CONFIGS_PREFIX + name


def group_config_key(group: str) -> str:
    return GROUP_CONFIGS_PREFIX + quote(group, safe="")


def group_from_config_key(key: str) -> str:
    return unquote(key.removeprefix(GROUP_CONFIGS_PREFIX))


def decode_cluster(key: str, value: bytes) -> ClusterRecord:
    return _decode(key, value, lambda fields: ClusterRecord(_text(fields.pop("id")), fields))


def decode_broker(key: str, value: bytes) -> BrokerRecord:
    def build(fields: Json) -> BrokerRecord:
        broker_id = int(key.removeprefix(BROKERS_PREFIX))
        endpoints = tuple(_endpoint(each) for each in fields.pop("endpoints"))
        rack = fields.pop("rack", None)
        return BrokerRecord(
            broker_id, _int(fields.pop("epoch")), endpoints, None if rack is None else _text(rack), fields
        )

    return _decode(key, value, build)


def decode_controller(key: str, value: bytes) -> ControllerRecord:
    return _decode(key, value, lambda f: ControllerRecord(_int(f.pop("broker")), _int(f.pop("epoch")), f))


def decode_topic(key: str, value: bytes) -> TopicRecord:
    def build(fields: Json) -> TopicRecord:
        topic_id = topic_id_from_text(_text(fields.pop("id")))
        partitions = {int(p): _ints(replicas) for p, replicas in fields.pop("partitions").items()}
        if sorted(partitions) != list(range(len(partitions))):
            raise ValueError("its partitions are not numbered 0, 1, 2, ...")
        created_ms = _int(fields.pop("created_ms"))
        return TopicRecord(key.removeprefix(TOPICS_PREFIX), topic_id, partitions, created_ms, fields)

    return _decode(key, value, build)


def decode_partition(key: str, value: bytes) -> PartitionRecord:
    def build(fields: Json) -> PartitionRecord:
        leader, leader_epoch = _int(fields.pop("leader")), _int(fields.pop("leader_epoch"))
        isr, partition_epoch = _ints(fields.pop("isr")), _int(fields.pop("partition_epoch"))
        return PartitionRecord(leader, leader_epoch, isr, partition_epoch, fields)

    return _decode(key, value, build)


def decode_config(key: str, value: bytes) -> ConfigRecord:
    def build(fields: Json) -> ConfigRecord:
        values = {_text(name): _text(setting) for name, setting in fields.pop("values").items()}
        return ConfigRecord(values, fields)

    return _decode(key, value, build)


def decode_counter(key: str, value: bytes) -> CounterRecord:
    return _decode(key, value, lambda fields: CounterRecord(_int(fields.pop("next")), fields))


def _decode(key: str, value: bytes, build: Callable[[Json], R]) -> R:
    """Parse, take the record's own fields, and leave the rest to be its `extra`."""
    try:
        fields = _from_json(value.decode())
        if not isinstance(fields, dict):
            raise ValueError("it is not a JSON object")
        if fields.pop("version") > _VERSION:
            raise ValueError("a newer Penstock wrote it in a form that this one does not know")
        return build(fields)
    except KeyError as error:
        raise RecordError(key, f"it has no field {error}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise RecordError(key, str(error)) from None


def _dump(fields: Json, extra: Json) -> bytes:
    return _to_json({"version": _VERSION, **fields, **extra}).encode()


def _endpoint(fields: Json) -> Endpoint:
    return Endpoint(_text(fields["name"]), _text(fields["host"]), _int(fields["port"]), _text(fields["protocol"]))


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is not a text")
    return value


def _int(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _ints(values: object) -> tuple[int, ...]:
    if type(values) is not list:
        raise TypeError(f"{values!r} is not a list")
    return tuple(_int(value) for value in values)
