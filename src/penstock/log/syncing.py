"""What a thread may sync for a log while the log goes on: files and names, by path, touching none of the log's state.

`fdatasync` writes what any descriptor of the file wrote, so a closed segment's files are opened anew here: the log may
release or delete them meanwhile, and a file that is gone needs no sync.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from penstock.env.files import Files


class Syncable(Protocol):
    def sync(self) -> None:
        """Blocks until it survives a crash; an OSError means that the log must be fenced."""
        ...


class PathSync(NamedTuple):
    """Files of a closed segment."""

    files: Files
    paths: Sequence[str]

    def sync(self) -> None:
        for path in self.paths:
            try:
                file = self.files.open(path)
            except FileNotFoundError:
                continue
            file.sync()
            file.close()


class DirectorySync(NamedTuple):
    """The names of new segments."""

    files: Files
    directory: str

    def sync(self) -> None:
        self.files.sync_dir(self.directory)
