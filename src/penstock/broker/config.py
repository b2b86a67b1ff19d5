"""The broker's configuration: what was given at the start and at runtime, resolved, checked and typed.

`BrokerConfig.load` reads server.properties, the environment and the command line; whatever is wrong stops the start
with a `ConfigError` that says where and what to write. The object never changes. A change at runtime is stored in the
metadata, and `with_dynamic` makes the next object from it. `log_config` gives a topic's log the part that it needs.

Rules:
- Strongest first: set for this broker at runtime, set for all brokers, command line, environment, file, default.
- A topic's own setting stands before all of them; without one, the broker setting of the same meaning counts.
- What Penstock does not implement is accepted, and `not_implemented` names it, so that the start can say so once.
- A server.properties of Apache Kafka works as it is: the settings of its controllers mean nothing here, and their
  listeners are not opened.

It does not read or write the metadata, and it resolves no `${...}` references to other files (Kafka's config
providers).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType

from penstock.broker.settings import BROKER, GROUP, TOPIC
from penstock.broker.settings.changes import check_broker_config, check_table_config
from penstock.broker.settings.checks import host_counts
from penstock.broker.settings.conflicts import conflicts, first_ms
from penstock.broker.settings.describe import (
    DescribedConfig,
    chosen,
    described_broker,
    described_broker_default,
    described_group,
    described_topic,
)
from penstock.broker.settings.given import Given, given_at_start
from penstock.broker.settings.layers import Layers, Source, broker_setting
from penstock.broker.settings.listeners import Listener, advertised_listeners, opened_listeners, protocol_map
from penstock.broker.settings.setting import Setting, Value
from penstock.broker.settings.units import Unit, unit_of
from penstock.errors import ConfigError, ErrorCode, KafkaError
from penstock.log.config import NO_LIMIT, LogConfig

__all__ = ["BrokerConfig", "DescribedConfig", "Listener", "Source", "default_data_dir"]


NO_COMPACTION = "compact is accepted, but there is no compaction yet: older values of a key stay."


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Where the logs are when nobody says: the user's own data directory (XDG)."""
    base = environ.get("XDG_DATA_HOME", "")
    # The XDG rules say that a relative path is to be ignored.
    root = Path(base) if base.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".local" / "share"
    return root / "penstock"


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Every setting of one broker, resolved."""

    layers: Layers
    values: Mapping[str, Value]
    """The value that wins, of each setting in the table."""
    origins: Mapping[str, str]
    """Where each setting that was given at the start can be changed."""
    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    """What clients are told. A listener that is missing here, or has no host, is told as the client reached it."""
    warnings: tuple[str, ...]

    @classmethod
    def load(
        cls, properties_path: Path | None, environ: Mapping[str, str], overrides: Iterable[str] = ()
    ) -> BrokerConfig:
        """The configuration at the start; `overrides` are `key=value`, as after --set."""
        given, warnings = given_at_start(properties_path, environ, overrides)
        _agree_on_id(given)
        static = MappingProxyType({name: text for name, (text, _) in given.items()})
        machine: Mapping[str, Value] = MappingProxyType({"log.dir": (str(default_data_dir(environ)),)})
        layers = Layers(static, machine, MappingProxyType({}), MappingProxyType({}))
        values = _resolved(layers)
        origins = {name: origin for name, (_, origin) in given.items()}
        _check_together(values, origins)
        opened, advertised = _listeners(values, origins)
        warnings += _listener_warnings(values) + _compaction_warnings(values)
        return cls(layers, values, MappingProxyType(origins), opened, advertised, tuple(warnings))

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """The same broker with what was set at runtime, for all brokers and for this one."""
        layers = replace(self.layers, default_broker=dict(default), broker=dict(broker))
        return replace(self, layers=layers, values=_resolved(layers))

    # Reading.

    def get(self, name: str) -> Value:
        """The value of a setting, by Kafka's name; KeyError when there is none of that name."""
        return self.values[name]

    def get_int(self, name: str) -> int:
        value = self.values[name]
        assert isinstance(value, int), f"{name} is no whole number"
        return value

    def get_bool(self, name: str) -> bool:
        value = self.values[name]
        assert isinstance(value, bool), f"{name} is no boolean"
        return value

    def get_str(self, name: str) -> str:
        value = self.values[name]
        assert isinstance(value, str), f"{name} is no string"
        return value

    def source(self, name: str) -> Source:
        """Where the value comes from."""
        return self.layers.source(name)

    def origin(self, name: str) -> str | None:
        """Where a person gave the setting at the start: a file's line, a variable, the command line."""
        return self.origins.get(name)

    @property
    def node_id(self) -> int:
        return self.get_int("node.id")

    @property
    def rack(self) -> str | None:
        value = self.values["broker.rack"]
        assert value is None or isinstance(value, str)
        return value

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        directories = self.values["log.dirs"] or self.values["log.dir"]
        assert isinstance(directories, tuple)
        return tuple(Path(directory) for directory in directories)

    @property
    def num_partitions(self) -> int:
        return self.get_int("num.partitions")

    @property
    def default_replication_factor(self) -> int:
        return self.get_int("default.replication.factor")

    @property
    def durability(self) -> str:
        """What an acknowledgement means: `os`, `interval` or `fsync`."""
        return self.get_str("penstock.durability")

    @property
    def max_connections_per_ip(self) -> Mapping[str, int]:
        """The limits of single addresses that differ from max.connections.per.ip."""
        return host_counts(self.get_str("max.connections.per.ip.overrides"))

    # What the start says.

    def not_implemented(self) -> tuple[str, ...]:
        """Settings that were given, other than their default, and that Penstock does not obey yet."""
        return tuple(name for name, row in self._given_rows() if not row.implemented and not row.moot)

    def without_meaning(self) -> dict[str, tuple[str, ...]]:
        """Settings that were given and mean nothing here, by the reason."""
        reasons: dict[str, tuple[str, ...]] = {}
        for name, row in self._given_rows():
            if row.moot:
                reasons[row.moot] = (*reasons.get(row.moot, ()), name)
        return reasons

    def _given_rows(self) -> list[tuple[str, Setting]]:
        """What was given and says something else than the default; a listener's settings by their full name."""
        found = []
        for name in sorted(self.layers.static):
            row = broker_setting(name)
            if row is not None and (row.name != name or self.layers.default(row) != self.values[name]):
                found.append((name, row))
        return found

    # Topics and groups.

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """What the logs of a topic with these settings of its own are told to do."""
        chosen_values: dict[str, Value] = {}
        for field in fields(LogConfig):
            name = field.name.replace("_", ".")
            chosen_values[field.name] = self.topic_value(name, overrides) if name in TOPIC else self.values[name]
        policy = chosen_values["cleanup_policy"]
        assert isinstance(policy, tuple)
        small_segments = self.topic_value("internal.segment.bytes", overrides)
        if small_segments is not None:
            chosen_values["segment_bytes"] = small_segments
        return LogConfig(**{**chosen_values, "cleanup_policy": frozenset(policy)})  # type: ignore[arg-type]

    def topic_value(self, name: str, overrides: Mapping[str, str]) -> Value:
        """A topic setting's value: the topic's own, else the broker's."""
        setting = TOPIC[name]
        if name in overrides:
            return setting.parse(overrides[name])
        if not setting.synonyms:
            return setting.default
        if unit_of(name) is not Unit.MILLISECONDS:
            return self.values[setting.synonyms[0]]
        _, value = first_ms(self.values, setting.synonyms)
        # Kafka takes every negative log.retention.ms for "for ever".
        return max(value, NO_LIMIT) if name == "retention.ms" else value

    def group_value(self, name: str, overrides: Mapping[str, str]) -> Value:
        """A group setting's value: the group's own, else the broker's."""
        setting = GROUP[name]
        if name in overrides:
            return setting.parse(overrides[name])
        return self.values[setting.synonyms[0]] if setting.synonyms else setting.default

    # Changing at runtime: KafkaError when it cannot be.

    def validate_topic_config(self, name: str, value: str | None) -> Value:
        """The typed value; INVALID_CONFIG when a topic has no such setting or the setting no such value."""
        return check_table_config(TOPIC, "topic", name, value)

    def validate_topic_configs(self, overrides: Mapping[str, str | None]) -> dict[str, str]:
        """All of a topic's own settings, as CreateTopics and AlterConfigs give them."""
        for name, value in overrides.items():
            self.validate_topic_config(name, value)
        checked = {name: value for name, value in overrides.items() if value is not None}
        self._check_topic_together(checked)
        return checked

    def _check_topic_together(self, overrides: Mapping[str, str]) -> None:
        low, high = (self.topic_value(f"{bound}.compaction.lag.ms", overrides) for bound in ("min", "max"))
        assert isinstance(low, int)
        assert isinstance(high, int)
        if low > high:
            sentence = f"min.compaction.lag.ms is {low}, above max.compaction.lag.ms, which is {high}."
            raise KafkaError(ErrorCode.INVALID_CONFIG, sentence)
        if self.topic_value("remote.storage.enable", overrides) and not self.values["remote.log.storage.system.enable"]:
            sentence = "remote.storage.enable cannot be true: this broker has no remote storage."
            raise KafkaError(ErrorCode.INVALID_CONFIG, sentence)

    def validate_group_configs(self, overrides: Mapping[str, str | None]) -> dict[str, str]:
        """All of a group's own settings, within the broker's bounds."""
        for name, value in overrides.items():
            self._check_group_bounds(name, check_table_config(GROUP, "group", name, value))
        return {name: value for name, value in overrides.items() if value is not None}

    def _check_group_bounds(self, name: str, value: Value) -> None:
        """consumer.session.timeout.ms lies between group.consumer.min. and .max.session.timeout.ms, and so on."""
        kind, _, rest = name.partition(".")
        for bound, sign, words in (("min", 1, "at least"), ("max", -1, "at most")):
            limit = self.values.get(f"group.{kind}.{bound}.{rest.removeprefix('num.')}")
            if isinstance(limit, int) and isinstance(value, int) and sign * value < sign * limit:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be {words} {limit} here, not {value}.")

    def validate_dynamic_broker_config(self, name: str, value: str | None, per_broker: bool = True) -> None:
        """INVALID_REQUEST when the setting cannot be changed at runtime, or not to this value."""
        check_broker_config(name, value, per_broker, self.get)

    def validate_broker_configs(self, after: Mapping[str, str], current: Mapping[str, str], per_broker: bool) -> None:
        """All settings that would be set at runtime; those that stay as they are were checked before."""
        for name, value in after.items():
            if current.get(name) != value:
                self.validate_dynamic_broker_config(name, value, per_broker)
        layers = self.layers
        default, broker = (layers.default_broker, after) if per_broker else (after, layers.broker)
        for conflict in conflicts(self.with_dynamic(default, broker).values):
            raise KafkaError(ErrorCode.INVALID_REQUEST, conflict.sentence)

    # DescribeConfigs.

    def describe_topic(
        self,
        overrides: Mapping[str, str],
        names: Collection[str] | None = None,
        include_synonyms: bool = False,
        include_docs: bool = False,
    ) -> list[DescribedConfig]:
        rows = described_topic(self.layers, overrides, lambda name: self.topic_value(name, overrides))
        return chosen(rows, names, include_synonyms, include_docs)

    def describe_group(
        self,
        overrides: Mapping[str, str],
        names: Collection[str] | None = None,
        include_synonyms: bool = False,
        include_docs: bool = False,
    ) -> list[DescribedConfig]:
        rows = described_group(self.layers, overrides, lambda name: self.group_value(name, overrides))
        return chosen(rows, names, include_synonyms, include_docs)

    def describe_broker(
        self, names: Collection[str] | None = None, include_synonyms: bool = False, include_docs: bool = False
    ) -> list[DescribedConfig]:
        return chosen(described_broker(self.layers, self.get), names, include_synonyms, include_docs)

    def describe_broker_default(
        self, names: Collection[str] | None = None, include_synonyms: bool = False, include_docs: bool = False
    ) -> list[DescribedConfig]:
        """The resource with the empty name: what was set at runtime for all brokers."""
        return chosen(described_broker_default(self.layers), names, include_synonyms, include_docs)


def _agree_on_id(given: dict[str, Given]) -> None:
    """broker.id is node.id's old name: either one gives both, as in Kafka. -1 is the old way to say "choose one"."""
    if "broker.id" in given and int(given["broker.id"].text) == -1:
        del given["broker.id"]
    old, new = given.get("broker.id"), given.get("node.id")
    if old and new and int(old.text) != int(new.text):
        raise ConfigError(f"{old.origin}: broker.id is {old.text}, but node.id is {new.text}. Write node.id only.")
    either = new or old
    if either:
        given["broker.id"] = given["node.id"] = either
        if int(either.text) < 0:
            raise ConfigError(f"{either.origin}: broker.id must be at least 0, not {either.text}.")


def _resolved(layers: Layers) -> Mapping[str, Value]:
    return MappingProxyType({name: layers.value(row) for name, row in BROKER.items()})


def _check_together(values: Mapping[str, Value], origins: Mapping[str, str]) -> None:
    problems = [_at(origins, conflict.name, conflict.sentence) for conflict in conflicts(values)]
    if problems:
        raise ConfigError("\n".join(problems))


def _listeners(
    values: Mapping[str, Value], origins: Mapping[str, str]
) -> tuple[tuple[Listener, ...], tuple[Listener, ...]]:
    map_text, members, advertised = (
        values[name] for name in ("listener.security.protocol.map", "listeners", "advertised.listeners")
    )
    assert isinstance(map_text, str)
    assert isinstance(members, tuple)
    controllers = _controllers(values)
    name = "listener.security.protocol.map"
    try:
        protocols = protocol_map(map_text)
        name = "listeners"
        opened = opened_listeners(members, protocols, controllers)
        name = "advertised.listeners"
        told = advertised_listeners(advertised if isinstance(advertised, tuple) else (), opened, controllers)
        name = "inter.broker.listener.name"
        _check_inter_broker(values[name], opened)
    except ValueError as error:
        raise ConfigError(_at(origins, name, str(error))) from None
    return opened, told


def _controllers(values: Mapping[str, Value]) -> frozenset[str]:
    names = values["controller.listener.names"]
    return frozenset(name.upper() for name in names) if isinstance(names, tuple) else frozenset()


def _check_inter_broker(name: Value, opened: tuple[Listener, ...]) -> None:
    if name is not None and str(name).upper() not in {listener.name for listener in opened}:
        known = ", ".join(listener.name for listener in opened)
        raise ValueError(f"inter.broker.listener.name is {name}, but the listeners are {known}.")


def _listener_warnings(values: Mapping[str, Value]) -> list[str]:
    members = values["listeners"]
    assert isinstance(members, tuple)
    controllers = _controllers(values)
    dropped = [member for member in members if member.partition("://")[0].strip().upper() in controllers]
    return [f"The listener {member} is for Kafka's controllers. Penstock has none: not opened." for member in dropped]


def _compaction_warnings(values: Mapping[str, Value]) -> list[str]:
    policies = values["log.cleanup.policy"]
    assert isinstance(policies, tuple)
    return [f"log.cleanup.policy: {NO_COMPACTION}"] if "compact" in policies else []


def _at(origins: Mapping[str, str], name: str, sentence: str) -> str:
    """The sentence, after the place where the setting was given, if it was."""
    return f"{origins[name]}: {sentence}" if name in origins else sentence
