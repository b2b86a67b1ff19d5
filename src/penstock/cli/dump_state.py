"""The small files beside a log for `penstock log dump`: snapshots of producers, checkpoints, and the topic's id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from penstock.cli.dump_entry import Entry, Problem, date
from penstock.env.files import SystemFiles
from penstock.log.partition_metadata import read_partition_metadata
from penstock.log.producer_state import decode_snapshot
from penstock.types import topic_id_text

CHECKPOINTS = {
    "leader-epoch-checkpoint": ("epoch", "start_offset"),
    "recovery-point-offset-checkpoint": ("topic", "partition", "offset"),
    "replication-offset-checkpoint": ("topic", "partition", "offset"),
    "log-start-offset-checkpoint": ("topic", "partition", "offset"),
    "cleaner-offset-checkpoint": ("topic", "partition", "offset"),
}
"""File name -> what the words of a line are. All are text: a version, the number of lines, the lines."""


def dump_snapshot(path: str) -> Iterator[Entry | Problem]:
    entries = decode_snapshot(Path(path).read_bytes())
    if entries is None:
        yield Problem("it is no snapshot of producers: cut, of another version, or its checksum is wrong.")
        return
    for entry in entries:
        fields = {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_first_offset": entry.current_txn_first_offset,
        }
        text = (
            f"producer {entry.producer_id}  epoch {entry.epoch}  last sequence {entry.last_sequence}"
            f"  last offset {entry.last_offset}  {date(entry.last_timestamp)}"
        )
        if entry.current_txn_first_offset >= 0:
            text += f"  transaction open since offset {entry.current_txn_first_offset}"
        yield Entry("producer", fields, text)


def dump_checkpoint(path: str) -> Iterator[Entry | Problem]:
    names = CHECKPOINTS[Path(path).name]
    lines = Path(path).read_text("utf-8", "replace").splitlines()
    if not lines:
        return  # Kafka makes some of its checkpoints empty and fills them later
    if lines[0] != "0" or len(lines) < 2 or lines[1] != str(len(lines) - 2):
        yield Problem("it is no checkpoint of version 0, or lines are missing.")
        return
    for line in lines[2:]:
        words = line.split(" ")
        if len(words) != len(names) or not all(word.isdigit() for word in words[-2:]):
            yield Problem(f"the line {line!r} is not {' '.join(names)}.")
            continue
        values = [word if name == "topic" else int(word) for name, word in zip(names, words, strict=True)]
        fields = dict(zip(names, values, strict=True))
        yield Entry("checkpoint", fields, "  ".join(f"{n.replace('_', ' ')} {v}" for n, v in fields.items()))


def dump_partition_metadata(path: str) -> Iterator[Entry | Problem]:
    try:
        topic_id = read_partition_metadata(SystemFiles(), str(Path(path).parent))
    except ValueError as error:
        yield Problem(str(error))
        return
    assert topic_id is not None, "the file was there a moment ago"
    yield Entry("topic", {"topic_id": topic_id_text(topic_id)}, f"topic id {topic_id_text(topic_id)}")
