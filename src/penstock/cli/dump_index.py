"""The entries of `.index`, `.timeindex` and `.txnindex` files for `penstock log dump`, and whether they fit the log.

Kafka gives an active index its full size and leaves the rest zero; the entries end where the zeros begin. The formats
are those of `log.offset_index` and `log.time_index`; entries are read here without those classes, which would open the
files for writing. A transaction index has entries of 34 bytes: int16 version, then producer id, first and last offset
and last stable offset as int64.

The check is Kafka's: an offset entry names a place where a batch with that last offset starts; a time entry names a
batch with that largest timestamp, and no batch before it is newer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.cli.dump_entry import Entry, Problem, date
from penstock.cli.dump_segment import read_batches
from penstock.log import offset_index, time_index

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TXN_ENTRY = struct.Struct(">hqqqq")


class _BatchFacts(NamedTuple):
    position: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    newest_before: int
    """The largest timestamp of all batches before this one."""


def dump_offset_index(path: str, base_offset: int, *, check: bool) -> Iterator[Entry | Problem]:
    entries, odd = _entries(path, _OFFSET_ENTRY, offset_index.ENTRY_SIZE)
    yield from odd
    batches = {batch.position: batch for batch in _batches(path)} if check else {}
    previous = (-1, -1)
    for relative, position in entries:
        offset = base_offset + relative
        yield Entry("offset", {"offset": offset, "position": position}, f"offset {offset}  position {position}")
        if relative <= previous[0] or position <= previous[1]:
            yield Problem(f"the entry for offset {offset} is not larger than the one before it.")
        previous = (relative, position)
        batch = batches.get(position)
        if check and batch is None:
            yield Problem(f"offset {offset}: no batch starts at position {position}.")
        elif batch is not None and batch.last_offset != offset:
            yield Problem(f"offset {offset}: the batch at position {position} ends at offset {batch.last_offset}.")


def dump_time_index(path: str, base_offset: int, *, check: bool) -> Iterator[Entry | Problem]:
    entries, odd = _entries(path, _TIME_ENTRY, time_index.ENTRY_SIZE)
    yield from odd
    batches = _batches(path) if check else iter(())
    previous = -1
    for timestamp, relative in entries:
        offset = base_offset + relative
        text = f"timestamp {timestamp}  {date(timestamp)}  offset {offset}"
        yield Entry("timestamp", {"timestamp": timestamp, "offset": offset}, text)
        if timestamp <= previous:
            yield Problem(f"timestamp {timestamp} is not larger than the one before it.")
        previous = timestamp
        if check:
            yield from _time_problems(timestamp, offset, next((b for b in batches if b.last_offset >= offset), None))


def _time_problems(timestamp: int, offset: int, batch: _BatchFacts | None) -> Iterator[Problem]:
    if batch is None or offset < batch.base_offset:
        yield Problem(f"timestamp {timestamp}: the log has no offset {offset}.")
    elif batch.max_timestamp != timestamp:
        yield Problem(f"timestamp {timestamp}: the batch with offset {offset} is of {batch.max_timestamp}.")
    elif batch.newest_before > timestamp:
        yield Problem(f"timestamp {timestamp}: a batch before offset {offset} is newer, of {batch.newest_before}.")


def dump_txn_index(path: str) -> Iterator[Entry | Problem]:
    entries, odd = _entries(path, _TXN_ENTRY, _TXN_ENTRY.size)
    yield from odd
    for version, producer_id, first, last, stable in entries:
        fields = {"producer_id": producer_id, "first_offset": first, "last_offset": last, "last_stable_offset": stable}
        text = f"aborted: producer {producer_id}  offsets {first} to {last}  last stable offset {stable}"
        yield Entry("aborted_transaction", {"version": version, **fields}, text)


def _entries(path: str, layout: struct.Struct, size: int) -> tuple[list[tuple[int, ...]], list[Problem]]:
    """The entries up to the first that is all zeros, other than the very first; and what does not fill an entry."""
    assert layout.size == size, "an entry is what the index of the log says it is"
    data = Path(path).read_bytes()
    odd = len(data) % size
    problems = [Problem(f"{odd} bytes at the end are no entry; it should have a multiple of {size}.")] if odd else []
    entries: list[tuple[int, ...]] = []
    for entry in layout.iter_unpack(data[: len(data) - odd]):
        if not any(entry) and (entries or len(data) > size):
            break
        entries.append(entry)
    return entries, problems


def _batches(index_path: str) -> Iterator[_BatchFacts]:
    """The batches of the log beside the index; none when it is not there."""
    path = Path(index_path).with_suffix(".log")
    newest = -1
    for batch in read_batches(str(path)) if path.exists() else ():
        if isinstance(batch, Problem):
            return
        header = batch.header
        yield _BatchFacts(batch.position, header.base_offset, header.last_offset, header.max_timestamp, newest)
        newest = max(newest, header.max_timestamp)
