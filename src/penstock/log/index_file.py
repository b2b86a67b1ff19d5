"""The file under an index: entries of one fixed size, one after the other, nothing before, between or behind them.

Kafka gives an active index its full size (10 MB of zeros) and maps it; ours is at all times exactly as long as the
entries written to it, which is what Kafka itself leaves behind when it closes a segment. The descriptor is opened at
the first use and let go by `close`; the next use opens it again, so an index that nobody reads costs no descriptor.

After a crash the file may end anywhere or hold anything: `check_sane` of the index above it finds that out, and the
segment rebuilds both indexes from the log. Nothing here is needed to keep a record.
"""

from __future__ import annotations

from penstock.env.files import File, Files
from penstock.log.atomic_file import write_all
from penstock.types import Bytes


class CorruptIndexError(Exception):
    """An index that cannot be right, with the reason; the segment rebuilds it from its log."""


class IndexFile:
    """Fixed-size entries on disk, by number."""

    __slots__ = ("_file", "_files", "count", "entry_size", "odd_bytes", "path")

    def __init__(self, files: Files, path: str, entry_size: int) -> None:
        self._files = files
        self._file: File | None = None
        self.path = path
        self.entry_size = entry_size
        size = files.size(path) if files.exists(path) else 0
        self.count, self.odd_bytes = divmod(size, entry_size)

    def read(self, first: int, count: int) -> bytes:
        """The bytes of entries first .. first + count - 1."""
        if self._file is None:
            self._file = self._files.open(self.path)
        data = self._file.pread(count * self.entry_size, first * self.entry_size)
        if len(data) != count * self.entry_size:
            raise CorruptIndexError(f"{self.path}: the file became shorter than its {self.count} entries")
        return data

    def append(self, data: Bytes) -> None:
        """Write whole entries behind the last; when it raises, `count` is as before and the next append overwrites."""
        write_all(self._opened_or_made(), data, self.count * self.entry_size)
        self.count += len(data) // self.entry_size

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries and no stray byte behind them."""
        self._opened_or_made().truncate(count * self.entry_size)
        self.count = count
        self.odd_bytes = 0

    def sync(self) -> None:
        self._opened_or_made().sync()

    def rename(self, path: str) -> None:
        """Move the file, if it was ever written; the caller syncs the directory."""
        if self._files.exists(self.path):
            self._files.rename(self.path, path)
        self.close()
        self.path = path

    def delete(self) -> None:
        """Unlink the file, if it was ever written; the caller syncs the directory."""
        self.close()
        if self._files.exists(self.path):
            self._files.unlink(self.path)
        self.count = 0
        self.odd_bytes = 0

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _opened_or_made(self) -> File:
        if self._file is None:
            self._file = self._files.open(self.path, create=True)
        return self._file
