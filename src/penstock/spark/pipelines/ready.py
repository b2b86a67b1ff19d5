"""A project from a ready pipeline: its file is copied, with the values that were asked for in place of its own.

A ready pipeline is a file of this package. What can be set are its constants, names in capitals at the top, each a
text: `topic=orders` sets TOPIC. A path is made absolute, because Spark's processes have other current directories.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from penstock.errors import ConfigError
from penstock.spark.pipelines.project import SPEC_NAMES

NAMES = ("lake", "live", "mirror", "load", "upsert", "delta")
PATHS = ("path", "staging", "database")
"""Constants that are places."""

SQLITE = "sqlite:///"
"""Before a path; a fourth slash begins an absolute one."""

SPEC = """\
# A pipeline project. `penstock pipeline run` reads it, and Spark's own `spark-pipelines run`.
name: {name}

# Checkpoints: how far each flow has come. On a cluster a place that every machine reaches (hdfs://, s3a://, NFS).
storage: {storage}

# Files that define flows.
libraries:
  - glob:
      include: transformations/**

# Spark's settings, as text.
configuration:
  spark.sql.session.timeZone: "UTC"
  spark.sql.shuffle.partitions: "4"
"""


@dataclass(frozen=True, slots=True)
class Ready:
    name: str
    summary: str
    source: str
    settings: Mapping[str, str]
    """What can be set, by name, with what it is by itself."""


def load_ready(name: str) -> Ready:
    if name not in NAMES:
        raise ConfigError(f"There is no ready pipeline {name!r}; there are {', '.join(NAMES)}.")
    source = (Path(__file__).parent / f"{name}.py").read_text()
    tree = ast.parse(source)
    summary = (ast.get_docstring(tree) or "").splitlines()[0].partition(": ")[2]
    return Ready(name, summary, source, {key: ast.literal_eval(node) for key, node in _constants(tree).items()})


def init_project(directory: str | Path, name: str, **values: str) -> list[Path]:
    """As `penstock pipeline init DIRECTORY NAME KEY=VALUE...`."""
    return write_project(Path(directory), load_ready(name), values)


def write_project(directory: Path, ready: Ready, values: Mapping[str, str]) -> list[Path]:
    """Make the project, or add to one; the files that were written. ConfigError when something is in the way."""
    for key in values:
        if key not in ready.settings:
            near = get_close_matches(key, ready.settings, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(ready.settings)}."
            raise ConfigError(f"The pipeline {ready.name!r} has no setting {key!r}; {hint}")
    spec, flow = directory / SPEC_NAMES[0], directory / "transformations" / f"{ready.name}.py"
    if directory.exists() and not spec.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigError(f"{directory} is there already, and is no pipeline project. Nothing was written.")
    if flow.exists():
        raise ConfigError(f"{flow} is there already. Nothing was written.")
    places = {key: _absolute(value) if key in PATHS else value for key, value in values.items()}
    files = {flow: _with_values(ready.source, places)}
    if not spec.exists():
        storage = (directory.resolve() / "storage").as_uri()
        files = {spec: SPEC.format(name=directory.resolve().name, storage=storage), **files}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(files)


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """Lower-case name -> the value of each constant, in order."""
    return {
        node.targets[0].id.lower(): node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.isupper()
        and isinstance(node.value, ast.Constant)
    }


def _with_values(source: str, values: Mapping[str, str]) -> str:
    lines = source.splitlines(keepends=True)
    for key, node in _constants(ast.parse(source)).items():
        if key in values:
            line = lines[node.lineno - 1].encode()  # ast counts columns in bytes
            before, after = line[: node.col_offset].decode(), line[node.end_col_offset :].decode()
            lines[node.lineno - 1] = f"{before}{json.dumps(values[key], ensure_ascii=False)}{after}"
    return "".join(lines)


def _absolute(place: str) -> str:
    if place.startswith(SQLITE) and not place.startswith(f"{SQLITE}/"):
        return f"{SQLITE}{Path(place.removeprefix(SQLITE)).absolute()}"
    is_elsewhere = "://" in place or place.startswith(("jdbc:", "file:"))
    return place if is_elsewhere else str(Path(place).absolute())
