"""The codecs of `wire/compression.py` beside other packages: `python benchmarks/compression.py` (docs/adr/0003).

0.9 MB of JSON-like records; MB/s of uncompressed data, the best of several runs in CPU time of this thread. Takes a few
seconds. The other packages are those of the `dev` extra.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable
from functools import partial

import lz4.frame  # type: ignore[import-untyped]
import zstandard
from rich.console import Console
from rich.table import Table

from penstock.wire.compression import compress, decompress
from penstock.wire.records import Codec

RUNS = 10


def main() -> None:
    data = records()
    table = Table("codec", "by", "MB/s in", "MB/s out", "ratio", title=f"{len(data):,} bytes of JSON-like records")
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        packed = bytes(compress(codec, data))
        add(table, codec.name, "penstock", data, packed, partial(compress, codec, data), unpack(codec, packed, data))
    gzip, lz4_, zstd = zlib.compress(data, 6, 31), lz4.frame.compress(data), zstandard.compress(data, 3)
    add(table, "GZIP", "zlib", data, gzip, lambda: zlib.compress(data, 6, 31), lambda: zlib.decompress(gzip, 31))
    add(table, "LZ4", "lz4", data, lz4_, lambda: lz4.frame.compress(data), lambda: lz4.frame.decompress(lz4_))
    add(table, "ZSTD", "zstandard", data, zstd, lambda: zstandard.compress(data, 3), lambda: zstandard.decompress(zstd))
    Console().print(table)


def records() -> bytes:
    chance = random.Random(1)
    line = b'{"user":%d,"name":"n%d","x":"%s"}'
    return b"".join(line % (i % 977, i, chance.randbytes(6).hex().encode()) for i in range(20_000))


def unpack(codec: Codec, packed: bytes, data: bytes) -> Callable[[], object]:
    return partial(decompress, codec, packed, len(data))


def add(
    table: Table, codec: str, by: str, data: bytes, packed: bytes, pack: Callable[[], object], out: Callable[[], object]
) -> None:
    rates = [f"{len(data) / best_seconds(call) / 1e6:,.0f}" for call in (pack, out)]
    table.add_row(codec, by, *rates, f"{len(data) / len(packed):.1f}")


def best_seconds(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(RUNS):
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return best


if __name__ == "__main__":
    main()
