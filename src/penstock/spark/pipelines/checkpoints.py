"""Spark's checkpoints as they lie in a project's storage: how far each flow has come, without Spark or Java.

    <storage>/_checkpoints/<sink>/<flow>/<number>/     Spark's layout; the highest number is the current one
        metadata        the query's id
        offsets/<batch> a line "v1", a line about the batch, then for each source a line of JSON: the batch's end
        commits/<batch> there when the batch is done

A batch in `offsets` that is not in `commits` is being written, or was when the query ended: it is done again at the
next start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from pyarrow import ArrowException, fs

from penstock.errors import ConfigError
from penstock.types import TopicPartition

DIRECTORY = "_checkpoints"
PROGRESS = "_penstock_progress"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    sink: str
    flow: str
    query_id: str
    last_batch: int | None
    """The last that is done; None before the first."""
    is_batch_open: bool
    """A later batch was begun and is not done."""
    offsets: Mapping[TopicPartition, int]
    """The next to read after the last batch that is done, where the source is a topic."""


class Storage:
    """The directory that a project's `storage` names: local, or any place that pyarrow reaches (hdfs, s3, gs)."""

    def __init__(self, location: str) -> None:
        self._location = location.rstrip("/")
        try:
            self._files, self._root = fs.FileSystem.from_uri(_uri(self._location))
        except (ArrowException, OSError) as error:
            raise ConfigError(f"The storage {location!r} cannot be reached: {error}.") from None

    def checkpoint_location(self, sink: str, flow: str) -> str:
        """Where a flow's checkpoint is, or will be; as Spark is told it."""
        return f"{self._location}/{self._inside(sink, flow)}"

    def checkpoints(self) -> list[Checkpoint]:
        """Those of all flows that have ever run."""
        sinks = self._names(DIRECTORY)
        return [self._checkpoint(sink, flow) for sink in sinks for flow in self._names(f"{DIRECTORY}/{sink}")]

    def read_progress(self) -> dict[str, dict[str, Any]]:
        """What the last run noted of each flow; see `write_progress`."""
        names = [name for name in self._names(PROGRESS) if name.endswith(".json")]
        return {name.removesuffix(".json"): json.loads(self._text(f"{PROGRESS}/{name}") or "{}") for name in names}

    def write_progress(self, flow: str, progress: Mapping[str, Any]) -> None:
        """Note how a flow is doing, for `penstock pipeline status`; nothing depends on it."""
        self._files.create_dir(f"{self._root}/{PROGRESS}", recursive=True)
        with self._files.open_output_stream(f"{self._root}/{PROGRESS}/{flow}.json") as stream:
            stream.write(json.dumps(progress).encode())

    def query_id(self, sink: str, flow: str) -> str:
        """Of a query that was started: it stays the same as long as its checkpoint is there."""
        return str(json.loads(self._text(f"{self._inside(sink, flow)}/metadata") or '{"id": ""}')["id"])

    def _checkpoint(self, sink: str, flow: str) -> Checkpoint:
        inside = self._inside(sink, flow)
        begun = self._batches(f"{inside}/offsets")
        last = max(self._batches(f"{inside}/commits"), default=None)
        offsets = _topic_offsets(self._text(f"{inside}/offsets/{last}")) if last is not None else {}
        is_open = bool(begun) and (last is None or max(begun) > last)
        return Checkpoint(sink, flow, self.query_id(sink, flow), last, is_open, offsets)

    def _inside(self, sink: str, flow: str) -> str:
        directory = f"{DIRECTORY}/{sink}/{flow}"
        numbers = [int(name) for name in self._names(directory) if name.isdigit()]
        return f"{directory}/{max(numbers, default=0)}"

    def _batches(self, directory: str) -> set[int]:
        return {int(name) for name in self._names(directory) if name.isdigit()}

    def _names(self, directory: str) -> list[str]:
        selector = fs.FileSelector(f"{self._root}/{directory}", allow_not_found=True)
        return sorted(PurePosixPath(info.path).name for info in self._files.get_file_info(selector))

    def _text(self, path: str) -> str:
        try:
            with self._files.open_input_stream(f"{self._root}/{path}") as stream:
                return str(stream.read().decode())
        except FileNotFoundError:
            return ""


def _topic_offsets(text: str) -> dict[TopicPartition, int]:
    """Of all sources of a batch that are topics: {"orders": {"0": 42}}, as Spark's Kafka source writes it too."""
    found: dict[TopicPartition, int] = {}
    for line in text.splitlines()[2:]:
        offset = json.loads(line) if line.startswith("{") else {}
        found |= partition_offsets(offset)
    return found


def partition_offsets(offset: Any) -> dict[TopicPartition, int]:
    """An offset of a source, if it is one of topics."""
    if not isinstance(offset, dict):
        return {}
    return {
        TopicPartition(topic, int(partition)): end
        for topic, ends in offset.items()
        if isinstance(ends, dict)
        for partition, end in ends.items()
        if partition.isdigit() and isinstance(end, int)
    }


def _uri(location: str) -> str:
    """pyarrow knows file:///x, not file:/x, and Hadoop's s3a as s3."""
    if location.startswith("file:/") and not location.startswith("file://"):
        return f"file://{location.removeprefix('file:')}"
    return location.replace("s3a://", "s3://", 1) if "://" in location else f"file://{quote(location)}"
