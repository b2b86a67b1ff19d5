"""What the table of settings says about a change of settings at runtime, in the form that the controller asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.broker.config import BrokerConfig
from penstock.broker.controller.configs import ResourceType
from penstock.broker.settings import GROUP, TOPIC
from penstock.broker.settings.layers import broker_setting
from penstock.broker.settings.setting import Setting, Type, shown


class ConfigRules:
    """`config` is asked each time: what may be set depends on what is set now."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        self._config = config

    def is_list(self, resource_type: ResourceType, name: str) -> bool:
        setting = _setting(resource_type, name)
        return setting is not None and setting.type is Type.LIST

    def default(self, resource_type: ResourceType, name: str) -> str:
        config = self._config()
        if resource_type is ResourceType.TOPIC:
            return shown(config.topic_value(name, {})) or ""
        if resource_type is ResourceType.GROUP:
            return shown(config.group_value(name, {})) or ""
        return shown(config.values.get(name)) or ""

    def check(self, resource_type: ResourceType, resource_name: str, values: Mapping[str, str]) -> None:
        config = self._config()
        if resource_type is ResourceType.TOPIC:
            config.validate_topic_configs(values)
        elif resource_type is ResourceType.GROUP:
            config.validate_group_configs(values)
        else:
            layers = config.layers
            current = layers.broker if resource_name else layers.default_broker
            config.validate_broker_configs(values, current, per_broker=bool(resource_name))


def _setting(resource_type: ResourceType, name: str) -> Setting | None:
    if resource_type is ResourceType.TOPIC:
        return TOPIC.get(name)
    if resource_type is ResourceType.GROUP:
        return GROUP.get(name)
    return broker_setting(name)
