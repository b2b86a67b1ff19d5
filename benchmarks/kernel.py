"""How fast records become columns and columns become records, on one core: `python benchmarks/kernel.py [--out FILE]`.

Batches of about 1 MB without compression, values of 100 B and 1 KB, no keys, as DESIGN.md's figures. "kernel" is the
kernel alone; "columns" is the whole way with batch headers and checksums. CPU time of this thread, the best of many
runs, so that other work on the machine disturbs little. Takes about 15 s.
"""

from __future__ import annotations

import argparse
import array
import importlib.util
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from rich.console import Console
from rich.table import Table

from penstock.wire import columns as columns_module
from penstock.wire import kernel as installed_kernel
from penstock.wire.columns import BinaryColumn, Columns, decode_columns, encode_columns
from penstock.wire.records import HEADER_SIZE

BATCH_BYTES = 1_000_000
RUN_SECONDS = 0.9
Row = dict[str, str | int | float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the results as JSON to this file")
    out: Path | None = parser.parse_args().out
    kernels = {"uncompiled": load_source()}
    if installed_kernel.COMPILED:
        kernels = {"compiled": installed_kernel, **kernels}
    else:
        sys.stderr.write("The kernel is not compiled here: run `pip install .` where a C compiler is.\n")
    results = [row for name, kernel in kernels.items() for size in (100, 1000) for row in measure(name, kernel, size)]
    show(results)
    if out is not None:
        out.write_text(json.dumps({"python": platform.python_version(), "results": results}, indent=2) + "\n")


def load_source() -> ModuleType:
    """The kernel's own file as plain Python, whatever is installed."""
    spec = importlib.util.spec_from_file_location("kernel_source", Path(columns_module.__file__).with_name("kernel.py"))
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(name: str, kernel: ModuleType, value_bytes: int) -> list[Row]:
    for part in ("Binary", "Decoder", "Encoder"):
        setattr(columns_module, part, getattr(kernel, part))
    columns = make_columns(BATCH_BYTES // value_bytes, value_bytes)
    (batch,) = encode_columns(columns, target_bytes=2 * BATCH_BYTES)
    assert decode_columns(batch).values.data == columns.values.data
    cases: dict[str, Callable[[], object]] = {
        "decode, kernel": lambda: decode(kernel, batch, columns.row_count),
        "decode, columns": lambda: decode_columns(batch),
        "encode, kernel": encode(kernel, columns, bytearray(len(batch))),
        "encode, columns": lambda: list(encode_columns(columns, target_bytes=2 * BATCH_BYTES)),
    }
    return [result(name, case, value_bytes, columns.row_count / best_seconds(call)) for case, call in cases.items()]


def make_columns(rows: int, value_bytes: int) -> Columns:
    offsets = array.array("i", range(0, rows * value_bytes + 1, value_bytes))
    timestamps = array.array("q", (1_700_000_000_000 + i // 10 for i in range(rows)))
    return Columns(rows, timestamps.tobytes(), BinaryColumn(b"v" * (rows * value_bytes), offsets.tobytes()))


def decode(kernel: ModuleType, batch: bytearray, rows: int) -> object:
    section = memoryview(batch)[HEADER_SIZE:]
    decoder = kernel.Decoder(False)
    decoder.measure(section, rows)
    decoder.add(section, rows, 0, rows - 1, 0, False)
    return decoder.columns()


def encode(kernel: ModuleType, columns: Columns, out: bytearray) -> Callable[[], object]:
    timestamps = memoryview(columns.timestamps).cast("q")
    values = kernel.Binary(memoryview(columns.values.data), memoryview(columns.values.offsets).cast("i"), None)
    target = memoryview(out)

    def run() -> None:
        encoder = kernel.Encoder(timestamps, None, values)
        stop, _, _ = encoder.fit(0, 2 * BATCH_BYTES, columns.row_count)
        encoder.write(0, stop, target, HEADER_SIZE)

    return run


def best_seconds(call: Callable[[], object]) -> float:
    best = float("inf")
    end = time.thread_time() + RUN_SECONDS
    while time.thread_time() < end:
        start = time.thread_time()
        call()
        best = min(best, time.thread_time() - start)
    return best


def result(name: str, case: str, value_bytes: int, rate: float) -> Row:
    return {
        "kernel": name,
        "case": case,
        "value_bytes": value_bytes,
        "records_per_second": round(rate),
        "megabytes_per_second": round(rate * value_bytes / 1e6),
    }


def show(results: list[Row]) -> None:
    table = Table("kernel", "case", "value", "M records/s", "MB/s", title="Record kernel, one core")
    for row in results:
        rate = f"{float(row['records_per_second']) / 1e6:,.2f}"
        table.add_row(
            str(row["kernel"]), str(row["case"]), f"{row['value_bytes']} B", rate, f"{row['megabytes_per_second']:,}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
