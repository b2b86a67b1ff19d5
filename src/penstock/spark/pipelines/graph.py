"""What a project defines: sinks, views and flows, collected from its files.

The files use Spark's own API, `pyspark.pipelines`: `create_sink`, `append_flow`, `temporary_view`. Spark runs such a
definition once and only triggered; here it is collected as data, so that the same file can be kept on as well
(see `runner`). Tables, materialized views and SQL files are Spark's to run, because they need its catalog:
`spark-pipelines run` does that.

A file is run as Spark runs it: with `spark` among its names, the project's directory as the current one.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import Output, Sink, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation

from penstock.errors import ConfigError
from penstock.spark.pipelines.reasons import reason

T = TypeVar("T")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.pipelines.project import Project


@dataclass(slots=True)
class Graph:
    """Everything that the files of a project define, by name."""

    sinks: dict[str, Sink] = field(default_factory=dict)
    views: dict[str, Flow] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)

    def sink_of(self, flow: Flow) -> Sink:
        return self.sinks[flow.target]

    def check(self) -> None:
        """Every flow has a sink, and there is one."""
        if not self.flows:
            raise ConfigError("The project defines no flow: write one with @dp.append_flow(target=SINK).")
        for flow in self.flows.values():
            if flow.target not in self.sinks:
                known = ", ".join(sorted(self.sinks)) or "none"
                raise ConfigError(f"{_where(flow)}: flow {flow.name!r} goes to {flow.target!r}; sinks are: {known}.")

    def register_views(self, spark: SparkSession) -> None:
        """The views can be read by name afterwards; one may read those that stand before it."""
        for name, flow in self.views.items():
            flow.func().createOrReplaceTempView(name)


def load_graph(project: Project, spark: SparkSession) -> Graph:
    """Run the project's files and collect what they define."""
    graph = Graph()
    with _inside(project.directory), graph_element_registration_context(_Collector(graph)):
        for path in project.files:
            _run_file(path, {"spark": spark})
    graph.check()
    return graph


def _run_file(path: Path, names: Mapping[str, object]) -> None:
    if path.suffix != ".py":
        raise ConfigError(f"{path}: {_SPARK_ONLY.format('this kind of file')}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update(names)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ConfigError(f"{path}, line {error.lineno}: {error.msg}.") from None
    except ConfigError:
        raise
    except Exception as error:  # a project's code may raise anything
        raise ConfigError(f"{path}: {type(error).__name__}: {reason(error)}") from error


_SPARK_ONLY = "{} needs Spark's catalog; run this project with `spark-pipelines run`."


class _Collector(GraphElementRegistry):
    """Hands what the files define to a graph, or says what is wrong with it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._view_names: set[str] = set()

    def register_output(self, output: Output) -> None:
        if isinstance(output, Sink):
            _add(self._graph.sinks, output.name, output, output.source_code_location)
        elif isinstance(output, TemporaryView):
            self._view_names.add(output.name)
        else:
            raise ConfigError(f"{_where(output)}: {_SPARK_ONLY.format(f'table {output.name!r}')}")

    def register_flow(self, flow: Flow) -> None:
        is_view = flow.target in self._view_names
        _add(self._graph.views if is_view else self._graph.flows, flow.name, flow, flow.source_code_location)

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        raise ConfigError(f"{_where(flow)}: {_SPARK_ONLY.format('an automatic CDC flow')}")

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        raise ConfigError(f"{file_path}: {_SPARK_ONLY.format('SQL')}")


def _add(known: dict[str, T], name: str, what: T, location: SourceCodeLocation) -> None:
    if name in known:
        raise ConfigError(f"{location.filename}, line {location.line_number}: {name!r} is defined twice.")
    known[name] = what


def _where(defined: Output | Flow | AutoCdcFlow) -> str:
    location = defined.source_code_location
    return f"{location.filename}, line {location.line_number}"


@contextmanager
def _inside(directory: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
