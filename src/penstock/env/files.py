"""Files, passed in, so that a test can lose unsynced bytes, tear a write, or fail the N-th call.

What a crash keeps: bytes of a file after `File.sync`, names in a directory after `Files.sync_dir`. Nothing else.
A real file closes its descriptor when the last reference goes, so a slice that waits in a connection's queue keeps the
bytes of a deleted segment readable; the log never closes a file that it handed out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Protocol

from penstock.types import Bytes


class File(Protocol):
    """One open file; positions are explicit, there is no cursor."""

    path: str

    def fileno(self) -> int:
        """The descriptor, for `os.sendfile` and `preadv`; OSError where there is none (a simulated file)."""
        ...

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def pwrite(self, data: Bytes, position: int) -> int:
        """One write; the count written may be short."""
        ...

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> int:
        """One gathered write; the count written may be short."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """fdatasync: the bytes written so far survive a crash."""
        ...

    def close(self) -> None: ...


class Files(Protocol):
    """A file system. Paths are strings; every failure is an OSError."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File: ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def mtime_ms(self, path: str) -> int: ...

    def list(self, directory: str) -> list[str]:
        """Names in a directory, sorted."""
        ...

    def is_dir(self, path: str) -> bool: ...

    def make_dir(self, path: str) -> None:
        """Make it and its parents; nothing happens where it is there."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing `new`."""
        ...

    def unlink(self, path: str) -> None: ...

    def remove_tree(self, directory: str) -> None: ...

    def sync_dir(self, directory: str) -> None:
        """The directory's names, as they are now, survive a crash."""
        ...


class SystemFile:
    """A file of the operating system."""

    __slots__ = ("_fd", "path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path

    def fileno(self) -> int:
        return self._fd

    def pread(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) in (0, size):
            return data
        pieces = [data]
        position += len(data)
        size -= len(data)
        while size and (data := os.pread(self._fd, size, position)):
            pieces.append(data)
            position += len(data)
            size -= len(data)
        return b"".join(pieces)

    def pwrite(self, data: Bytes, position: int) -> int:
        return os.pwrite(self._fd, data, position)

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> int:
        return os.pwritev(self._fd, buffers, position)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class SystemFiles:
    """The operating system's files."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        return SystemFile(os.open(path, flags, 0o644), path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def mtime_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, directory: str) -> None:
        shutil.rmtree(directory)

    def sync_dir(self, directory: str) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
