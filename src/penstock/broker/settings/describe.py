"""Settings as DescribeConfigs answers them: value, where it comes from, every place that has a say, and what it does.

Values are what Kafka prints. A secret is null. A setting that the table does not know (a plugin's, in
server.properties) is listed too, as Kafka does: of unknown type, read-only, and null because it may be a password.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from penstock.broker.settings import BROKER, GROUP, TOPIC
from penstock.broker.settings.layers import Layers, Source, Synonym, broker_setting
from penstock.broker.settings.setting import Setting, Type, Value, shown


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    """One row of the answer."""

    name: str
    value: str | None
    read_only: bool
    source: Source
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    type: Type
    documentation: str | None


def described_broker(layers: Layers, value_of: Callable[[str], Value]) -> list[DescribedConfig]:
    """Every setting of one broker."""
    given = {*layers.static, *layers.default_broker, *layers.broker}
    listed = {name for name, row in BROKER.items() if not row.internal and not row.dynamic_only}
    rows = []
    for name in sorted(listed | given):
        value = shown(value_of(name)) if name in BROKER else _text(layers, name)
        rows.append(_row(name, broker_setting(name), value, layers.synonyms(name)))
    return rows


def described_broker_default(layers: Layers) -> list[DescribedConfig]:
    """What was set at runtime for all brokers, and nothing else."""
    source = Source.DYNAMIC_DEFAULT_BROKER_CONFIG
    rows = []
    for name, text in sorted(layers.default_broker.items()):
        synonyms = [synonym for synonym in layers.synonyms(name) if synonym.source is source]
        rows.append(_row(name, broker_setting(name), text, synonyms))
    return rows


def described_topic(
    layers: Layers, overrides: Mapping[str, str], value_of: Callable[[str], Value]
) -> list[DescribedConfig]:
    """Every setting of a topic; an internal one only when it is set."""
    rows = []
    for name, setting in TOPIC.items():
        if setting.internal and name not in overrides:
            continue
        value = shown(value_of(name))
        synonyms = layers.synonyms(setting.synonyms[0]) if setting.synonyms else []
        if name in overrides:
            synonyms.insert(0, Synonym(name, value, Source.DYNAMIC_TOPIC_CONFIG))
        rows.append(_row(name, setting, value, synonyms))
    return rows


def described_group(
    layers: Layers, overrides: Mapping[str, str], value_of: Callable[[str], Value]
) -> list[DescribedConfig]:
    """Every setting of a group. One that has no broker setting behind it lists its own default, unlike a topic's."""
    rows = []
    for name, setting in GROUP.items():
        value = shown(value_of(name))
        own_default = [Synonym(name, shown(setting.default), Source.DEFAULT_CONFIG)]
        synonyms = layers.synonyms(setting.synonyms[0]) if setting.synonyms else own_default
        if name in overrides:
            synonyms.insert(0, Synonym(name, value, Source.GROUP_CONFIG))
        rows.append(_row(name, setting, value, synonyms))
    return rows


def chosen(
    rows: Iterable[DescribedConfig], names: Collection[str] | None, include_synonyms: bool, include_docs: bool
) -> list[DescribedConfig]:
    """The rows that were asked for; no names means all, as in Kafka, and a name that does not exist is left out."""
    return [
        DescribedConfig(
            row.name,
            row.value,
            row.read_only,
            row.source,
            row.is_sensitive,
            row.synonyms if include_synonyms else (),
            row.type,
            row.documentation if include_docs else None,
        )
        for row in rows
        if not names or row.name in names
    ]


def _row(name: str, setting: Setting | None, value: str | None, synonyms: list[Synonym]) -> DescribedConfig:
    sensitive = setting is None or setting.sensitive
    return DescribedConfig(
        name=name,
        value=None if sensitive else value,
        read_only=setting is None or setting.read_only or setting.name != name,
        source=synonyms[0].source if synonyms else Source.DEFAULT_CONFIG,
        is_sensitive=sensitive,
        synonyms=tuple(synonyms),
        type=setting.type if setting else Type.UNKNOWN,
        documentation=setting.doc if setting else None,
    )


def _text(layers: Layers, name: str) -> str | None:
    for layer in (layers.broker, layers.default_broker, layers.static):
        if name in layer:
            return layer[name]
    return None
