"""What the broker does by the clock: retention, flushes, checkpoints, expiry, and a look at the disk.

Each chore has its period; a chore that fails is logged and tried again at the next, and never takes the broker down.
What touches a log runs on the loop, which is the log's one writer; syncing and removing files run in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor

from penstock.broker.replicas.manager import ReplicaManager
from penstock.broker.replicas.partition import Partition
from penstock.env.clock import Clock
from penstock.log.log import Log
from penstock.log.syncing import Syncable

log = logging.getLogger(__name__)

MAX_RETENTION_PERIOD_S = 5.0
"""Kafka looks every five minutes (log.retention.check.interval.ms); records that should be gone annoy people sooner."""

MAX_FLUSH_PERIOD_S = 1.0
"""How often flush.ms and flush.messages of topics are looked at."""

DISK_PERIOD_S = 1.0
SWEEP_PERIOD_S = 5.0


class Maintenance:
    """The chores of one broker."""

    def __init__(self, replicas: ReplicaManager, clock: Clock, executor: Executor) -> None:
        self._replicas = replicas
        self._logs = replicas.logs
        self._clock = clock
        self._executor = executor
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        config = self._replicas.config
        check_s = config.get_int("log.retention.check.interval.ms") / 1000
        self._every("retention", min(check_s, MAX_RETENTION_PERIOD_S), self._enforce_retention)
        self._every("checkpoints", config.get_int("log.flush.offset.checkpoint.interval.ms") / 1000, self._checkpoint)
        self._every(
            "producers", config.get_int("producer.id.expiration.check.interval.ms") / 1000, self._expire_producers
        )
        self._every("deleted files", SWEEP_PERIOD_S, self._sweep)
        self._every("disk space", DISK_PERIOD_S, self._look_at_disks)
        self._every("flush", self._flush_period_s(), self._flush)

    def _flush_period_s(self) -> float:
        config = self._replicas.config
        if config.durability == "interval":
            return config.get_int("penstock.durability.interval.ms") / 1000
        return min(config.get_int("log.flush.scheduler.interval.ms") / 1000, MAX_FLUSH_PERIOD_S)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _every(self, name: str, period_s: float, chore: Callable[[], Awaitable[None] | None]) -> None:
        self._tasks.append(asyncio.create_task(self._repeat(name, period_s, chore), name=name))

    async def _repeat(self, name: str, period_s: float, chore: Callable[[], Awaitable[None] | None]) -> None:
        while True:
            await asyncio.sleep(period_s)
            try:
                done = chore()
                if done is not None:
                    await done
            except Exception:
                log.exception("%s: failed, and is tried again in %g s", name, period_s)

    def _enforce_retention(self) -> None:
        self._logs.enforce_retention(self._clock.now_ms())

    def _checkpoint(self) -> None:
        self._logs.checkpoint()

    def _expire_producers(self) -> None:
        now_ms = self._clock.now_ms()
        for partition in self._replicas:
            partition.log.expire_producers(now_ms)

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, self._logs.sweep_deleted, self._clock.now_ms())

    async def _flush(self) -> None:
        """Not with fsync: there group commit syncs everything, and no one else may see an error of the disk first."""
        durability = self._replicas.config.durability
        if durability == "fsync":
            return
        if durability == "interval":
            due = [each.log for each in self._replicas if each.log.recovery_point < each.log.log_end_offset]
        else:
            due = self._logs.flush_due(self._clock.now_ms())
        for each in due:
            await self._flush_log(each)
        if due:
            self._logs.checkpoint(only_recovery_points=True)

    async def _flush_log(self, each: Log) -> None:
        files, end_offset = each.files_to_sync()
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, _sync, files)
        except OSError as error:
            each.fence(error)
        if not each.is_fenced:  # its topic may be gone, too
            each.on_synced(end_offset)

    def _look_at_disks(self) -> None:
        reserve = self._replicas.config.get_int("penstock.disk.reserve.bytes")
        for directory in self._logs.directories:
            is_full = _free_bytes(directory) < reserve
            changed = [each for each in self._in_directory(directory) if each.is_disk_full != is_full]
            for partition in changed:
                partition.set_disk_full(is_full)
            if changed:
                log.warning("%s: %s", directory, "nearly full, writes are refused" if is_full else "has room again")

    def _in_directory(self, directory: str) -> list[Partition]:
        return [each for each in self._replicas if os.path.dirname(each.log.directory) == directory]


def _sync(files: list[Syncable]) -> None:
    """In a thread."""
    for file in files:
        file.sync()


def _free_bytes(directory: str) -> int:
    try:
        found = os.statvfs(directory)
    except OSError:  # a disk that cannot be asked fails the writes by itself
        return sys.maxsize
    return found.f_bavail * found.f_frsize
