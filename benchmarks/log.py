"""What an append to a log and a read from it cost in CPU, system calls included: `python benchmarks/log.py [--json]`.

One log in a directory of the system's temporary files, one idempotent producer, uncompressed batches of 1 KB.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from collections.abc import Callable

from penstock.env.clock import SystemClock
from penstock.env.files import SystemFiles
from penstock.log.config import LogConfig
from penstock.log.loader import load_log
from penstock.log.log import Log
from penstock.log.open_segments import OpenSegments
from penstock.types import TopicPartition
from penstock.wire.crc32c import crc32c
from penstock.wire.records import CRC, CRC_AT, HEADER, LOG_OVERHEAD


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--appends", type=int, default=100_000)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a batch")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        results = measure(directory, arguments.appends, arguments.size)
    if arguments.json:
        print(json.dumps(results))
        return
    for name, value in results.items():
        print(f"{name:32} {value:10.2f}")


def measure(directory: str, appends: int, size: int) -> dict[str, float]:
    """CPU microseconds of each operation, all of it: user and system."""
    log = new_log(directory)
    batches = [bytearray(each) for each in make_batches(size, appends)]
    epoch = 0

    def append_all() -> None:
        append = log.append_as_leader
        for each in batches:
            append(memoryview(each), epoch)

    def views() -> None:
        for each in batches:
            memoryview(each)

    append_us = (cpu_us(append_all) - cpu_us(views)) / appends
    reads = 20_000

    def read_tail() -> None:
        end = log.log_end_offset
        for _ in range(reads):
            log.read(end - 1, 1 << 20, end)

    log.read(0, 1 << 20, log.log_end_offset)
    return {"append_us": append_us, "read_last_us": cpu_us(read_tail) / reads, "catch_up_us_per_mb": catch_up(log)}


def catch_up(log: Log) -> float:
    """A consumer that reads the whole log in slices of 1 MB: CPU of the reads alone, per slice."""
    slices = 0

    def walk() -> None:
        nonlocal slices
        offset = log.log_start_offset
        while (found := log.read(offset, 1 << 20, log.log_end_offset)) is not None:
            data = found.file.pread(HEADER.size, found.position)
            assert HEADER.unpack(data)[0] == found.base_offset
            offset = found.base_offset + found.size // (log.size_bytes // log.log_end_offset)
            slices += 1

    return cpu_us(walk) / slices


def new_log(directory: str) -> Log:
    topic_partition = TopicPartition("bench", 0)
    return load_log(
        SystemFiles(), SystemClock(), OpenSegments(), directory, topic_partition, bytes(16), LogConfig(), is_clean=True
    )


def make_batches(size: int, count: int) -> list[bytearray]:
    """Batches of one idempotent producer, each with one opaque record: an append does not look inside."""
    body = bytes(size - HEADER.size)
    now_ms = SystemClock().now_ms()
    batches = []
    for sequence in range(count):
        header = HEADER.pack(0, size - LOG_OVERHEAD, -1, 2, 0, 0, 0, now_ms, now_ms, 7, 0, sequence, 1)
        data = bytearray(header + body)
        CRC.pack_into(data, CRC_AT, crc32c(memoryview(data)[21:]))
        batches.append(data)
    return batches


def cpu_us(work: Callable[[], None]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e6


if __name__ == "__main__":
    main()
