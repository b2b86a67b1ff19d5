"""Warm pages before a timed run.

On a virtual machine the first touch of a page that the guest gave back to its host costs up to eight normal ones,
and it is booked on whoever writes. So the size to come is written to a file and deleted again just before: the
pages are then with the guest, and both brokers find them.
"""

from __future__ import annotations

from pathlib import Path

CHUNK_BYTES = 1 << 20


def warm_pages(directory: Path, size_bytes: int) -> None:
    """Write and delete a file of this size in the file system of `directory`."""
    path = directory / "scratch"
    chunk = bytes(CHUNK_BYTES)
    try:
        with path.open("wb", buffering=0) as file:
            for _ in range(-(-size_bytes // CHUNK_BYTES)):
                file.write(chunk)
    finally:
        path.unlink(missing_ok=True)
