"""The places a broker's setting can come from, and which of them wins.

From strongest to weakest: set at runtime for this broker, set at runtime for all brokers, given at the start (command
line, environment, file), and the default. Each layer holds text by name. A value that was set at runtime and does not
parse is passed over, so that one bad entry in the metadata cannot keep a broker from starting.

Some settings say the same thing in different words, such as log.retention.ms, .minutes and .hours. Kafka lists all of
them when one is described, the strongest first; `synonyms` does the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from penstock.broker.settings import BROKER
from penstock.broker.settings.setting import Setting, Value, shown


class Source(IntEnum):
    """Where a value comes from; the numbers are DescribeConfigs'."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    """A place that has a say in a setting: under which name, with which text, from where."""

    name: str
    value: str | None
    source: Source


RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
ROLL = ("log.roll.ms", "log.roll.hours")
ROLL_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")

SAME_MEANING = (RETENTION, ROLL, ROLL_JITTER, ("log.dirs", "log.dir"), ("node.id", "broker.id"))
"""Settings of which one is enough, the strongest first. A stronger layer that gives one hides the others below."""

LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]+\.(?:(?:plain|scram-sha-\d+|gssapi|oauthbearer)\.)?")
"""Settings of one listener, and of one SASL mechanism of it: listener.name.NAME.SETTING."""


def base_name(name: str) -> str:
    """The setting that `listener.name.NAME.SETTING` stands for; any other name is its own."""
    return LISTENER_PREFIX.sub("", name, count=1) if LISTENER_PREFIX.match(name) else name


def broker_setting(name: str) -> Setting | None:
    """The row of a broker setting, with or without a listener's prefix."""
    return BROKER.get(base_name(name))


def same_meaning(name: str) -> tuple[str, ...]:
    """The names that Kafka's DescribeConfigs looks under for this one."""
    for names in (RETENTION, ROLL, ROLL_JITTER):
        if name in names:
            return names
    if name == FLUSH[0]:
        return FLUSH
    base = base_name(name)
    return (name,) if base == name else (name, base)


@dataclass(frozen=True, slots=True)
class Layers:
    """A broker's settings as text, by where they come from."""

    static: Mapping[str, str]
    machine: Mapping[str, Value]
    """Defaults that depend on the machine, such as the data directory; they stand in front of the table's."""
    default_broker: Mapping[str, str]
    broker: Mapping[str, str]

    def value(self, setting: Setting) -> Value:
        """The value that wins."""
        for layer in (self.broker, self.default_broker):
            if setting.name in layer:
                try:
                    return setting.parse(layer[setting.name])
                except ValueError:
                    continue
        if setting.name in self.static:
            return setting.parse(self.static[setting.name])
        return self.default(setting)

    def default(self, setting: Setting) -> Value:
        return self.machine.get(setting.name, setting.default)

    def source(self, name: str) -> Source:
        """Where the winning value of exactly this name comes from."""
        for source, layer in self._given():
            if name in layer:
                return source
        return Source.DEFAULT_CONFIG

    def synonyms(self, name: str) -> list[Synonym]:
        """Every place that has a say in the setting, the strongest first.

        As in Kafka the list begins with the setting's own name: what stands before it is left out, and a setting that
        is set nowhere and has no default has no synonyms, even if another name gives its value.
        """
        names = same_meaning(name)
        found = [
            Synonym(other, None if _is_secret(other) else layer[other], source)
            for source, layer in self._given()
            for other in names
            if other in layer
        ]
        for other in names:
            default = self._default_text(other)
            if default is not None:
                found.append(Synonym(other, default, Source.DEFAULT_CONFIG))
        own = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
        return found[own:]

    def _default_text(self, name: str) -> str | None:
        setting = BROKER.get(name)
        return None if setting is None else shown(self.default(setting))

    def _given(self) -> tuple[tuple[Source, Mapping[str, str]], ...]:
        return (
            (Source.DYNAMIC_BROKER_CONFIG, self.broker),
            (Source.DYNAMIC_DEFAULT_BROKER_CONFIG, self.default_broker),
            (Source.STATIC_BROKER_CONFIG, self.static),
        )


def _is_secret(name: str) -> bool:
    """Kafka shows no value of a setting that it does not know: it may be a plugin's password."""
    setting = broker_setting(name)
    return setting is None or setting.sensitive
