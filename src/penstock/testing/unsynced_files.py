"""Files of the operating system that nobody forces to disk: for data that is thrown away when the test ends.

A sync costs a test milliseconds each and buys it nothing: the page cache survives everything but the machine. Reads,
writes and renames are the system's own. What a crash would keep is a matter for `sim_files`.
"""

from __future__ import annotations

import os

from penstock.env.files import File, SystemFile, SystemFiles


class UnsyncedFile(SystemFile):
    """A file whose `sync` does nothing."""

    __slots__ = ()

    def sync(self) -> None:
        pass


class UnsyncedFiles(SystemFiles):
    """The operating system's files without its syncs."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        flags = (os.O_RDWR if writable else os.O_RDONLY) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        return UnsyncedFile(os.open(path, flags, 0o644), path)

    def sync_dir(self, directory: str) -> None:
        pass
