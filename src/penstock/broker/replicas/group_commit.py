"""Group commit: one fdatasync for all appends that wait, in a thread, while the next group gathers.

Only with `penstock.durability=fsync`, where the high watermark is moved here and nowhere else. A failed sync fences the
log, and the waiting requests learn that their batches do not count; so do those of a log that was deleted meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import NamedTuple

from penstock.broker.replicas.partition import Partition
from penstock.log.syncing import Syncable

OnSynced = Callable[[frozenset[Partition]], None]
"""Called with the partitions whose sync failed, also in the same group on behalf of others."""


class _Group(NamedTuple):
    """What one sync covers."""

    partitions: dict[Partition, None]
    waiting: list[OnSynced]


class _Job(NamedTuple):
    """One partition's part of a sync, as the partition was when the sync began."""

    partition: Partition
    files: list[Syncable]
    end_offset: int
    bytes_in: int


class GroupCommit:
    """`wait` for the disk; one group syncs while the next one gathers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor, is_needed: bool) -> None:
        self._loop = loop
        self._executor = executor
        self.is_needed = is_needed
        self._next = _Group({}, [])
        self._running: asyncio.Future[dict[Partition, OSError]] | None = None

    def wait(self, partitions: Iterable[Partition], on_synced: OnSynced) -> None:
        """Call back once everything appended to these partitions so far is on disk, or known not to be."""
        if not self._next.waiting and self._running is None:
            self._loop.call_soon(self._start)
        for partition in partitions:
            self._next.partitions[partition] = None
        self._next.waiting.append(on_synced)

    def _start(self) -> None:
        group, self._next = self._next, _Group({}, [])
        jobs = [_Job(each, *each.log.files_to_sync(), each.bytes_in) for each in group.partitions]
        self._running = self._loop.run_in_executor(self._executor, _sync_all, jobs)
        self._running.add_done_callback(lambda done: self._on_done(group, jobs, done.result()))

    def _on_done(self, group: _Group, jobs: list[_Job], failures: dict[Partition, OSError]) -> None:
        self._running = None
        for partition, error in failures.items():
            partition.log.fence(error)
        # The kernel tells of a failed write once: a sync that went well after one that did not means nothing.
        failed = frozenset(job.partition for job in jobs if job.partition.log.is_fenced)
        for partition, _, end_offset, bytes_in in jobs:
            if partition not in failed:
                partition.log.on_synced(end_offset)
                partition.on_synced(end_offset, bytes_in)
        for on_synced in group.waiting:
            on_synced(failed)
        if self._next.waiting:
            self._start()

    async def stop(self) -> None:
        """Wait for the syncs that were asked for; nothing may be appended any more."""
        while self._running is not None or self._next.waiting:
            if self._running is None:
                await asyncio.sleep(0)
            else:
                await asyncio.wait([self._running])


def _sync_all(jobs: list[_Job]) -> dict[Partition, OSError]:
    """In a thread: sync every file; which partitions failed, and how."""
    failures: dict[Partition, OSError] = {}
    for job in jobs:
        try:
            for file in job.files:
                file.sync()
        except OSError as error:
            failures[job.partition] = error
    return failures
