"""A pipeline project: a directory with `spark-pipeline.yml` and the files that define its flows.

It is the layout of Spark Declarative Pipelines, so that Spark's own `spark-pipelines run` reads the same project:

    name: orders
    storage: file:///data/orders-storage     # checkpoints; on a cluster a place that every machine reaches
    libraries:
      - glob:
          include: transformations/**        # Python files that define flows
    configuration:                           # Spark settings, as text
      spark.sql.shuffle.partitions: "4"

Nothing here needs Spark or Java. What is wrong with a project is a ConfigError with the file's name in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import ConfigError

SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
"""Spark's own names for it."""

FIELDS = {"name", "storage", "catalog", "database", "schema", "configuration", "libraries"}


@dataclass(frozen=True, slots=True)
class Project:
    spec_path: Path
    name: str
    storage: str
    """Where Spark keeps checkpoints: a URI, or a path."""
    configuration: Mapping[str, str]
    files: tuple[Path, ...]
    """What defines flows, in the order in which it is read."""

    @property
    def directory(self) -> Path:
        return self.spec_path.parent


def find_project(start: Path) -> Project:
    """The project of a directory or of a spec file; looked for upwards too, as Spark does."""
    if start.is_file():
        return load_project(start)
    if not start.is_dir():
        raise ConfigError(f"There is no directory {start}. `penstock pipeline init` makes a project.")
    for directory in (start.resolve(), *start.resolve().parents):
        for name in SPEC_NAMES:
            if (directory / name).is_file():
                return load_project(directory / name)
    raise ConfigError(f"There is no {SPEC_NAMES[0]} in {start} or above. `penstock pipeline init` makes a project.")


def load_project(spec_path: Path) -> Project:
    spec_path = spec_path.resolve()
    fields = _read(spec_path)
    unknown = sorted(set(fields) - FIELDS)
    if unknown:
        raise ConfigError(f"{spec_path}: unknown field {unknown[0]!r}. Spark knows {', '.join(sorted(FIELDS))}.")
    for required in ("name", "storage"):
        if not isinstance(fields.get(required), str) or not fields[required]:
            raise ConfigError(f"{spec_path}: {required!r} is missing or no text.")
    return Project(
        spec_path, fields["name"], _absolute(fields["storage"], spec_path), _configuration(fields, spec_path),
        _files(fields, spec_path),
    )  # fmt: skip


def _read(spec_path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        raise ConfigError("A pipeline needs PyYAML: pip install 'penstock[spark]'.") from None
    try:
        fields = yaml.safe_load(spec_path.read_text())
    except yaml.YAMLError as error:
        raise ConfigError(f"{spec_path} is no YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(fields, dict):
        raise ConfigError(f"{spec_path} has no fields; it needs at least name and storage.")
    return fields


def _absolute(storage: str, spec_path: Path) -> str:
    """A path without a scheme is one beside the spec."""
    return storage if "://" in storage or storage.startswith("file:") else str(spec_path.parent / storage)


def _configuration(fields: Mapping[str, Any], spec_path: Path) -> dict[str, str]:
    settings = fields.get("configuration") or {}
    if not isinstance(settings, dict):
        raise ConfigError(f"{spec_path}: 'configuration' is a table of Spark's settings.")
    for key, value in settings.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigError(f'{spec_path}: write the setting as text: {key}: "{value}".')
    return settings


def _files(fields: Mapping[str, Any], spec_path: Path) -> tuple[Path, ...]:
    found: dict[Path, None] = {}
    for entry in fields.get("libraries") or []:
        try:
            pattern = entry["glob"]["include"]
        except (TypeError, KeyError):
            raise ConfigError(f"{spec_path}: an entry of 'libraries' is not `glob: {{include: PATTERN}}`.") from None
        found |= dict.fromkeys(_matching(spec_path.parent, pattern))
    if not found:
        raise ConfigError(f"{spec_path}: 'libraries' names no file, so there is nothing to run.")
    return tuple(found)


def _matching(directory: Path, pattern: str) -> list[Path]:
    pattern = f"{pattern}/*" if pattern.endswith("/**") else pattern
    return sorted(path for path in directory.glob(pattern) if path.is_file() and "__pycache__" not in path.parts)
