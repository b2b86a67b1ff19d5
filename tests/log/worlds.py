"""A log in simulated files, and the ways a test looks at it and breaks it."""

from __future__ import annotations

import random

from log.batches import NOW_MS
from penstock.log.config import LogConfig
from penstock.log.loader import load_log
from penstock.log.log import Log
from penstock.log.open_segments import OpenSegments
from penstock.testing.sim_files import SimFiles
from penstock.types import TopicPartition
from penstock.wire.record import iterate_records
from penstock.wire.records import iterate_headers

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


def check_indexes(log: Log) -> None:
    """Every index entry names a batch that is there: its last offset, its position, the largest timestamp up to it."""
    for segment in log.segments:
        batches = dict(segment.batches())
        index = segment.offset_index
        entries = {index.lookup(header.last_offset) for header in batches.values()}
        for offset, position in entries - {(segment.base_offset, 0)}:
            assert batches[position].last_offset == offset
        for header in batches.values():
            timestamp, offset = segment.time_index.lookup(header.max_timestamp)
            if timestamp >= 0:
                so_far = [each.max_timestamp for each in batches.values() if each.last_offset <= offset]
                assert max(so_far) == timestamp
        if batches:
            assert segment.max_timestamp[0] == max(header.max_timestamp for header in batches.values())
