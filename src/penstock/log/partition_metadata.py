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
from penstock.types import TopicId, topic_id_from_text, topic_id_text

FILE_NAME = "partition.metadata"
VERSION = 0
MAX_SIZE_BYTES = 4096
"""Far above any version of the file; a larger one is something else."""


def write_partition_metadata(files: Files, directory: str, topic_id: bytes) -> None:
    path = f"{directory}/{FILE_NAME}"
    data = f"version: {VERSION}\ntopic_id: {topic_id_text(topic_id)}".encode()
    if files.exists(path + ".tmp"):
        files.unlink(path + ".tmp")
    file = files.open(path + ".tmp", create=True)
    if file.pwrite(data, 0) != len(data):
        raise OSError(f"{path}: only a part of the file could be written.")
    file.sync()
    file.close()
    files.rename(path + ".tmp", path)
    files.sync_dir(directory)


def read_partition_metadata(files: Files, directory: str) -> TopicId | None:
    """The topic id, or None where there is no file. ValueError when the file does not say one."""
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    file = files.open(path, writable=False)
    text = file.pread(MAX_SIZE_BYTES, 0).decode("ascii", "replace")
    file.close()
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    if fields.get("version", "").strip() != str(VERSION) or "topic_id" not in fields:
        raise ValueError(f"{path} is not a partition.metadata file of version {VERSION}.")
    return topic_id_from_text(fields["topic_id"].strip())
