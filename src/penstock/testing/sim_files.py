"""Files in memory that lose what a power cut loses, fail where a test says, and count their calls.

What `crash` keeps and loses, a little worse than any one real file system, each choice made by the given chance:

- Bytes: everything up to the last `sync` of the file. Of the writes after it, some first ones; the next one may be
  torn at any byte, and what the tear lost is either not there or reads as zeros (the size reached the disk before the
  bytes did). Truncations count as writes. Synced bytes are never touched.
- Names: everything up to the last `sync_dir` of the directory. Of the changes after it, either the first ones, as a
  journal keeps them, or each for itself; a change is lost with any earlier one of the same name. A rename is one
  change: never both names, never neither. To sync a file does not sync its name.
- A process that dies without the machine (`kill`) loses only its open files: the page cache stays.

Every call counts, from 1. `fail_at` and `fail_when` make one fail before it does anything; a `sync` that fails also
drops the unsynced bytes from what later syncs make safe, as Linux does, while readers still see them. `shorten_at`
cuts a write short. With a `capacity` a write takes what fits, and one that nothing fits of fails with ENOSPC. Files
opened before a crash or a kill raise on every use. The same calls and the same seed give the same bytes.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from penstock.env.clock import Clock
from penstock.env.files import File
from penstock.types import Bytes


@dataclass(slots=True, eq=False)
class _Content:
    """A file without its name: what readers see, what the disk has, and the writes between the two."""

    data: bytearray = field(default_factory=bytearray)
    synced: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)  # None: truncated to the position
    mtime_ms: int = 0

    def change(self, position: int, data: bytes | None) -> None:
        _apply(self.data, position, data)
        self.unsynced.append((position, data))

    def sync(self) -> None:
        for position, data in self.unsynced:
            _apply(self.synced, position, data)
        self.unsynced.clear()

    def crash(self, chance: random.Random) -> None:
        kept = chance.randint(0, len(self.unsynced))
        for position, data in self.unsynced[:kept]:
            _apply(self.synced, position, data)
        if kept < len(self.unsynced) and chance.random() < 0.5:
            self._tear(*self.unsynced[kept], chance)
        self.unsynced.clear()
        self.data = bytearray(self.synced)

    def _tear(self, position: int, data: bytes | None, chance: random.Random) -> None:
        if not data:
            return
        whole = chance.randint(0, len(data))
        # Only the part beyond the old size can read as zeros: bytes that were there before stay as they were.
        grown = position + len(data) - max(len(self.synced), position + whole)
        _apply(self.synced, position, data[:whole])
        if grown > 0 and chance.random() < 0.25:
            self.synced.extend(bytes(grown))


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    """Write at a position, past the end if need be; or, without data, make the position the end."""
    if position > len(content):
        content.extend(bytes(position - len(content)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


@dataclass(slots=True, eq=False)
class _Directory:
    """Names as they are now, and as the disk has them."""

    names: dict[str, _Content | _Directory] = field(default_factory=dict)
    synced: dict[str, _Content | _Directory] = field(default_factory=dict)

    def contents(self) -> Iterator[_Content]:
        for node in self.names.values():
            if isinstance(node, _Content):
                yield node
            else:
                yield from node.contents()


_NameChange = list[tuple[_Directory, str, "_Content | _Directory | None"]]
"""Names that get a node, or None when they go; all of it happens or nothing of it."""


class SimFile:
    """One open file of `SimFiles`."""

    __slots__ = ("_content", "_files", "_life", "_writable", "path")

    def __init__(self, files: SimFiles, content: _Content, path: str, writable: bool) -> None:
        self._files = files
        self._content = content
        self._life = files.life
        self._writable = writable
        self.path = path

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self.path)

    def pread(self, size: int, position: int) -> bytes:
        self._enter("pread")
        with memoryview(self._content.data) as view:
            return bytes(view[position : position + size])

    def pwrite(self, data: Bytes, position: int) -> int:
        self._enter("pwrite")
        return self._write(bytes(data), position)

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> int:
        self._enter("pwritev")
        return self._write(b"".join(buffers), position)

    def size(self) -> int:
        self._enter("size")
        return len(self._content.data)

    def truncate(self, size: int) -> None:
        self._enter("truncate")
        self._check_writable()
        self._files.used_bytes += size - len(self._content.data)
        self._content.change(size, None)

    def sync(self) -> None:
        try:
            self._enter("sync")
        except OSError:
            self._content.unsynced.clear()
            raise
        self._content.sync()

    def close(self) -> None:
        self._life = -1

    def _enter(self, operation: str) -> None:
        if self._life != self._files.life:
            raise OSError(errno.EBADF, "the file is closed, or was opened before the crash", self.path)
        self._files.enter(operation, self.path)

    def _write(self, data: bytes, position: int) -> int:
        self._check_writable()
        files, content = self._files, self._content
        data = data[: files.room_for(len(data), position, len(content.data))]
        size = len(content.data)
        content.change(position, data)
        files.used_bytes += len(content.data) - size
        content.mtime_ms = files.now_ms()
        return len(data)

    def _check_writable(self) -> None:
        if not self._writable:
            raise OSError(errno.EBADF, "the file is open for reading only", self.path)


class SimFiles:
    """A file system in memory; paths are taken from its root, whether they start with a slash or not."""

    def __init__(self, *, clock: Clock | None = None, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.used_bytes = 0
        self.call_count = 0
        self.counts: Counter[str] = Counter()
        """Calls by operation, the name of the method: `counts["sync"]`, `counts["sync_dir"]`."""
        self.life = 0
        """Which life this is: one more after each crash or kill."""
        self._clock = clock
        self._root = _Directory()
        self._unsynced_names: list[_NameChange] = []
        self._errors_at: dict[int, OSError] = {}
        self._sizes_at: dict[int, int] = {}
        self._predicates: list[tuple[Callable[[str, str], bool], OSError]] = []

    # The protocol of env.files

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        self.enter("open", path)
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if node is None and create:
            node = _Content(mtime_ms=self.now_ms())
            self._change_names([(directory, name, node)])
        return SimFile(self, self._file_or_raise(node, path), path, writable)

    def exists(self, path: str) -> bool:
        self.enter("exists", path)
        return self._node(path) is not None

    def size(self, path: str) -> int:
        self.enter("size", path)
        return len(self._file_or_raise(self._node(path), path).data)

    def mtime_ms(self, path: str) -> int:
        self.enter("mtime_ms", path)
        return self._file_or_raise(self._node(path), path).mtime_ms

    def list(self, directory: str) -> list[str]:
        self.enter("list", directory)
        return sorted(self._directory_or_raise(directory).names)

    def is_dir(self, path: str) -> bool:
        self.enter("is_dir", path)
        return isinstance(self._node(path), _Directory)

    def make_dir(self, path: str) -> None:
        self.enter("make_dir", path)
        directory = self._root
        for name in _parts(path):
            node = directory.names.get(name)
            if node is None:
                node = _Directory()
                self._change_names([(directory, name, node)])
            if isinstance(node, _Content):
                raise NotADirectoryError(errno.ENOTDIR, "a file is in the way", path)
            directory = node

    def rename(self, old: str, new: str) -> None:
        self.enter("rename", old)
        old_directory, old_name = self._parent(old)
        new_directory, new_name = self._parent(new)
        node = old_directory.names.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        replaced = new_directory.names.get(new_name)
        if isinstance(replaced, _Directory) and replaced.names:
            raise OSError(errno.ENOTEMPTY, "the directory is not empty", new)
        if replaced is not node:
            self._free(replaced)
            self._change_names([(old_directory, old_name, None), (new_directory, new_name, node)])

    def unlink(self, path: str) -> None:
        self.enter("unlink", path)
        directory, name = self._parent(path)
        self._free(self._file_or_raise(directory.names.get(name), path))
        self._change_names([(directory, name, None)])

    def remove_tree(self, directory: str) -> None:
        self.enter("remove_tree", directory)
        self._remove_names(self._directory_or_raise(directory))
        parent, name = self._parent(directory)
        self._change_names([(parent, name, None)])

    def sync_dir(self, directory: str) -> None:
        self.enter("sync_dir", directory)
        node = self._directory_or_raise(directory)
        waiting = []
        for change in self._unsynced_names:
            if any(where is node for where, _, _ in change):
                _make_durable(change)
            else:
                waiting.append(change)
        self._unsynced_names = waiting

    # What a test does to it

    def fail_at(self, call_number: int, error: OSError) -> None:
        """Make the call of this number (the first is 1) fail, once."""
        self._errors_at[call_number] = error

    def fail_when(self, predicate: Callable[[str, str], bool], error: OSError) -> None:
        """Make each call fail for which predicate(operation, path) holds, until `heal`."""
        self._predicates.append((predicate, error))

    def shorten_at(self, call_number: int, size: int) -> None:
        """If the call of this number is a write, it takes at most `size` bytes."""
        self._sizes_at[call_number] = size

    def heal(self) -> None:
        """No more injected failures, and room without end."""
        self._errors_at.clear()
        self._sizes_at.clear()
        self._predicates.clear()
        self.capacity = None

    def flip_bit(self, path: str, bit: int) -> None:
        """Turn one bit of a file over, on the disk and for readers: bit 0 is the lowest of the first byte."""
        content = self._file_or_raise(self._node(path), path)
        for data in (content.data, content.synced):
            if bit // 8 < len(data):
                data[bit // 8] ^= 1 << bit % 8

    def synced_bytes(self, path: str) -> bytes | None:
        """What a crash now would surely leave under this name; None when the name itself could be lost."""
        directory = self._root
        *parents, name = _parts(path)
        for part in parents:
            node = directory.synced.get(part)
            if not isinstance(node, _Directory):
                return None
            directory = node
        content = directory.synced.get(name)
        return bytes(content.synced) if isinstance(content, _Content) else None

    def kill(self) -> None:
        """The process ends, the machine stays up: open files are gone, nothing else."""
        self.life += 1

    def crash(self, chance: random.Random) -> None:
        """The power goes: keep what was synced, and of the rest what chance leaves (see the module)."""
        self.life += 1
        self._crash_names(chance)
        self._root.names = _durable_names(self._root)
        self.used_bytes = 0
        for content in self._root.contents():
            content.crash(chance)
            self.used_bytes += len(content.data)

    # For SimFile

    def enter(self, operation: str, path: str) -> None:
        """Count a call, and fail it if a test said so."""
        self.call_count += 1
        self.counts[operation] += 1
        if self._errors_at and (error := self._errors_at.pop(self.call_count, None)) is not None:
            raise OSError(error.errno, error.strerror, path)
        for predicate, error in self._predicates:
            if predicate(operation, path):
                raise OSError(error.errno, error.strerror, path)

    def room_for(self, length: int, position: int, size: int) -> int:
        """How many bytes of a write are taken; ENOSPC when none is."""
        length = min(length, self._sizes_at.pop(self.call_count, length))
        if self.capacity is None or position + length <= size:
            return length
        taken = min(length, size + self.capacity - self.used_bytes - position)
        if taken <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken

    def now_ms(self) -> int:
        return self._clock.now_ms() if self._clock is not None else 0

    def _crash_names(self, chance: random.Random) -> None:
        in_order = chance.random() < 0.5
        kept = chance.randint(0, len(self._unsynced_names))
        lost: set[tuple[int, str]] = set()
        for number, change in enumerate(self._unsynced_names):
            names = {(id(directory), name) for directory, name, _ in change}
            survives = number < kept if in_order else chance.random() < 0.5
            if survives and lost.isdisjoint(names):
                _make_durable(change)
            else:
                lost |= names
        self._unsynced_names.clear()

    def _change_names(self, change: _NameChange) -> None:
        for directory, name, node in change:
            if node is None:
                directory.names.pop(name, None)
            else:
                directory.names[name] = node
        self._unsynced_names.append(change)

    def _remove_names(self, directory: _Directory) -> None:
        for name, node in sorted(directory.names.items()):
            if isinstance(node, _Directory):
                self._remove_names(node)
            self._free(node)
            self._change_names([(directory, name, None)])

    def _free(self, node: _Content | _Directory | None) -> None:
        if isinstance(node, _Content):
            self.used_bytes -= len(node.data)

    def _node(self, path: str) -> _Content | _Directory | None:
        node: _Content | _Directory | None = self._root
        for name in _parts(path):
            if not isinstance(node, _Directory):
                return None
            node = node.names.get(name)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        *parents, name = _parts(path)
        return self._directory_or_raise("/".join(parents)), name

    def _directory_or_raise(self, path: str) -> _Directory:
        node = self._node(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        if isinstance(node, _Content):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _file_or_raise(self, node: _Content | _Directory | None, path: str) -> _Content:
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "a directory", path)
        return node


def _make_durable(change: _NameChange) -> None:
    for directory, name, node in change:
        if node is None:
            directory.synced.pop(name, None)
        else:
            directory.synced[name] = node


def _durable_names(directory: _Directory) -> dict[str, _Content | _Directory]:
    """The names that the disk has, here and below, as what is there now."""
    for node in directory.synced.values():
        if isinstance(node, _Directory):
            node.names = _durable_names(node)
    return dict(directory.synced)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
