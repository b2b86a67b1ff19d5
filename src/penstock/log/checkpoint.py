"""Kafka's text checkpoints: recovery points, log start offsets, high watermarks, leader epochs.

The file itself is Kafka's, byte for byte, so Kafka and its tools can read it:

    0                        version
    2                        number of entries
    orders 0 1803            topic partition offset        (leader-epoch-checkpoint: `epoch start_offset`)
    orders 1 77

Kafka's file has no checksum and one generation. Ours has both, in files beside it:

    <name>.crc               the CRC-32C of the file, and of the one before it, in hexadecimal, one per line
    <name>.old               the file before it

A file counts when its CRC is one of the two and every line can be read. If the newest does not count, the one before
it is taken, then nothing: the caller scans the log. A wrong checkpoint costs time and never a record. Where there is
no `.crc`, Kafka wrote the directory, and a file that can be read counts. A file of ours that Kafka rewrote has a CRC
that is not known here, so the one before it is taken: an older recovery point, a longer scan.

Write: both new files are synced under temporary names, then three renames (crc, old, new), then one sync of the
directory. The new `.crc` knows the old file too, so a crash between any two of them leaves a pair that counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from penstock.env.files import Files
from penstock.log.atomic_file import TEMPORARY_SUFFIX, read_or_none, write_temporary
from penstock.types import TopicPartition
from penstock.wire.crc32c import crc32c

VERSION = 0
CRC_SUFFIX = ".crc"
OLD_SUFFIX = ".old"

T = TypeVar("T")


class Checkpoint:
    """The lines of one checkpoint file, with its checksum and its older generation."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path

    def write(self, entries: Collection[str]) -> None:
        """Replace the file; what it held becomes the older generation. When it returns, a crash does not undo it."""
        data = "".join(f"{line}\n" for line in (VERSION, len(entries), *entries)).encode()
        before = read_or_none(self._files, self.path)
        sums = [data] if before is None else [data, before]
        write_temporary(self._files, self.path, data)
        write_temporary(self._files, self.path + CRC_SUFFIX, "".join(f"{crc32c(each):08x}\n" for each in sums).encode())
        self._files.rename(self.path + CRC_SUFFIX + TEMPORARY_SUFFIX, self.path + CRC_SUFFIX)
        if before is not None:
            self._files.rename(self.path, self.path + OLD_SUFFIX)
        self._files.rename(self.path + TEMPORARY_SUFFIX, self.path)
        self._files.sync_dir(os.path.dirname(self.path))

    def read(self, parse: Callable[[list[str]], T], *, newest_only: bool = False) -> T | None:
        """What `parse` (ValueError for a line it cannot read) makes of the newest generation that counts; else None."""
        known = self._known_sums()
        for path in (self.path,) if newest_only else (self.path, self.path + OLD_SUFFIX):
            data = read_or_none(self._files, path)
            if data is None or (known is not None and crc32c(data) not in known):
                continue
            try:
                return parse(_entries(data))
            except ValueError:
                continue
        return None

    def _known_sums(self) -> set[int] | None:
        """The checksums of both generations; None when no `.crc` is there, empty when it cannot be read."""
        data = read_or_none(self._files, self.path + CRC_SUFFIX)
        if data is None:
            return None
        try:
            return {int(line, 16) for line in data.decode("ascii").split()}
        except ValueError:
            return set()


def _entries(data: bytes) -> list[str]:
    """The entry lines of a checkpoint's text; ValueError when it is not one."""
    lines = data.decode("utf-8").splitlines()
    if not lines:
        return []  # Kafka makes some of its checkpoints empty and fills them later
    if len(lines) < 2 or int(lines[0]) != VERSION or int(lines[1]) != len(lines) - 2:
        raise ValueError("not a checkpoint of version 0, or lines are missing")
    return lines[2:]


class OffsetCheckpoint:
    """One offset for each partition of a log directory."""

    __slots__ = ("_checkpoint",)

    def __init__(self, files: Files, path: str) -> None:
        self._checkpoint = Checkpoint(files, path)

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._checkpoint.write([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])

    def read(self) -> dict[TopicPartition, int] | None:
        """The newest offsets that can be trusted; None when there are none, and then every log is scanned."""
        return self._checkpoint.read(_parse_offsets)


def _parse_offsets(lines: Iterable[str]) -> dict[TopicPartition, int]:
    offsets = {}
    for line in lines:
        topic, partition, offset = line.split(" ")
        offsets[TopicPartition(topic, _count(partition))] = _count(offset)
    return offsets


class EpochCheckpoint:
    """A log's leader epochs. Only the newest generation is read: an older one lacks an epoch, and looks right."""

    __slots__ = ("_checkpoint",)

    def __init__(self, files: Files, path: str) -> None:
        self._checkpoint = Checkpoint(files, path)

    def write(self, entries: Iterable[tuple[int, int]]) -> None:
        self._checkpoint.write([f"{epoch} {start_offset}" for epoch, start_offset in entries])

    def read(self) -> list[tuple[int, int]] | None:
        """(epoch, start offset) in order; None when the file cannot be trusted, and then the log is scanned."""
        return self._checkpoint.read(_parse_epochs, newest_only=True)


def _parse_epochs(lines: Iterable[str]) -> list[tuple[int, int]]:
    entries: list[tuple[int, int]] = []
    for line in lines:
        epoch, start_offset = map(_count, line.split(" "))
        if entries and not (entries[-1][0] < epoch and entries[-1][1] <= start_offset):
            raise ValueError("leader epochs go back")
        entries.append((epoch, start_offset))
    return entries


def _count(text: str) -> int:
    """A number as Kafka prints it: digits only, and never below zero in a checkpoint."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a number")
    return int(text)
