"""Offsets of open transactions: what counts, when, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from in_process import connected, create_topic, partition, run, running, until
from penstock.broker.broker import Broker
from penstock.broker.groups.coordinator import OFFSETS_TOPIC
from penstock.broker.groups.pending_offsets import PendingOffsets
from penstock.broker.groups.records import (
    CommittedOffset,
    OffsetRecord,
    TransactionalOffset,
    TransactionEnd,
    decode_logged,
    offset_key,
    offset_value,
)
from penstock.broker.internal_topic import HomeState, partition_for
from penstock.errors import KafkaError, MalformedError
from penstock.wire.api.find_coordinator import FindCoordinatorRequest
from penstock.wire.key_values import build_key_values
from penstock.wire.records import BatchHeader, read_header

ONE, TWO = 1, 2
FIND = 10


def record(offset: int | None, partition: int = 0, group: str = "g") -> OffsetRecord:
    return OffsetRecord(group, "t", partition, None if offset is None else CommittedOffset(offset, -1, "", 0))


def offsets(records: list[OffsetRecord]) -> list[int]:
    return [each.value.offset for each in records if each.value is not None]


def test_a_commit_gives_them_and_an_abort_drops_them():
    for committed, expected in ((True, [5, 6]), (False, [])):
        pending = PendingOffsets()
        pending.add(ONE, record(5))
        pending.add(ONE, record(6, partition=1))
        assert pending.is_unstable("g", "t", 0)
        assert offsets(pending.end(ONE, committed)) == expected
        assert not pending
        assert not pending.has_group("g")
        assert not pending.is_unstable("g", "t", 0)


def test_the_last_of_one_transaction_counts():
    pending = PendingOffsets()
    pending.add(ONE, record(5))
    pending.add(ONE, record(7))
    assert offsets(pending.end(ONE, True)) == [7]


def test_an_end_without_offsets_does_nothing():
    assert PendingOffsets().end(ONE, True) == []


def test_each_producer_decides_its_own():
    pending = PendingOffsets()
    pending.add(ONE, record(5))
    pending.add(TWO, record(6, partition=1))
    assert offsets(pending.end(ONE, True)) == [5]
    assert not pending.is_unstable("g", "t", 0)
    assert pending.is_unstable("g", "t", 1)


def test_what_was_written_later_is_not_undone_by_what_is_decided_later():
    pending = PendingOffsets()
    pending.add(ONE, record(5))
    pending.add(TWO, record(6))
    assert offsets(pending.end(TWO, True)) == [6]
    assert pending.is_unstable("g", "t", 0)
    assert pending.end(ONE, True) == []
    pending.add(ONE, record(5))
    pending.add(TWO, record(6))
    pending.end(TWO, False)
    assert offsets(pending.end(ONE, True)) == [5], "what was aborted is in nobody's way"
    pending.add(ONE, record(5))
    pending.add(TWO, record(6))
    assert offsets(pending.end(ONE, True)) == [5]
    assert offsets(pending.end(TWO, True)) == [6]


def test_a_plain_commit_comes_after_what_was_pending():
    pending = PendingOffsets()
    pending.add(ONE, record(5))
    pending.on_plain(record(9))
    assert pending.is_unstable("g", "t", 0), "the transaction is still open"
    pending.add(ONE, record(6, partition=1))
    assert offsets(pending.end(ONE, True)) == [6]


def test_a_tombstone_forgets_what_is_pending():
    pending = PendingOffsets()
    pending.add(ONE, record(5))
    pending.add(TWO, record(6))
    pending.on_plain(record(None))
    assert not pending
    assert pending.end(ONE, True) == []


def test_what_forgets_a_group_and_a_topic():
    pending = PendingOffsets()
    pending.add(ONE, record(5))
    pending.add(TWO, record(6, group="h"))
    assert pending.tombstones("g") == [record(None)]
    assert pending.topic_tombstones("t", bytes(16)) == [record(None), record(None, group="h")]
    assert pending.topic_tombstones("u", bytes(16)) == []


def header(attributes: int) -> BatchHeader:
    batch = build_key_values([(b"k", b"v")], 0, 7, 0)
    return read_header(batch, 0)._replace(attributes=attributes)


def test_a_record_is_read_as_its_batch_says():
    committed = CommittedOffset(5, -1, "", 0)
    key, value = offset_key("g", "t", 0), offset_value(committed)
    plain = OffsetRecord("g", "t", 0, committed)
    assert list(decode_logged(key, value, header(0))) == [plain]
    assert list(decode_logged(key, value, header(0x10))) == [TransactionalOffset(7, plain)]
    assert list(decode_logged(b"\0\0\0\1", b"", header(0x30))) == [TransactionEnd(7, True)]
    assert list(decode_logged(b"\0\0\0\0", b"", header(0x30))) == [TransactionEnd(7, False)]
    assert list(decode_logged(b"\0\0\0\5", b"", header(0x30))) == [], "of a kind that is not ours"
    with pytest.raises(MalformedError):
        decode_logged(b"\0", b"", header(0x30))


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_and_markers_are_loaded_in_their_order(tmp_path: Path, committed: bool) -> None:
    """A marker that comes while the log is read counts too."""

    async def write() -> None:
        async with running(tmp_path) as broker, connected(broker) as client:
            await create_topic(broker, "t")
            await client.call(FIND, 1, FindCoordinatorRequest("g"))
            home = offsets_home(broker)
            for producer_id, offset in ((ONE, 5), (TWO, 6)):
                value = CommittedOffset(offset, -1, "", 0)
                batch = build_key_values([(offset_key("g", "t", producer_id), offset_value(value))], 0, producer_id, 0)
                guard = home.start_verification(producer_id, 0, -1, False, is_own=True)
                home.append(memoryview(batch), -1, is_own=True, guard=guard)
            home.append_marker(ONE, 0, 0, committed)

    async def read() -> None:
        async with running(tmp_path) as broker:
            groups = broker.context.groups
            index = partition_for("g", 50)
            assert groups._homes[index].state is HomeState.LOADING
            groups.on_marker(index, TWO, committed)
            await until(lambda: is_loaded(broker))
            shard = groups.shard("g")
            found = [shard.offsets("g").get("t", each) for each in (ONE, TWO)]
            assert [each.offset if each else None for each in found] == ([5, 6] if committed else [None, None])
            assert not shard.pending

    run(write())
    run(read())


def is_loaded(broker: Broker) -> bool:
    try:
        broker.context.groups.shard("g")
    except KafkaError:
        return False
    return True


def offsets_home(broker: Broker):
    return partition(broker, OFFSETS_TOPIC, partition_for("g", 50))
