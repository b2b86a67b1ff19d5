"""Group commit: one fdatasync for all appends that wait, in a thread, while the next group gathers.

Only with `penstock.durability=fsync`. A failed sync fences the log (its pages may be gone although a retry would say
otherwise) and the waiting requests learn that their batches do not count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import NamedTuple

from penstock.broker.replicas.partition import Partition
from penstock.log.syncing import Syncable

log = logging.getLogger(__name__)

OnSynced = Callable[[frozenset[Partition]], None]
"""Called with the partitions whose sync failed."""


class _Group(NamedTuple):
    """What one sync covers."""

    partitions: dict[Partition, None]
    waiting: list[OnSynced]


class GroupCommit:
    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor, is_needed: bool) -> None:
        self._loop = loop
        self._executor = executor
        self.is_needed = is_needed
        self._next = _Group({}, [])
        self._is_running = False

    def wait(self, partitions: Iterable[Partition], on_synced: OnSynced) -> None:
        """Call back once everything appended to these partitions so far is on disk, or known not to be."""
        if not self._next.waiting and not self._is_running:
            self._loop.call_soon(self._start)
        for partition in partitions:
            self._next.partitions[partition] = None
        self._next.waiting.append(on_synced)

    def _start(self) -> None:
        group, self._next = self._next, _Group({}, [])
        self._is_running = True
        jobs = [(partition, *partition.log.files_to_sync()) for partition in group.partitions]
        sizes = {
            partition: partition.log.log_end_offset - partition.log.high_watermark for partition in group.partitions
        }
        future = self._loop.run_in_executor(self._executor, _sync_all, jobs)
        future.add_done_callback(lambda done: self._on_done(group, jobs, sizes, done.result()))

    def _on_done(
        self,
        group: _Group,
        jobs: list[tuple[Partition, list[Syncable], int]],
        sizes: dict[Partition, int],
        failures: dict[Partition, OSError],
    ) -> None:
        self._is_running = False
        for partition, _, end_offset in jobs:
            if partition in failures:
                partition.log.fence(failures[partition])
            else:
                partition.log.on_synced(end_offset)
                partition.on_synced(end_offset, sizes[partition])
        failed = frozenset(failures)
        for on_synced in group.waiting:
            on_synced(failed)
        if self._next.waiting:
            self._start()


def _sync_all(jobs: list[tuple[Partition, list[Syncable], int]]) -> dict[Partition, OSError]:
    """In a thread: sync every file; which partitions failed, and how."""
    failures: dict[Partition, OSError] = {}
    for partition, files, _ in jobs:
        try:
            for file in files:
                file.sync()
        except OSError as error:
            log.error("%s: fdatasync failed: %s", partition.log.topic_partition, error)
            failures[partition] = error
    return failures
