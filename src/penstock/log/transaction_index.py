"""A segment's aborted transactions, for readers of committed data. Kafka's `<base offset>.txnindex`.

Bytes: entries of 34, big endian, in the order of their markers:

    int16 version (0)   int64 producer id   int64 first offset   int64 last offset   int64 last stable offset

The last offset is that of the abort marker, which is in this segment; the first may be in an earlier one. The last
stable offset is where it stood after the marker: every transaction that is aborted by a later marker begins at or after
it, so a search for what is below some offset can stop at the first entry that says so.

Rules. There is no file until the first abort. Entries are read at once and kept while the segment's files are open:
aborts are rare. One that cannot be written waits in memory and is written with the next, or when the segment is closed.

After a crash: a segment that is scanned gets its index anew from the markers (replay.py); one that cannot be read, or
that names offsets outside its segment, counts as damaged and is made anew too.
"""

from __future__ import annotations

import logging
import struct
from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from penstock.env.files import Files
from penstock.log.atomic_file import read_or_none, write_all, write_atomically
from penstock.log.index_file import CorruptIndexError

TRANSACTION_INDEX_SUFFIX = ".txnindex"
VERSION = 0

_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size

_logger = logging.getLogger(__name__)


class AbortedTransaction(NamedTuple):
    """A producer's batches from the first offset to the marker at the last were aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions whose markers are in one segment."""

    __slots__ = ("_files", "_path", "_written", "entries")

    def __init__(self, files: Files, path: str, *, is_empty: bool = False) -> None:
        """With `is_empty` nothing is read: there is no file, or it does not count."""
        self._files = files
        self._path = path
        data = b"" if is_empty else read_or_none(files, path) or b""
        whole = len(data) - len(data) % ENTRY_SIZE
        self.entries = [AbortedTransaction(*rest) for version, *rest in _ENTRY.iter_unpack(data[:whole])]
        self._written = len(self.entries)

    def append(self, aborted: AbortedTransaction) -> None:
        """Add the newest. The marker is in the log already, so an index that cannot be written now does not matter."""
        self.entries.append(aborted)
        try:
            self.flush()
        except OSError as error:
            _logger.warning("%s could not be written: %s", self._path, error)

    def flush(self) -> None:
        """Write what is not in the file yet."""
        missing = self.entries[self._written :]
        if not missing:
            return
        file = self._files.open(self._path, create=True)
        try:
            write_all(file, _encode(missing), self._written * ENTRY_SIZE)
        finally:
            file.close()
        self._written = len(self.entries)

    def between(self, offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Those with batches in the range, and whether later segments cannot have more of them."""
        found = []
        for entry in self.entries[bisect_left(self.entries, offset, key=attrgetter("last_offset")) :]:
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Forget the markers at or above the offset."""
        kept = bisect_left(self.entries, offset, key=attrgetter("last_offset"))
        if kept < len(self.entries):
            del self.entries[kept:]
            if self._written > kept:
                file = self._files.open(self._path)
                file.truncate(kept * ENTRY_SIZE)
                file.close()
                self._written = kept

    def replace(self, entries: Iterable[AbortedTransaction]) -> None:
        """Become what the log's markers say; durable, and no file when there is nothing to say."""
        self.entries = list(entries)
        if self.entries:
            write_atomically(self._files, self._path, _encode(self.entries))
        elif self._files.exists(self._path):
            self._files.unlink(self._path)
        self._written = len(self.entries)


def check_sane(files: Files, path: str, base_offset: int, end_offset: int) -> None:
    """CorruptIndexError when the file cannot be the index of the segment with these offsets."""
    data = read_or_none(files, path) or b""
    if len(data) % ENTRY_SIZE:
        raise CorruptIndexError(f"{path}: the size is no multiple of {ENTRY_SIZE}")
    previous = base_offset - 1
    for version, _, first_offset, last_offset, last_stable_offset in _ENTRY.iter_unpack(data):
        is_inside = previous < last_offset < end_offset and 0 <= first_offset < last_offset
        if version != VERSION or not is_inside or not 0 <= last_stable_offset <= last_offset + 1:
            raise CorruptIndexError(f"{path}: the entry of the marker at {last_offset} cannot be true")
        previous = last_offset


def _encode(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join([_ENTRY.pack(VERSION, *entry) for entry in entries])
