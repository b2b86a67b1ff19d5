"""A log in simulated files, and the ways a test looks at it and breaks it."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable

from log.batches import NOW_MS
from penstock.log.config import LogConfig
from penstock.log.loader import load_log
from penstock.log.log import Log
from penstock.log.open_segments import OpenSegments
from penstock.testing.sim_files import SimFiles
from penstock.types import TopicPartition
from penstock.wire.record import iterate_records
from penstock.wire.records import BatchHeader, iterate_headers

DIRECTORY = "data/t-0"


class ManualClock:
    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1000


class World:
    """Files, a clock, and one log's directory; `open` again after `log.close()`, `kill` or `crash`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.files = SimFiles(clock=self.clock)
        self.files.make_dir(DIRECTORY)
        self.files.sync_dir("")
        self.files.sync_dir("data")

    def open(self, config: LogConfig | None = None, *, is_clean: bool = True, **offsets: int) -> Log:
        return load_log(
            self.files,
            self.clock,
            OpenSegments(),
            DIRECTORY,
            TopicPartition("t", 0),
            bytes(16),
            config or LogConfig(),
            is_clean=is_clean,
            **offsets,
        )

    def crash(self, seed: int) -> None:
        self.files.crash(random.Random(seed))


def read_all(log: Log, offset: int, max_bytes: int = 1 << 20) -> list[bytes]:
    """The bytes of every slice from the offset on."""
    slices = []
    while (found := log.read(offset, max_bytes, log.log_end_offset)) is not None:
        data = found.file.pread(found.size, found.position)
        assert len(data) == found.size
        headers = [header for _, header in iterate_headers(data)]
        assert headers[0].base_offset == found.base_offset
        assert sum(header.size_bytes for header in headers) == found.size, "slices hold whole batches"
        slices.append(data)
        offset = headers[-1].next_offset
    return slices


def offsets_and_values(log: Log, offset: int, max_bytes: int = 1 << 20) -> list[tuple[int, bytes]]:
    """Every record from the offset's batch on."""
    found = []
    for data in read_all(log, offset, max_bytes):
        for position, header in iterate_headers(data):
            batch = data[position : position + header.size_bytes]
            found += [(record.offset, bytes(record.value or b"")) for record in iterate_records(batch)]
    return found


Entries = list[tuple[int, int]]


def index_entries(batches: Iterable[tuple[int, BatchHeader]], interval_bytes: int, *, is_closed: bool) -> list[Entries]:
    """What the two indexes of a segment must hold, (offset, position) and (timestamp, offset), by its batches alone."""
    offsets: Entries = []
    times: Entries = []
    indexed, largest = 0, (-1, -1)
    for position, header in batches:
        if header.max_timestamp > largest[0]:
            largest = header.max_timestamp, header.last_offset
        if position - indexed > interval_bytes:
            indexed = position
            offsets.append((header.last_offset, position))
            times.append(largest)
    if is_closed and largest[0] >= 0:
        times.append(largest)
    return [offsets, sorted(set(times))]


def check_indexes(log: Log) -> None:
    """The indexes have the entries that follow from the batches, and no other. The active segment's may have one more:
    the largest timestamp when a stop or a recovery closed it, until the next entry takes its place."""
    for segment in log.segments:
        batches = dict(segment.batches())
        offsets, times = index_entries(
            batches.items(), log.config.index_interval_bytes, is_closed=not segment.is_active
        )  # fmt: skip
        found = {segment.offset_index.lookup(header.last_offset) for header in batches.values()}
        assert sorted(found - {(segment.base_offset, 0)}) == offsets
        assert segment.offset_index.entry_count == len(offsets)
        found = {segment.time_index.lookup(header.max_timestamp) for header in batches.values()}
        noted = sorted(found - {(-1, segment.base_offset)})
        assert segment.time_index.entry_count == len(noted)
        if segment.is_active and len(noted) > len(times):
            timestamp, offset = noted.pop()
            assert offset >= segment.offset_index.end_offset
            assert timestamp == max(each.max_timestamp for each in batches.values() if each.last_offset <= offset)
        assert noted == times
        if batches:
            assert segment.max_timestamp[0] == max(header.max_timestamp for header in batches.values())


def check_index_files(world: World, log: Log, count: int | None = None) -> None:
    """The index files of the closed segments, the first `count` or after a clean stop all, are what they must be."""
    for segment in list(log.segments)[:count]:
        base = segment.base_offset
        batches = iterate_headers(content(world, segment.path(".log")))
        offsets, times = index_entries(batches, log.config.index_interval_bytes, is_closed=True)
        packed = b"".join(struct.pack(">ii", offset - base, position) for offset, position in offsets)
        assert content(world, segment.path(".index")) == packed
        packed = b"".join(struct.pack(">qi", timestamp, offset - base) for timestamp, offset in times)
        assert content(world, segment.path(".timeindex")) == packed


def content(world: World, path: str) -> bytes:
    return world.files.open(path).pread(world.files.size(path), 0)
