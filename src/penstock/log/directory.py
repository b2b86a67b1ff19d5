"""One of the broker's `log.dirs`: the files that are about all logs in it, and the names of their directories.

    .lock                              held with a POSIX lock while a broker, ours or Kafka, uses the directory
    meta.properties                    version=1, cluster.id, node.id, directory.id
    .kafka_cleanshutdown               {"version":0,"brokerEpoch":11}, only after a clean stop
    recovery-point-offset-checkpoint   per partition, up to where it is synced
    log-start-offset-checkpoint        per partition, where records were deleted inside the first segment
    replication-offset-checkpoint      per partition, the high watermark
    orders-0/                          a partition's log
    orders-0.<32 hex>-delete/          a deleted one, removed after a while
    orders-0.<32 hex>-stray/           one that the metadata does not know; never removed by the broker

Rules. The clean marker is taken away, durably, before anything else is opened: a crash must not find an old one. It
is written last of all, and not when a log in the directory was fenced. A directory that fails (EIO, EROFS) is
offline: nothing is written to it any more, and the broker goes on with the others.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import logging
import os
import re
from collections.abc import Mapping

from penstock.env.files import File, Files
from penstock.errors import ConfigError
from penstock.log.atomic_file import read_or_none, write_atomically
from penstock.log.checkpoint import OffsetCheckpoint
from penstock.types import TopicPartition

LOCK_FILE = ".lock"
META_FILE = "meta.properties"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
MAX_NAME_LENGTH = 255

METADATA_LOG = "__cluster_metadata-0"
"""KRaft's own log, in a directory that Kafka wrote; not a topic's."""

_PARTITION_NAME = re.compile(r"^([a-zA-Z0-9._-]{1,249})-(\d{1,10})$")
_DELETED_NAME = re.compile(r"\.[0-9a-f]{32}-delete$")
_MARKED_NAME = re.compile(r"\.[0-9a-f]{32}-(delete|stray|future)$")

_logger = logging.getLogger(__name__)


def partition_of(name: str) -> TopicPartition | None:
    """Which partition a directory's name says it holds; None when it is not a partition's directory."""
    match = _PARTITION_NAME.match(name)
    if match is None or _MARKED_NAME.search(name) or name == METADATA_LOG:
        return None
    return TopicPartition(match[1], int(match[2]))


class LogDirectory:
    """One entry of `log.dirs`."""

    def __init__(self, files: Files, path: str) -> None:
        self.path = path
        self.offline_reason: str | None = None
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.was_clean = False
        self._files = files
        self._lock: File | None = None
        self._written: dict[str, Mapping[TopicPartition, int]] = {}

    def open(self) -> None:
        """Lock it, take the clean marker away, and read the checkpoints. OSError means that it cannot be used."""
        self._make()
        self._take_lock()
        marker = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        self.was_clean = self._files.exists(marker)
        if self.was_clean:
            self._files.unlink(marker)
        self._files.sync_dir(self.path)
        self.recovery_points = self._read(RECOVERY_POINT_CHECKPOINT)
        self.log_start_offsets = self._read(LOG_START_OFFSET_CHECKPOINT)
        self.high_watermarks = self._read(HIGH_WATERMARK_CHECKPOINT)

    def _make(self) -> None:
        """The directory and its parents, durably."""
        missing = []
        path = self.path
        while path and not self._files.exists(path):
            missing.append(path)
            path = os.path.dirname(path)
        self._files.make_dir(self.path)
        for made in missing:
            self._files.sync_dir(os.path.dirname(made) or ".")

    def _take_lock(self) -> None:
        self._lock = self._files.open(f"{self.path}/{LOCK_FILE}", create=True)
        try:
            fcntl.lockf(self._lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise ConfigError(
                    f"Another broker uses the data directory {self.path}. Stop it, or choose another with log.dirs."
                ) from None
            if error.errno != errno.EBADF:  # a simulated file has no descriptor, and no other process has it
                raise

    def _read(self, name: str) -> dict[TopicPartition, int]:
        return OffsetCheckpoint(self._files, f"{self.path}/{name}").read() or {}

    def write_checkpoints(
        self,
        recovery_points: Mapping[TopicPartition, int],
        log_start_offsets: Mapping[TopicPartition, int],
        high_watermarks: Mapping[TopicPartition, int],
    ) -> None:
        """Each file is written only when it says something new."""
        self.write_recovery_points(recovery_points)
        self._write(LOG_START_OFFSET_CHECKPOINT, log_start_offsets)
        self._write(HIGH_WATERMARK_CHECKPOINT, high_watermarks)

    def write_recovery_points(self, recovery_points: Mapping[TopicPartition, int]) -> None:
        self._write(RECOVERY_POINT_CHECKPOINT, recovery_points)

    def _write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        if self._written.get(name) != offsets:
            OffsetCheckpoint(self._files, f"{self.path}/{name}").write(offsets)
            self._written[name] = offsets

    def mark_clean(self, broker_epoch: int) -> None:
        data = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
        write_atomically(self._files, f"{self.path}/{CLEAN_SHUTDOWN_FILE}", data.encode())

    def close(self) -> None:
        """Let the lock go."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def check_identity(self, cluster_id: str, node_id: int) -> None:
        """ConfigError when the directory says that it is another's. Nothing is touched, so this comes before `open`."""
        path = f"{self.path}/{META_FILE}"
        data = read_or_none(self._files, path)
        if data is None:
            return
        found = dict(line.split("=", 1) for line in data.decode("utf-8", "replace").splitlines() if "=" in line)
        for key, value in (("cluster.id", cluster_id), ("node.id", str(node_id))):
            if found.get(key, value) != value:
                raise ConfigError(
                    f"{path} says {key}={found[key]}, but this broker has {key}={value}. Use this broker's data "
                    f"directory, or an empty one."
                )

    def write_identity(self, cluster_id: str, node_id: int, new_directory_id: bytes) -> None:
        """Say whose directory this is, unless it says so already."""
        path = f"{self.path}/{META_FILE}"
        if not self._files.exists(path):
            directory_id = base64.urlsafe_b64encode(new_directory_id).decode().rstrip("=")
            lines = (f"node.id={node_id}", f"directory.id={directory_id}", "version=1", f"cluster.id={cluster_id}")
            write_atomically(self._files, path, "".join(f"{line}\n" for line in ("#", *lines)).encode())

    # Names in it.

    def partitions(self) -> dict[str, TopicPartition]:
        """Partition directories, by name."""
        found = {name: partition_of(name) for name in self._files.list(self.path)}
        return {name: tp for name, tp in found.items() if tp is not None and self._files.is_dir(f"{self.path}/{name}")}

    def deleted(self) -> list[str]:
        """Paths of deleted partitions whose removal an earlier run did not finish."""
        return [f"{self.path}/{name}" for name in self._files.list(self.path) if _DELETED_NAME.search(name)]

    def put_aside(self, name: str, unique: bytes, suffix: str) -> str:
        """Rename a partition's directory so that it is nobody's any more; the new path. Kafka's form of the name."""
        number = int.from_bytes(unique, "big")
        while True:
            ending = f".{number % (1 << 128):032x}{suffix}"
            target = f"{self.path}/{name[: MAX_NAME_LENGTH - len(ending)]}{ending}"
            if not self._files.exists(target):
                break
            number += 1
        self._files.rename(f"{self.path}/{name}", target)
        self._files.sync_dir(self.path)
        return target

    def take_offline(self, reason: str) -> None:
        if self.offline_reason is None:
            self.offline_reason = reason
            _logger.error("The data directory %s is offline: %s", self.path, reason)
