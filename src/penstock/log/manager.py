"""All logs of a broker, over all its data directories: opened at the start, made, deleted, looked after, closed.

Opening. For each directory: lock, clean marker, checkpoints; then each partition's log, scanned from its recovery
point when the directory has no clean marker. A partition that the metadata does not know, or knows under another
topic id, is put aside as `-stray` and never deleted: metadata can be missing for many reasons, and records cannot be
made again.

Deleting. The directory is renamed at once and removed `file.delete.delay.ms` later, by `sweep_deleted`, which may run
in a thread: it touches only what no log uses any more.

Failures. A log that fails with EIO or EROFS takes its directory offline: all logs in it are fenced, the others go on. A
partition that was not found while a directory is offline may be there, so no empty log is made in its place.
"""

from __future__ import annotations

import errno
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from penstock.env.clock import Clock
from penstock.env.files import Files
from penstock.errors import ConfigError, StorageError
from penstock.log.config import LogConfig
from penstock.log.directory import DELETE_SUFFIX, STRAY_SUFFIX, LogDirectory
from penstock.log.loader import load_log
from penstock.log.log import Log
from penstock.log.open_segments import OpenSegments
from penstock.log.partition_metadata import read_partition_metadata, write_partition_metadata
from penstock.log.recovery import Corruption
from penstock.types import ZERO_TOPIC_ID, TopicPartition

OFFLINE_ERRNOS = frozenset((errno.EIO, errno.EROFS, errno.ENXIO, errno.ENODEV, errno.ESTALE))
"""The disk itself failed, not one file on it."""

KnownLogs = Mapping[TopicPartition, tuple[bytes, LogConfig]]
"""What the metadata says should be here: topic id and settings by partition."""

Progress = Callable[[int, int, TopicPartition], None]
"""Called before each log is opened: how many are done, how many there are, which is next."""

_logger = logging.getLogger(__name__)


class LogManager:
    def __init__(self, files: Files, clock: Clock, directories: Sequence[str], *, broker_epoch: int = -1) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.directories = tuple(directories)
        self.broker_epoch = broker_epoch
        self._files = files
        self._clock = clock
        self._open_segments = OpenSegments()
        self._by_path = {path: LogDirectory(files, path) for path in self.directories}
        self._deleted: deque[tuple[int, str]] = deque()
        self._not_found: set[TopicPartition] = set()
        self._is_open = False

    @property
    def offline_directories(self) -> dict[str, str]:
        """Path and reason."""
        return {each.path: each.offline_reason for each in self._by_path.values() if each.offline_reason is not None}

    @property
    def corruptions(self) -> list[Corruption]:
        """The holes that recovery found, in all logs."""
        return [corruption for log in self.logs.values() for corruption in log.corruptions]

    # Opening.

    def open(self, known: KnownLogs, progress: Progress | None = None) -> None:
        """Open every log that is on the disks and in the metadata; ConfigError when no directory can be used."""
        jobs: list[tuple[LogDirectory, str, TopicPartition]] = []
        for directory in self._by_path.values():
            if directory.offline_reason is not None:
                continue
            try:
                directory.open()
                jobs += [(directory, name, tp) for name, tp in directory.partitions().items()]
                self._deleted.extend((self._clock.now_ms(), path) for path in directory.deleted())
            except OSError as error:
                directory.take_offline(str(error))
        if len(self.offline_directories) == len(self.directories):
            reasons = "; ".join(self.offline_directories.values())
            raise ConfigError(f"No data directory can be used: {reasons}. Choose another with log.dirs.")
        for number, (directory, name, tp) in enumerate(jobs):
            if progress is not None:
                progress(number, len(jobs), tp)
            self._open_found(directory, name, tp, known.get(tp))
        self._not_found = known.keys() - self.logs.keys() if self.offline_directories else set()
        self._is_open = True

    def check_identity(self, cluster_id: str, node_id: int) -> None:
        """Before `open`, which puts aside what it does not know: ConfigError when a directory is another broker's."""
        for directory in self._by_path.values():
            try:
                directory.check_identity(cluster_id, node_id)
            except OSError as error:
                directory.take_offline(str(error))

    def write_identity(self, cluster_id: str, node_id: int, new_directory_ids: Sequence[bytes]) -> None:
        """Say in each directory whose it is, where it does not."""
        for directory, new_id in zip(self._by_path.values(), new_directory_ids, strict=True):
            if directory.offline_reason is None:
                directory.write_identity(cluster_id, node_id, new_id)

    def _open_found(
        self, directory: LogDirectory, name: str, tp: TopicPartition, expected: tuple[bytes, LogConfig] | None
    ) -> None:
        if directory.offline_reason is not None:
            return
        try:
            topic_id = self._topic_id_of(f"{directory.path}/{name}")
            if expected is None or topic_id not in (None, expected[0]) or tp in self.logs:
                self._put_aside(directory, name, topic_id)
                return
            if topic_id is None:
                write_partition_metadata(self._files, f"{directory.path}/{name}", expected[0])
            self._load(directory, tp, *expected)
        except OSError as error:
            directory.take_offline(f"{name}: {error}")

    def _topic_id_of(self, path: str) -> bytes | None:
        try:
            return read_partition_metadata(self._files, path)
        except ValueError as error:
            _logger.error("%s", error)
            return ZERO_TOPIC_ID

    def _put_aside(self, directory: LogDirectory, name: str, topic_id: bytes | None) -> None:
        path = directory.put_aside(name, topic_id or ZERO_TOPIC_ID, STRAY_SUFFIX)
        _logger.error(
            "%s/%s is not in the metadata, or belongs to another topic of that name. It was renamed to %s and is kept; "
            "delete it by hand when it is not needed.",
            directory.path,
            name,
            path,
        )

    def _load(self, directory: LogDirectory, tp: TopicPartition, topic_id: bytes, config: LogConfig) -> Log:
        log = load_log(
            self._files,
            self._clock,
            self._open_segments,
            f"{directory.path}/{tp}",
            tp,
            topic_id,
            config,
            is_clean=directory.was_clean and tp in directory.recovery_points,
            recovery_point=directory.recovery_points.get(tp, 0),
            log_start_offset=directory.log_start_offsets.get(tp, 0),
            high_watermark=directory.high_watermarks.get(tp, 0),
        )
        log.on_fenced = self._on_fenced
        log.before_truncate = lambda log: self._checkpoint(directory)
        self.logs[tp] = log
        return log

    # Logs come and go.

    def create(self, tp: TopicPartition, topic_id: bytes, config: LogConfig, *, sync: bool = True) -> Log:
        """Make an empty log in the directory with the fewest; durable when this returns.

        Whoever makes many says `sync=False` and calls `sync_names` after the last.
        """
        assert tp not in self.logs, f"{tp} exists"
        if tp in self._not_found:
            raise StorageError(f"{tp} may be in a data directory that is offline; no empty log is made in its place.")
        online = [each for each in self._by_path.values() if each.offline_reason is None]
        if not online:
            raise StorageError("All data directories are offline.")
        directory = online[0] if len(online) == 1 else self._emptiest(online)
        try:
            log = self._create_in(directory, tp, topic_id, config)
            if sync:
                self._files.sync_dir(directory.path)
            return log
        except OSError as error:
            if error.errno in OFFLINE_ERRNOS:
                self._take_offline(directory, error)
            raise StorageError(f"{tp} could not be made in {directory.path}: {error.strerror or error}.") from error

    def _create_in(self, directory: LogDirectory, tp: TopicPartition, topic_id: bytes, config: LogConfig) -> Log:
        path = f"{directory.path}/{tp}"
        self._files.make_dir(path)
        write_partition_metadata(self._files, path, topic_id)
        for offsets in (directory.recovery_points, directory.log_start_offsets, directory.high_watermarks):
            offsets.pop(tp, None)  # of an older topic of this name
        return self._load(directory, tp, topic_id, config)

    def _emptiest(self, directories: list[LogDirectory]) -> LogDirectory:
        counts = Counter(map(_parent, self.logs.values()))
        return min(directories, key=lambda each: counts[each.path])

    def sync_names(self) -> None:
        """The logs that were made without a sync are durable now. A directory that fails goes offline."""
        for directory in self._by_path.values():
            if directory.offline_reason is None:
                try:
                    self._files.sync_dir(directory.path)
                except OSError as error:
                    self._take_offline(directory, error)

    def delete(self, tp: TopicPartition) -> None:
        """The log is gone at once; its files go after file.delete.delay.ms. Slices of it can still be sent."""
        log = self.logs.pop(tp)
        directory = self._by_path[_parent(log)]
        log.is_fenced = True
        try:
            path = directory.put_aside(str(tp), log.topic_id, DELETE_SUFFIX)
        except OSError as error:
            if error.errno in OFFLINE_ERRNOS:
                self._take_offline(directory, error)
            raise StorageError(f"{tp} could not be deleted: {error.strerror or error}.") from error
        self._deleted.append((self._clock.now_ms() + log.config.file_delete_delay_ms, path))

    def sweep_deleted(self, now_ms: int) -> int:
        """Remove the files of deleted partitions and segments whose time has come; how many. May run in a thread."""
        count = 0
        while self._deleted and self._deleted[0][0] <= now_ms:
            _, path = self._deleted.popleft()
            count += self._remove(path)
        for log in list(self.logs.values()):
            count += log.sweep_deleted(now_ms)
        return count

    def _remove(self, path: str) -> int:
        try:
            self._files.remove_tree(path)
        except OSError as error:
            _logger.warning("%s could not be removed and is tried again at the next start: %s", path, error)
            return 0
        return 1

    # Looking after them.

    def enforce_retention(self, now_ms: int) -> int:
        """Delete what need not be kept; how many segments. One log's failure does not keep the others from it."""
        count = 0
        for log in list(self.logs.values()):
            if log.is_fenced:
                continue
            try:
                count += log.enforce_retention(now_ms)
            except StorageError as error:
                _logger.error("Retention: %s", error)
        return count

    def flush_due(self, now_ms: int) -> list[Log]:
        """Logs that should be synced now: by flush.ms, by flush.messages, or because a segment was closed."""
        return [log for log in list(self.logs.values()) if not log.is_fenced and log.is_flush_due(now_ms)]

    def checkpoint(self, *, only_recovery_points: bool = False) -> None:
        """Write recovery points, log start offsets and high watermarks. A directory that fails goes offline.

        Recovery points alone are worth writing when a segment was closed and synced: a start after a crash then need
        not look at it.
        """
        for directory in self._by_path.values():
            if directory.offline_reason is None:
                try:
                    if only_recovery_points:
                        directory.write_recovery_points(self._recovery_points(directory))
                    else:
                        self._checkpoint(directory)
                except OSError as error:
                    if error.errno in OFFLINE_ERRNOS:
                        self._take_offline(directory, error)
                    else:
                        _logger.error("%s: the checkpoints could not be written: %s", directory.path, error)

    def _recovery_points(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {log.topic_partition: log.checkpoint_offset for log in self._in(directory)}

    def _checkpoint(self, directory: LogDirectory) -> None:
        logs = self._in(directory)
        directory.write_checkpoints(
            self._recovery_points(directory),
            # As in Kafka, only where the start is not simply the first segment's.
            {
                log.topic_partition: log.log_start_offset
                for log in logs
                if log.log_start_offset > log.segments.first.base_offset
            },
            {log.topic_partition: log.high_watermark for log in logs},
        )

    def close(self) -> None:
        """Flush and close every log, write the checkpoints, and last the clean marker where all went well."""
        for directory in self._by_path.values():
            if self._is_open and directory.offline_reason is None:
                self._close(directory)
            directory.close()
        self._is_open = False

    def _close(self, directory: LogDirectory) -> None:
        try:
            logs = self._in(directory)
            for log in logs:
                self._close_log(log)
            self._checkpoint(directory)
            if not any(log.is_fenced for log in logs):
                directory.mark_clean(self.broker_epoch)
        except OSError as error:
            _logger.error("%s is not closed cleanly, and is checked at the next start: %s", directory.path, error)

    def _close_log(self, log: Log) -> None:
        try:
            log.close()
        except StorageError as error:
            _logger.error("%s", error)

    # Failures.

    def _on_fenced(self, log: Log, error: OSError) -> None:
        if error.errno in OFFLINE_ERRNOS:
            self._take_offline(self._by_path[_parent(log)], error)

    def _take_offline(self, directory: LogDirectory, error: OSError) -> None:
        directory.take_offline(str(error))
        for log in self._in(directory):
            log.is_fenced = True

    def _in(self, directory: LogDirectory) -> list[Log]:
        """A copy is looked through: `create` may run in a thread meanwhile."""
        return [log for log in list(self.logs.values()) if _parent(log) == directory.path]


def _parent(log: Log) -> str:
    return log.directory.rpartition("/")[0]
