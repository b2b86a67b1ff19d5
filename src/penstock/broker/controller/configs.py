"""Dynamic settings of topics, brokers and groups: what altering them would write, or why it is refused. Pure.

Two ways in: `incremental` (IncrementalAlterConfigs: SET, DELETE, APPEND, SUBTRACT on single settings) and full
replacement (AlterConfigs: what is not named is unset). Which settings exist and what they may be is not known here:
`ConfigRules` is passed in.

Kafka 4.3's order of checks, which decides the error code (asked of a real one): the resource twice; its type; its name;
a setting twice; a null value; APPEND or SUBTRACT on what is not a list; the values; whether the topic exists.
A bad value is INVALID_CONFIG for a topic or group, and INVALID_REQUEST for a broker. Deleting a setting that is not
set, or that does not exist, is fine. APPEND to a list that is not set starts from its default; a list may become empty.
What differs: client metrics are refused, because we collect none. There are no loggers to set levels of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Protocol

from penstock.broker.controller.topics import check_topic_name
from penstock.errors import ConfigError, ErrorCode, KafkaError
from penstock.metadata import records
from penstock.metadata.image import ConfigImage, Image
from penstock.metadata.records import ConfigRecord
from penstock.metadata.store import ABSENT, Check, Delete, Op, Put


class ResourceType(IntEnum):
    """What has settings, by its number in the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    value: str | None
    operation: int = AlterOperation.SET


@dataclass(frozen=True, slots=True)
class Alteration:
    """The changes of one resource; numbers as they came, since they may be of no known type."""

    resource_type: int
    resource_name: str
    changes: tuple[ConfigChange, ...]


class ConfigRules(Protocol):
    """What the broker's table of settings knows."""

    def is_list(self, resource_type: ResourceType, name: str) -> bool:
        """Whether the setting exists and is a list."""
        ...

    def default(self, resource_type: ResourceType, name: str) -> str:
        """What a list holds while it is not set."""
        ...

    def check(self, resource_type: ResourceType, resource_name: str, values: Mapping[str, str]) -> None:
        """ConfigError when the resource cannot have these dynamic settings; they are all it would have."""
        ...


@dataclass(frozen=True, slots=True)
class AlterPlan:
    ops: tuple[Op, ...]
    results: tuple[KafkaError | None, ...]
    """One for each alteration, in their order."""


def plan_alter(
    image: Image, alterations: Sequence[Alteration], *, rules: ConfigRules, node_id: int, is_incremental: bool = True
) -> AlterPlan:
    """What these alterations write. One that is refused does not stop the others."""
    counts = Counter((alteration.resource_type, alteration.resource_name) for alteration in alterations)
    ops: list[Op] = []
    results: list[KafkaError | None] = []
    for alteration in alterations:
        try:
            if counts[alteration.resource_type, alteration.resource_name] > 1:
                raise _invalid_request("The resource is given more than once.")
            ops += _alter_ops(image, alteration, rules, node_id, is_incremental)
            results.append(None)
        except KafkaError as error:
            results.append(error)
    return AlterPlan(tuple(ops), tuple(results))


def _alter_ops(
    image: Image, alteration: Alteration, rules: ConfigRules, node_id: int, is_incremental: bool
) -> list[Op]:
    resource_type = _checked_resource(alteration, node_id, is_incremental)
    current = _current(image, resource_type, alteration.resource_name)
    old_values = current.values if current else {}
    values = _new_values(resource_type, alteration.changes, old_values if is_incremental else {}, rules)
    _check_values(resource_type, alteration.resource_name, values, rules)
    ops: list[Op] = []
    if resource_type is ResourceType.TOPIC:
        topic = image.topics.get(alteration.resource_name)
        if topic is None:
            message = f"The topic {alteration.resource_name!r} does not exist."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        ops.append(Check(records.topic_key(topic.name), topic.version))
    if values != old_values:
        ops += _write(_key(resource_type, alteration.resource_name), current, values)
    return ops


def _checked_resource(alteration: Alteration, node_id: int, is_incremental: bool) -> ResourceType:
    resource_type, name = alteration.resource_type, alteration.resource_name
    if resource_type == ResourceType.TOPIC:
        if not name:
            raise _invalid_request("There are no settings for all topics; those of the broker serve as default.")
        check_topic_name(name)
    elif resource_type == ResourceType.BROKER:
        if name:
            _check_node_id(name, node_id)
    elif resource_type == ResourceType.GROUP:
        if not name:
            raise _invalid_request("There are no settings for all groups; those of the broker serve as default.")
    elif resource_type == ResourceType.BROKER_LOGGER and is_incremental:
        _refuse_logger(alteration, node_id)
    elif resource_type == ResourceType.CLIENT_METRICS:
        raise _invalid_request("Client metrics are not collected here, so there is nothing to set.")
    else:
        raise _invalid_request(f"There are no settings for resources of type {resource_type}.")
    return ResourceType(resource_type)


def _check_node_id(name: str, node_id: int) -> None:
    if not name.removeprefix("-").isdecimal():
        raise _invalid_request(f"A broker's id is a number, not {name!r}.")
    if int(name) != node_id:
        raise _invalid_request(f"The settings of broker {name} are altered there; this is broker {node_id}.")


def _refuse_logger(alteration: Alteration, node_id: int) -> None:
    _check_node_id(alteration.resource_name, node_id)
    for change in alteration.changes:
        if change.operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
            raise _invalid_request("A logger's level can be set or deleted, nothing else.")
    names = ", ".join(change.name for change in alteration.changes)
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"There is no logger {names}: set the level when the broker is started.")


def _new_values(
    resource_type: ResourceType, changes: Sequence[ConfigChange], old: Mapping[str, str], rules: ConfigRules
) -> dict[str, str]:
    if len({change.name for change in changes}) < len(changes):
        raise _invalid_request("A setting is given more than once.")
    values = dict(old)
    for change in changes:
        if change.operation == AlterOperation.DELETE:
            values.pop(change.name, None)
        elif change.value is None:
            raise _invalid_request(f"The setting {change.name} has no value (null).")
        elif change.operation == AlterOperation.SET:
            values[change.name] = change.value
        else:
            values[change.name] = _new_list(resource_type, change, change.value, old, rules)
    return values


def _new_list(
    resource_type: ResourceType, change: ConfigChange, value: str, old: Mapping[str, str], rules: ConfigRules
) -> str:
    if change.operation not in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
        # Kafka answers UNKNOWN_SERVER_ERROR as well.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"There is no operation {change.operation} on settings.")
    if not rules.is_list(resource_type, change.name):
        verb = "appended to" if change.operation == AlterOperation.APPEND else "subtracted from"
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Nothing can be {verb} {change.name}: it is not a list.")
    current = old.get(change.name)
    items = _items(rules.default(resource_type, change.name) if current is None else current)
    named = _items(value)
    if change.operation == AlterOperation.APPEND:
        return ",".join(items + [item for item in named if item not in items])
    return ",".join(item for item in items if item not in named)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _check_values(resource_type: ResourceType, name: str, values: Mapping[str, str], rules: ConfigRules) -> None:
    try:
        rules.check(resource_type, name, values)
    except ConfigError as error:
        is_broker = resource_type is ResourceType.BROKER
        code = ErrorCode.INVALID_REQUEST if is_broker else ErrorCode.INVALID_CONFIG
        raise KafkaError(code, str(error)) from None


def _current(image: Image, resource_type: ResourceType, name: str) -> ConfigImage | None:
    if resource_type is ResourceType.TOPIC:
        return image.topic_configs.get(name)
    if resource_type is ResourceType.BROKER:
        return image.broker_configs.get(name or records.DEFAULT_BROKER)
    return image.group_configs.get(name)


def _key(resource_type: ResourceType, name: str) -> str:
    if resource_type is ResourceType.TOPIC:
        return records.topic_config_key(name)
    if resource_type is ResourceType.BROKER:
        return records.broker_config_key(name or records.DEFAULT_BROKER)
    return records.group_config_key(name)


def _write(key: str, current: ConfigImage | None, values: Mapping[str, str]) -> list[Op]:
    if current is None:
        return [Check(key, ABSENT), Put(key, ConfigRecord(values).encode())]
    record = replace(current.record, values=values)
    # An empty record goes, unless it holds fields of a newer broker.
    write = Put(key, record.encode()) if values or record.extra else Delete(key)
    return [Check(key, current.version), write]


def _invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
