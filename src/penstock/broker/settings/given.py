"""What was given at the start: server.properties, then the environment, then the command line; the later one wins.

A setting of a stronger place also hides the weaker places' settings of the same meaning: `--set log.retention.hours=1`
is obeyed even if the file has log.retention.ms, which Kafka would prefer. Inside one place Kafka's order holds.

A name that nobody knows is an error on the command line, where it is a slip, and a warning in the file and the
environment: Kafka's files may hold settings of plugins.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.broker.settings import BROKER, TOPIC
from penstock.broker.settings.environment import VARIABLES, settings_of
from penstock.broker.settings.layers import SAME_MEANING, broker_setting
from penstock.broker.settings.properties import read_properties
from penstock.errors import ConfigError


class Given(NamedTuple):
    """A setting's text, and where a person can change it."""

    text: str
    origin: str


def given_at_start(
    path: Path | None, environ: Mapping[str, str], overrides: Iterable[str]
) -> tuple[dict[str, Given], list[str]]:
    """All settings that were given, checked one by one, and warnings; ConfigError with a line for each bad one."""
    file = _from_file(path) if path is not None else {}
    warnings = [_unknown_in_file(name, given) for name, given in file.items() if not _is_known(name)]
    environment, environment_warnings = _from_environment(environ)
    command_line = _from_command_line(overrides)
    given = _merged(file, environment, command_line)
    _check_types(given)
    return given, warnings + environment_warnings


def _from_file(path: Path) -> dict[str, Given]:
    return {entry.name: Given(entry.value, f"{path} line {entry.line}") for entry in read_properties(path)}


def _from_environment(environ: Mapping[str, str]) -> tuple[dict[str, Given], list[str]]:
    found, warnings = settings_of(environ)
    given = {VARIABLES[variable]: Given(text, f"environment variable {variable}") for variable, text in found.items()}
    return given, warnings


def _from_command_line(overrides: Iterable[str]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for override in overrides:
        name, separator, text = override.partition("=")
        name = name.strip()
        if not separator:
            raise ConfigError(f"--set {override} has no value. Write --set {name}=VALUE.")
        if not _is_known(name):
            raise ConfigError(f"--set {name}: there is no such setting.{suggestion(name)}")
        given[name] = Given(text, "command line")
    return given


def _is_known(name: str) -> bool:
    setting = broker_setting(name)
    return setting is not None and not setting.dynamic_only


def _unknown_in_file(name: str, given: Given) -> str:
    return f"{given.origin}: {name} is no setting that Penstock knows, and is ignored.{suggestion(name)}"


def suggestion(name: str) -> str:
    """What the person may have meant: the broker's setting behind a topic's, or the nearest name."""
    if name in TOPIC and TOPIC[name].synonyms:
        return f" It is a topic's setting; the broker's is {TOPIC[name].synonyms[0]}."
    close = difflib.get_close_matches(name, BROKER, n=1, cutoff=0.75)
    return f" Did you mean {close[0]}?" if close else ""


def _merged(*places: Mapping[str, Given]) -> dict[str, Given]:
    """The weakest place first."""
    merged: dict[str, Given] = {}
    for place in places:
        for names in SAME_MEANING:
            if any(name in place for name in names):
                for name in names:
                    merged.pop(name, None)
        merged.update(place)
    return merged


def _check_types(given: Mapping[str, Given]) -> None:
    problems = []
    for name, (text, origin) in given.items():
        setting = broker_setting(name)
        if setting is None:
            continue
        try:
            setting.parse(text)
        except ValueError as error:
            problems.append(f"{origin}: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
