"""Small files that are either the old ones or the new ones after a crash, and writes that are whole or an error.

The order is the one that every journalled file system honours: the bytes go to `<path>.tmp` and are synced, the name is
moved over the old one, the directory is synced. A `.tmp` that a crash left behind is garbage: whoever opens the
directory deletes it, and the next write of the same file overwrites it.
"""

from __future__ import annotations

import errno
import os

from penstock.env.files import File, Files
from penstock.types import Bytes

TEMPORARY_SUFFIX = ".tmp"


def write_atomically(files: Files, path: str, data: Bytes) -> None:
    """Replace the file by `data`; after a crash it holds what it held before or all of `data`, never a part."""
    write_temporary(files, path, data)
    files.rename(path + TEMPORARY_SUFFIX, path)
    files.sync_dir(os.path.dirname(path))


def replace(files: Files, path: str, data: Bytes) -> None:
    """Replace the file, and sync nothing: a crash may leave it cut or absent. For bytes that carry a checksum."""
    write_temporary(files, path, data, sync=False)
    files.rename(path + TEMPORARY_SUFFIX, path)


def write_temporary(files: Files, path: str, data: Bytes, *, sync: bool = True) -> None:
    """Write and sync `<path>.tmp`, for a caller that renames several files before one sync of the directory."""
    file = files.open(path + TEMPORARY_SUFFIX, create=True)
    try:
        file.truncate(0)  # what a crash left there may be longer
        write_all(file, data, 0)
        if sync:
            file.sync()
    finally:
        file.close()


def write_all(file: File, data: Bytes, position: int) -> None:
    """Write until nothing is left: one `pwrite` may take only a part, as a nearly full disk does."""
    rest = memoryview(data)
    while rest:
        written = file.pwrite(rest, position)
        if written <= 0:
            raise OSError(errno.EIO, "the file took no bytes", file.path)
        position += written
        rest = rest[written:]


def read_or_none(files: Files, path: str) -> bytes | None:
    """The whole of a small file; None when it is not there."""
    try:
        file = files.open(path, writable=False)
    except FileNotFoundError:
        return None
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()
