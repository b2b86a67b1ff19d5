"""The `partition.metadata` file: which topic a partition's directory belongs to, by id.

A topic that was deleted and made again under the same name has a new id, and must not see the old one's records.

Bytes, as Kafka writes them, with no line end after the id:

    version: 0
    topic_id: NcKG912MQcuUPS_wfTM8GQ

Written once, when the directory is made: to a `.tmp` file that is synced, renamed and made durable in its directory.
After a crash the file is whole or not there. Not there means a directory that was never finished or one of Kafka's
before 2.8; the log manager decides what that means, this file only says what is written.
"""

from __future__ import annotations

from penstock.env.files import Files
from penstock.log.atomic_file import read_or_none, write_atomically
from penstock.types import TopicId, topic_id_from_text, topic_id_text

FILE_NAME = "partition.metadata"
VERSION = 0


def write_partition_metadata(files: Files, directory: str, topic_id: bytes) -> None:
    text = f"version: {VERSION}\ntopic_id: {topic_id_text(topic_id)}"
    write_atomically(files, f"{directory}/{FILE_NAME}", text.encode())


def read_partition_metadata(files: Files, directory: str) -> TopicId | None:
    """The topic id, or None where there is no file. ValueError when the file does not say one."""
    path = f"{directory}/{FILE_NAME}"
    data = read_or_none(files, path)
    if data is None:
        return None
    fields = dict(line.split(":", 1) for line in data.decode("ascii", "replace").splitlines() if ":" in line)
    if fields.get("version", "").strip() != str(VERSION) or "topic_id" not in fields:
        raise ValueError(f"{path} is not a partition.metadata file of version {VERSION}.")
    return topic_id_from_text(fields["topic_id"].strip())
