"""Idempotent producers: Kafka's rules for sequences and epochs, and Kafka's snapshot bytes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import ErrorCode, KafkaError
from penstock.log.producer_state import (
    MAX_SEQUENCE,
    ProducerStateEntry,
    ProducerStateManager,
    decode_snapshot,
    encode_snapshot,
    last_sequence,
)
from penstock.testing.sim_files import SimFiles

PRODUCER = 7

# 00000000000000001803.snapshot of a partition that Apache Kafka 4.3.0 served to two idempotent producers and a
# transactional one whose second transaction is open.
KAFKA_SNAPSHOT = bytes.fromhex(
    "000198e6d91500000003"
    "0000000000000000000000000383000000000000 0383000000070000018bcfe58b1fffffffffffffffffffffffff"
    "0000000000000001000000000383000000000000 0707000000070000018bcff4cd5fffffffffffffffffffffffff"
    "0000000000000002000000000001000000000000 070a000000000000018bd0132ec100000000000000000000070a"
)  # fmt: skip


def new_manager() -> ProducerStateManager:
    files = SimFiles()
    files.make_dir("/d")
    files.sync_dir("/")
    return ProducerStateManager(files, "/d")


class Log:
    """Appends like the log does: check, then write, then update."""

    def __init__(self, manager: ProducerStateManager | None = None) -> None:
        self.manager = manager or new_manager()
        self.end_offset = 0

    def append(self, base_sequence: int, count: int = 1, *, epoch: int = 0, producer: int = PRODUCER) -> int:
        """The batch's base offset: a new one, or a duplicate's."""
        duplicate = self.manager.check(producer, epoch, base_sequence, count)
        if duplicate is not None:
            return duplicate[0]
        base_offset = self.end_offset
        self.end_offset += count
        self.manager.update(producer, epoch, base_sequence, base_offset, self.end_offset - 1, 1000 + base_offset)
        return base_offset

    def refused(self, base_sequence: int, count: int = 1, *, epoch: int = 0) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            self.append(base_sequence, count, epoch=epoch)
        return caught.value.code


def test_batches_in_sequence_are_accepted():
    log = Log()
    assert [log.append(0, 3), log.append(3, 2), log.append(5)] == [0, 3, 5]


def test_an_unknown_producer_may_start_at_any_sequence():
    log = Log()
    assert log.append(4711) == 0
    assert log.append(4712) == 1


@pytest.mark.parametrize("sequence", [2, 3, 4, 6, 100, MAX_SEQUENCE])
def test_a_gap_or_a_step_back_is_out_of_order(sequence):
    log = Log()
    log.append(0, 5)
    assert log.refused(sequence) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(5) == 5


def test_each_of_the_last_five_batches_is_known_as_a_duplicate_and_no_older_one():
    log = Log()
    for number in range(7):
        log.append(number * 2, 2)
    assert [log.append(number * 2, 2) for number in range(2, 7)] == [4, 6, 8, 10, 12]
    assert log.manager.check(PRODUCER, 0, 12, 2) == (12, 13, 1012)
    assert log.refused(2, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 14


def test_a_batch_that_only_starts_like_a_known_one_is_no_duplicate():
    log = Log()
    log.append(0, 5)
    log.append(5, 5)
    assert log.refused(5, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.refused(0, 10) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_refused():
    log = Log()
    log.append(0, epoch=3)
    assert log.refused(1, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.refused(0, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_starts_at_zero_and_forgets_the_old_batches():
    log = Log()
    log.append(0, 5)
    assert log.refused(5, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(0, 5, epoch=1) == 5
    assert log.append(0, 5, epoch=1) == 5
    assert log.append(5, epoch=1) == 10


def test_zero_follows_the_largest_sequence():
    log = Log()
    log.append(MAX_SEQUENCE - 1, 2)
    assert log.append(0) == 2
    log = Log()
    log.append(MAX_SEQUENCE, 3)
    assert log.manager.entry(PRODUCER).last_sequence == 1
    assert log.append(2) == 3
    assert log.append(MAX_SEQUENCE, 3) == 0
    assert last_sequence(MAX_SEQUENCE, 1) == MAX_SEQUENCE


def test_a_check_changes_nothing():
    log = Log()
    log.append(0)
    for _ in range(3):
        assert log.manager.check(PRODUCER, 0, 1, 1) is None
        assert log.manager.check(PRODUCER, 1, 0, 1) is None
        assert log.manager.check(99, 0, 0, 1) is None
    assert log.manager.entry(99) is None
    assert log.manager.entry(PRODUCER).epoch == 0


def test_a_producer_known_by_a_marker_only_starts_its_epoch_at_zero():
    manager = new_manager()
    manager._producers[PRODUCER] = ProducerStateEntry(PRODUCER, 4)
    log = Log(manager)
    assert log.refused(1, epoch=4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(0, epoch=4) == 0


def test_kafkas_snapshot_is_read_and_written_byte_for_byte():
    entries = decode_snapshot(KAFKA_SNAPSHOT)
    assert entries is not None
    assert encode_snapshot(entries) == KAFKA_SNAPSHOT
    first, second, third = entries
    assert first.batches == [(892, 899, 892, 899, 1700000008991)]
    assert second.batches == [(892, 899, 1792, 1799, 1700001008991)]
    assert (third.producer_id, third.epoch, third.coordinator_epoch, third.current_txn_first_offset) == (2, 0, 0, 1802)


def test_a_producer_without_batches_survives_in_a_snapshot():
    entry = ProducerStateEntry(5, 2)
    entry.coordinator_epoch = 9
    (again,) = decode_snapshot(encode_snapshot([entry]))
    assert (again.producer_id, again.epoch, again.coordinator_epoch) == (5, 2, 9)
    assert again.batches == []
    assert again.last_sequence == -1


@settings(deadline=None)
@given(
    base=st.integers(0, MAX_SEQUENCE),
    count=st.integers(1, 1000),
    offset=st.integers(0, 2**60),
    epoch=st.integers(0, 2**15 - 1),
    timestamp=st.integers(-1, 2**60),
)
def test_the_last_batch_survives_in_a_snapshot(base, count, offset, epoch, timestamp):
    manager = new_manager()
    manager.update(PRODUCER, epoch, base, offset, offset + count - 1, timestamp)
    (entry,) = decode_snapshot(encode_snapshot(manager.entries))
    assert entry.batches == manager.entry(PRODUCER).batches
    assert entry.last_sequence == last_sequence(base, count)


def test_after_a_restart_the_last_batch_is_a_duplicate_and_earlier_ones_are_out_of_order():
    log = Log()
    log.append(0, 3)
    log.append(3, 3)
    log.manager.take_snapshot(6)
    again = ProducerStateManager(log.manager._files, "/d")
    assert again.load(6) == 6
    log.manager = again
    assert log.append(3, 3) == 3
    assert log.refused(0, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(6) == 6


def test_the_newest_readable_snapshot_at_or_below_the_offset_is_taken():
    log = Log()
    for offset in range(0, 40, 10):
        log.manager.take_snapshot(offset)
        log.append(offset, 10)
    manager, files = log.manager, log.manager._files
    assert manager.load(35) == 30
    assert manager.entry(PRODUCER).last_sequence == 29
    assert manager.load(29) == 20
    assert manager.entry(PRODUCER).last_sequence == 19
    files.flip_bit("/d/00000000000000000020.snapshot", 100)
    assert manager.load(29) == 10
    assert manager.load(9) == 0
    assert manager.entry(PRODUCER) is None
    files.unlink("/d/00000000000000000000.snapshot")
    assert manager.load(9) is None


def test_snapshots_are_deleted_before_after_and_when_no_segment_starts_there():
    manager = new_manager()
    for offset in (50, 10, 20, 30, 40):
        manager.take_snapshot(offset)
    assert manager.snapshot_offsets == [10, 20, 30, 40, 50]
    manager.delete_snapshots_before(20)
    manager.delete_snapshots_after(40)
    assert manager.snapshot_offsets == [20, 30, 40]
    manager.delete_stray_snapshots({30})
    assert manager.snapshot_offsets == [30, 40]
    assert manager._files.list("/d") == ["00000000000000000030.snapshot", "00000000000000000040.snapshot"]


def test_files_that_are_no_snapshots_are_left_alone():
    manager = new_manager()
    for name in ("x.snapshot", "00000000000000000010.snapshot.deleted", "00000000000000000010.log"):
        manager._files.open(f"/d/{name}", create=True)
    assert manager.load(100) is None
    assert manager.snapshot_offsets == []


def test_a_snapshot_survives_a_crash_as_soon_as_it_was_taken():
    for seed in range(50):
        log = Log()
        log.append(0, 5)
        log.manager.take_snapshot(5)
        log.manager._files.crash(random.Random(seed))
        again = ProducerStateManager(log.manager._files, "/d")
        assert again.load(5) == 5
        assert again.entry(PRODUCER).last_sequence == 4


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_snapshot_counts_as_absent(data):
    damaged = bytearray(KAFKA_SNAPSHOT)
    if data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del damaged[data.draw(st.integers(0, len(damaged) - 1)) :]
    assert decode_snapshot(bytes(damaged)) is None


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_no_bytes_crash_the_reader(data):
    decode_snapshot(data)


def test_an_idle_producer_expires_and_may_start_anywhere_again():
    log = Log()
    log.append(0)
    assert log.manager.expire(2000, 10_000) == 0
    assert log.manager.expire(11_999, 10_000) == 0
    assert log.manager.expire(12_000, 10_000) == 1
    assert log.append(55) == 1


def test_a_producer_that_writes_old_timestamps_does_not_expire_while_it_writes():
    log = Log()
    for hour in range(5):
        log.append(hour)
        assert log.manager.expire(10**12 + hour * 3600_000, 3600_000) == 0
    assert log.manager.expire(10**12 + 5 * 3600_000, 3600_000) == 1


def test_a_producer_with_an_open_transaction_does_not_expire():
    log = Log()
    log.append(0)
    log.manager.entry(PRODUCER).current_txn_first_offset = 0
    assert log.manager.expire(10**12, 1) == 0
    assert log.manager.expire(10**13, 1) == 0


class ExpectedProducer:
    """Kafka's rules once more, in the plainest way."""

    def __init__(self) -> None:
        self.epoch = -1
        self.batches: list[tuple[int, int, int]] = []

    def append(self, epoch: int, base: int, count: int, offset: int) -> int | ErrorCode:
        last = (base + count - 1) % 2**31
        if epoch == self.epoch:
            for known_base, known_last, known_offset in self.batches[-5:]:
                if (known_base, known_last) == (base, last):
                    return known_offset
            if base != (self.batches[-1][1] + 1) % 2**31:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        elif epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        elif self.epoch >= 0 and base != 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            self.epoch, self.batches = epoch, []
        self.batches.append((base, last, offset))
        return offset


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.one_of(st.integers(0, 12), st.integers(MAX_SEQUENCE - 3, MAX_SEQUENCE)),
            st.integers(1, 3),
        ),
        max_size=30,
    )
)
def test_every_history_is_answered_like_the_plain_rules_say(attempts):
    log, expected = Log(), ExpectedProducer()
    for epoch, base, count in attempts:
        want = expected.append(epoch, base, count, log.end_offset)
        if isinstance(want, ErrorCode):
            assert log.refused(base, count, epoch=epoch) is want
        else:
            assert log.append(base, count, epoch=epoch) == want
