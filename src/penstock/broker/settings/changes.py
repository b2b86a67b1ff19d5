"""What Kafka refuses when settings are changed at runtime.

How a change is worked out (set, delete, append, subtract) is the controller's; here the outcome is checked. Kafka
answers INVALID_CONFIG for a bad value of a topic or group and INVALID_REQUEST for one of a broker, and so do we. A
broker accepts a name that it does not know, for plugins; a topic or group does not.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

from penstock.broker.settings.layers import base_name, broker_setting
from penstock.broker.settings.setting import Setting, Update, Value
from penstock.errors import ErrorCode, KafkaError

THREAD_POOLS = frozenset(
    (
        "background.threads",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    )
)
"""Kafka lets these at most double or halve in one step."""

FIXED_AT_START = frozenset(("listeners", "listener.security.protocol.map"))
"""Kafka can open a listener at runtime; Penstock opens its listeners at the start only."""


def check_table_config(table: Mapping[str, Setting], kind: str, name: str, value: str | None) -> Value:
    """The typed value of a topic's or group's setting; INVALID_CONFIG when there is no such setting or value."""
    setting = table.get(name)
    if setting is None:
        close = difflib.get_close_matches(name, table, n=1, cutoff=0.75)
        suggestion = f" Did you mean {close[0]}?" if close else ""
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"There is no {kind} setting {name!r}.{suggestion}")
    if value is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"The {kind} setting {name} cannot be null.")
    try:
        return setting.parse(value)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None


def check_broker_config(name: str, value: str | None, per_broker: bool, value_of: Callable[[str], Value]) -> None:
    """INVALID_REQUEST when the setting cannot be changed at runtime, or not to this value.

    `per_broker` says for whom: this one broker, or all of them. `value_of` gives the value in force.
    """
    if value is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} cannot be set to null. Delete it instead.")
    setting = broker_setting(name)
    if setting is None:
        return
    problem = _not_changeable(name, setting, per_broker)
    if problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
    try:
        parsed = setting.parse(value)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None
    if base_name(name) == name:
        _check_step(setting, parsed, value_of(name))


def _not_changeable(name: str, setting: Setting, per_broker: bool) -> str | None:
    if base_name(name) != name:
        # Kafka accepts any setting with a listener's prefix, for one broker.
        return None if per_broker else f"{name} can be changed for one broker only: name the broker."
    if setting.read_only:
        return f"{name} cannot be changed while the broker runs. Set it in server.properties and start again."
    if setting.needs_listener:
        return f"{name} can be changed for a listener only: write listener.name.NAME.{name}."
    if setting.update is Update.PER_BROKER and not per_broker:
        return f"{name} can be changed for one broker only: name the broker."
    if name in FIXED_AT_START:
        return f"{name} cannot be changed while the broker runs. Set it in server.properties and start again."
    return None


def _check_step(setting: Setting, value: Value, now: Value) -> None:
    if setting.name == "max.connections" and value == 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "max.connections must be at least 1: with 0 nobody could undo it.")
    if setting.name in THREAD_POOLS:
        assert isinstance(value, int)
        assert isinstance(now, int)
        if not now // 2 <= value <= now * 2:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{setting.name} may at most double or halve in one step: it is {now}, and {value} was asked for.",
            )
