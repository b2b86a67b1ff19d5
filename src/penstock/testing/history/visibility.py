"""What a `read_committed` reader may see: only what was committed, only after it was, whole, and without gaps.

Each check gives a sentence for each violation.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator

from penstock.testing.history.history import History
from penstock.testing.history.transaction import Read, Transaction


def aborted_reads(history: History) -> Iterator[str]:
    """A value whose writer failed, or which nobody wrote."""
    for read in history.reads:
        write = history.writes.get(read.value)
        if write is None:
            yield f"{_told(read)}, which nobody wrote."
        elif write.is_refused:
            yield f"{_told(read)}, which was refused when {write.transaction.process} sent it."
        elif write.transaction.is_aborted:
            yield f"{_told(read)}, which {write.transaction} of {write.transaction.process} wrote and aborted."


def precommitted_reads(history: History) -> Iterator[str]:
    """A value that was seen before its transaction asked to be committed, maybe by the transaction itself."""
    for read in history.reads:
        writer = _writer(history, read)
        if writer is None or writer.is_single:
            continue
        if read.transaction is writer:
            yield f"{_told(read)}, which it wrote itself in {writer}, not yet committed."
        elif writer.commit_asked_at is not None and read.at < writer.commit_asked_at:
            yield f"{_told(read)} before its writer, {writer}, asked to be committed."


def half_seen(history: History) -> Iterator[str]:
    """Some values of a transaction were read and others never, although readers read to the end."""
    for transaction in history.committed:
        writes = transaction.taken_writes
        unread = [write for write in writes if not write.reads]
        if unread and len(unread) < len(writes):
            seen = next(write for write in writes if write.reads)
            yield f"{transaction} is seen by half: {seen} was read, and {unread[0].value!r} never."


def contiguity(history: History) -> Iterator[str]:
    """A reader that began somewhere goes on from there: no offset twice or backwards, no committed one left out."""
    committed = {
        partition: [(write.offset or 0, write.value) for write in writes]
        for partition, writes in history.by_partition().items()
    }
    last: dict[tuple[str, str, int], Read] = {}
    for read in history.reads:
        before = last.get((read.process, read.partition, read.place))
        last[read.process, read.partition, read.place] = read
        if before is None:
            continue
        if read.offset <= before.offset:
            yield f"{_told(read)} after offset {before.offset}: it went back without being told to."
            continue
        writes = committed.get(read.partition, [])
        skipped = bisect.bisect_left(writes, (before.offset + 1, ""))
        if skipped < len(writes) and writes[skipped][0] < read.offset:
            offset, value = writes[skipped]
            yield f"{_told(read)} after offset {before.offset}, and skipped {value!r} at offset {offset}."


def intermediate_reads(history: History) -> Iterator[str]:
    """A transaction read some of what another one wrote to a partition, and not the last of it.

    Kafka allows it: a poll has a limit, and a partition no snapshot. It is told, not forbidden.
    """
    for transaction in history.committed:
        final: dict[str, Read] = {read.partition: read for read in transaction.reads}
        last_writes: dict[tuple[str, str], int] = defaultdict(int)
        for writer in {each for read in final.values() if (each := _writer(history, read)) is not None}:
            for write in writer.writes:
                if write.partition is not None and write.offset is not None:
                    key = writer.name, write.partition
                    last_writes[key] = max(write.offset, last_writes[key])
        for read in final.values():
            writer_of_it = _writer(history, read)
            if writer_of_it is not None and read.offset < last_writes[writer_of_it.name, read.partition]:
                yield f"{_told(read)} in {transaction}, and not what {writer_of_it} wrote to {read.partition} after it."


def _writer(history: History, read: Read) -> Transaction | None:
    write = history.writes.get(read.value)
    return None if write is None else write.transaction


def _told(read: Read) -> str:
    return f"{read.process} read {read.value!r} at offset {read.offset} of {read.partition}"
