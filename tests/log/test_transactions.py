"""Transactions in a log: what readers of committed data may see, markers, guards, files, and starts of all kinds."""

from __future__ import annotations

import errno
import struct

import pytest

from log.batches import NOW_MS, batch
from log.worlds import DIRECTORY, World
from penstock.errors import ErrorCode, KafkaError
from penstock.log.config import LogConfig
from penstock.log.log import AppendResult, Log
from penstock.log.transaction_index import AbortedTransaction
from penstock.log.verification import MAX_GUARDS, ONGOING
from penstock.wire.batch_builder import ControlType, EndTxnMarker
from penstock.wire.record import iterate_records
from penstock.wire.records import read_header

TRANSACTIONAL = 16
SMALL_SEGMENTS = LogConfig(segment_bytes=200, file_delete_delay_ms=0)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def log(world: World) -> Log:
    return world.open()


def send(
    log: Log, producer_id: int, sequence: int, epoch: int = 0, count: int = 1, timestamp: int = NOW_MS
) -> AppendResult:
    """What a producer in a transaction does, its partition being in the transaction."""
    guard = log.start_verification(producer_id, epoch, sequence, False)
    data = batch([b"t"] * count, producer=(producer_id, epoch, sequence), attributes=TRANSACTIONAL, timestamp=timestamp)
    result = log.append_as_leader(data, 0, guard=guard)
    log.advance_high_watermark(log.log_end_offset)
    return result


def end(log: Log, producer_id: int, control: ControlType, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    offset = log.append_marker(producer_id, epoch, EndTxnMarker(control, coordinator_epoch), 0)
    log.advance_high_watermark(log.log_end_offset)
    return offset


def abort(log: Log, producer_id: int, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    return end(log, producer_id, ControlType.ABORT, epoch, coordinator_epoch)


def commit(log: Log, producer_id: int, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    return end(log, producer_id, ControlType.COMMIT, epoch, coordinator_epoch)


def plain(log: Log) -> int:
    offset = log.append_as_leader(batch(), 0).base_offset
    log.advance_high_watermark(log.log_end_offset)
    return offset


def code_of(caught: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return caught.value.code


# The last stable offset.


def test_without_transactions_everything_committed_is_stable(log: Log) -> None:
    plain(log)
    assert (log.last_stable_offset, log.high_watermark) == (1, 1)


def test_an_open_transaction_holds_the_last_stable_offset_before_its_first_batch(log: Log) -> None:
    plain(log)
    send(log, 7, 0)
    plain(log)
    send(log, 7, 1)
    assert (log.last_stable_offset, log.high_watermark) == (1, 4)
    commit(log, 7)
    assert (log.last_stable_offset, log.high_watermark) == (5, 5)


def test_the_oldest_of_several_open_transactions_counts(log: Log) -> None:
    send(log, 1, 0)
    send(log, 2, 0)
    send(log, 3, 0)
    commit(log, 2)
    assert log.last_stable_offset == 0
    abort(log, 1)
    assert log.last_stable_offset == 2, "producer 3 is still in its transaction"
    commit(log, 3)
    assert log.last_stable_offset == log.high_watermark == 6


def test_what_a_marker_ended_is_stable_only_when_the_marker_is_below_the_high_watermark(log: Log) -> None:
    send(log, 1, 0)
    log.append_marker(1, 0, EndTxnMarker(ControlType.COMMIT, 0), 0)
    assert (log.last_stable_offset, log.high_watermark, log.log_end_offset) == (0, 1, 2)
    log.advance_high_watermark(1)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2


def test_the_last_stable_offset_is_never_below_the_start(log: Log) -> None:
    send(log, 1, 0, count=4)
    log.delete_records(3)
    assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (3, 3, 4)
    commit(log, 1)
    assert log.last_stable_offset == 5


def test_retention_that_takes_a_transactions_first_batch_leaves_the_transaction_open(world: World) -> None:
    log = world.open(SMALL_SEGMENTS)
    send(log, 1, 0, count=10)
    for _ in range(5):
        plain(log)
    log.delete_records(12)
    assert log.log_start_offset == 12
    assert log.last_stable_offset == 12
    assert log.start_verification(1, 0, 10, False) is ONGOING
    abort(log, 1)
    assert log.last_stable_offset == log.high_watermark
    assert log.aborted_transactions(12, 13) == [AbortedTransaction(1, 0, 15, 16)]


# Markers.


def test_a_marker_is_the_batch_that_kafka_writes(log: Log) -> None:
    offset = abort(log, 5, epoch=3, coordinator_epoch=9)
    found = log.read(offset, 1000, log.log_end_offset)
    assert found is not None
    data = found.file.pread(found.size, found.position)
    header = read_header(data)
    assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
    assert (header.producer_id, header.producer_epoch, header.size_bytes) == (5, 3, 78)
    (record,) = iterate_records(data)
    assert (record.key, record.value) == (struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 9))


def test_a_marker_of_a_replaced_coordinator_is_refused(log: Log) -> None:
    send(log, 1, 0)
    commit(log, 1, coordinator_epoch=5)
    send(log, 1, 1)
    with pytest.raises(KafkaError) as caught:
        abort(log, 1, coordinator_epoch=4)
    assert code_of(caught) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.last_stable_offset == 2


def test_a_marker_raises_the_producers_epoch_and_shuts_the_old_one_out(log: Log) -> None:
    send(log, 1, 0)
    abort(log, 1, epoch=1)
    with pytest.raises(KafkaError) as caught:
        send(log, 1, 1)
    assert code_of(caught) is ErrorCode.INVALID_PRODUCER_EPOCH
    with pytest.raises(KafkaError) as caught:
        send(log, 1, 5, epoch=1)
    assert code_of(caught) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "the new epoch begins at 0"
    assert send(log, 1, 0, epoch=1).base_offset == 2


def test_a_marker_of_an_old_epoch_is_refused(log: Log) -> None:
    send(log, 1, 0, epoch=2)
    with pytest.raises(KafkaError) as caught:
        commit(log, 1, epoch=1)
    assert code_of(caught) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_with_an_epoch_per_transaction_a_marker_must_be_of_a_larger_one(log: Log) -> None:
    send(log, 1, 0, epoch=4)
    late = EndTxnMarker(ControlType.COMMIT, 0)
    with pytest.raises(KafkaError) as caught:
        log.append_marker(1, 4, late, 0, transaction_version=2)
    assert code_of(caught) is ErrorCode.INVALID_PRODUCER_EPOCH
    log.append_marker(1, 5, late, 0, transaction_version=2)
    again = log.append_marker(1, 5, late, 0, transaction_version=2)
    assert again == 2, "the same marker once more ends nothing and does no harm"


def test_the_largest_epoch_can_be_ended_with_itself(log: Log) -> None:
    send(log, 1, 0, epoch=32767)
    log.append_marker(1, 32767, EndTxnMarker(ControlType.ABORT, 0), 0, transaction_version=2)
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 2


def test_a_marker_without_a_transaction_is_written_and_changes_nothing_for_readers(log: Log) -> None:
    assert abort(log, 1) == 0
    assert log.last_stable_offset == 1
    assert log.aborted_transactions(0, 1) == []


# Who may write.


def test_a_late_batch_cannot_begin_a_transaction_that_was_aborted_meanwhile(log: Log) -> None:
    guard = log.start_verification(1, 0, 0, False)
    abort(log, 1)  # the coordinator said yes, and then the transaction ended
    late = batch(producer=(1, 0, 0), attributes=TRANSACTIONAL)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(late, 0, guard=guard)
    assert code_of(caught) is ErrorCode.INVALID_TXN_STATE
    log.start_verification(1, 0, 0, False)  # a new question, whose answer is not there yet
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(late, 0, guard=guard)
    assert code_of(caught) is ErrorCode.INVALID_TXN_STATE, "the old answer is not for the new question"
    assert log.last_stable_offset == log.log_end_offset


def test_a_late_batch_of_a_known_transaction_is_refused_when_it_was_ended(log: Log) -> None:
    send(log, 1, 0)
    assert log.start_verification(1, 0, 1, False) is ONGOING
    abort(log, 1)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(producer=(1, 0, 1), attributes=TRANSACTIONAL), 0, guard=ONGOING)
    assert code_of(caught) is ErrorCode.INVALID_TXN_STATE


def test_a_transactional_batch_without_a_guard_is_refused_even_in_an_open_transaction(log: Log) -> None:
    send(log, 1, 0)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(producer=(1, 0, 1), attributes=TRANSACTIONAL), 0)
    assert code_of(caught) is ErrorCode.INVALID_TXN_STATE


def test_a_plain_batch_of_a_producer_in_a_transaction_is_refused(log: Log) -> None:
    send(log, 1, 0)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(producer=(1, 0, 1)), 0)
    assert code_of(caught) is ErrorCode.INVALID_TXN_STATE
    assert log.append_as_leader(batch(producer=(2, 0, 0)), 0).base_offset == 1, "others are free"


def test_a_batch_sent_twice_in_a_transaction_is_there_once(log: Log) -> None:
    send(log, 1, 0, count=3)
    again = send(log, 1, 0, count=3)
    assert (again.is_duplicate, again.base_offset, again.last_offset) == (True, 0, 2)
    commit(log, 1)
    assert send(log, 1, 0, count=3).is_duplicate, "also after its end, as long as the epoch is the same"
    assert log.last_stable_offset == 4


def test_a_batch_must_not_overtake_one_that_is_still_being_verified(log: Log) -> None:
    first = log.start_verification(1, 0, 0, False)
    second = log.start_verification(1, 0, 5, False)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(producer=(1, 0, 5), attributes=TRANSACTIONAL), 0, guard=second)
    assert code_of(caught) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.append_as_leader(batch([b"v"] * 5, producer=(1, 0, 0), attributes=TRANSACTIONAL), 0, guard=first)
    log.append_as_leader(batch(producer=(1, 0, 5), attributes=TRANSACTIONAL), 0, guard=second)
    assert log.log_end_offset == 6


def test_with_an_epoch_per_transaction_an_unknown_producer_begins_at_0(log: Log) -> None:
    guard = log.start_verification(1, 0, 3, True)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(producer=(1, 0, 3), attributes=TRANSACTIONAL), 0, guard=guard)
    assert code_of(caught) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_guards_that_nobody_used_go_after_two_rounds_and_are_bounded(log: Log) -> None:
    for producer_id in range(MAX_GUARDS + 5):
        log.start_verification(producer_id, 0, 0, False)
    assert len(log.producers.verifications) == MAX_GUARDS
    log.expire_producers(NOW_MS)
    assert len(log.producers.verifications) == MAX_GUARDS
    log.expire_producers(NOW_MS)
    assert len(log.producers.verifications) == 0


def test_what_the_broker_writes_in_a_transaction_needs_no_sequence(log: Log) -> None:
    for _ in range(3):
        guard = log.start_verification(1, 0, 0, False)
        data = batch(producer=(1, 0, 0), attributes=TRANSACTIONAL)
        assert not log.append_as_leader(data, 0, is_own=True, guard=guard).is_duplicate
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 0


def test_a_producer_with_an_open_transaction_does_not_expire(log: Log) -> None:
    send(log, 1, 0)
    log.expire_producers(NOW_MS)
    assert log.expire_producers(NOW_MS + 10 * log.config.producer_id_expiration_ms) == 0
    abort(log, 1)
    assert log.expire_producers(NOW_MS + 10 * log.config.producer_id_expiration_ms) == 1


# The transaction index.


def test_there_is_no_index_file_before_the_first_abort(world: World, log: Log) -> None:
    send(log, 1, 0)
    commit(log, 1)
    assert not world.files.exists(f"{DIRECTORY}/{0:020d}.txnindex")
    send(log, 1, 1)
    abort(log, 1)
    file = world.files.open(f"{DIRECTORY}/{0:020d}.txnindex")
    assert file.pread(1000, 0) == struct.pack(">hqqqq", 0, 1, 2, 3, 4)


def test_the_index_says_where_the_last_stable_offset_stood(log: Log) -> None:
    send(log, 1, 0)
    send(log, 2, 0)
    abort(log, 2)
    abort(log, 1)
    assert log.aborted_transactions(0, 4) == [AbortedTransaction(2, 1, 2, 0), AbortedTransaction(1, 0, 3, 4)]


def test_only_aborted_transactions_that_overlap_are_listed(log: Log) -> None:
    for number in range(4):
        send(log, 1, number)
        abort(log, 1)
    assert [each.first_offset for each in log.aborted_transactions(0, 8)] == [0, 2, 4, 6]
    assert [each.first_offset for each in log.aborted_transactions(3, 5)] == [2, 4]
    assert [each.first_offset for each in log.aborted_transactions(4, 5)] == [4]
    assert log.aborted_transactions(8, 9) == []


def test_an_abort_is_found_from_a_segment_before_its_marker(world: World) -> None:
    log = world.open(SMALL_SEGMENTS)
    send(log, 1, 0, count=10)
    for _ in range(6):
        plain(log)
    marker = abort(log, 1)
    assert len(log.segments) > 2
    expected = [AbortedTransaction(1, 0, marker, marker + 1)]
    assert log.aborted_transactions(0, 5) == log.aborted_transactions(12, 13) == expected
    names = [name for name in world.files.list(DIRECTORY) if name.endswith(".txnindex")]
    assert names == [f"{log.segments.active.base_offset:020d}.txnindex"]


def test_the_index_goes_with_its_segment(world: World) -> None:
    log = world.open(SMALL_SEGMENTS)
    send(log, 1, 0)
    abort(log, 1)
    for _ in range(8):
        plain(log)
    log.delete_records(8)
    assert [name for name in world.files.list(DIRECTORY) if name.endswith(".txnindex")] == []
    assert log.aborted_transactions(8, 9) == []


def test_a_cut_takes_the_abort_back(world: World, log: Log) -> None:
    send(log, 1, 0)
    abort(log, 1)
    send(log, 1, 1)
    marker = abort(log, 1)
    log.truncate_to(marker)
    assert log.aborted_transactions(0, 10) == [AbortedTransaction(1, 0, 1, 2)]
    assert world.files.size(f"{DIRECTORY}/{0:020d}.txnindex") == 34
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 2, "the transaction is open again"
    log.truncate_fully_and_start_at(10)
    assert log.last_stable_offset == 10
    assert log.start_verification(1, 0, 0, False) is not ONGOING


# Starts.


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("config", [LogConfig(), SMALL_SEGMENTS], ids=["one segment", "many segments"])
def test_everything_is_as_before_after_a_start(world: World, stop: str, config: LogConfig) -> None:
    log = world.open(config, is_clean=False)
    send(log, 1, 0)
    abort(log, 1, coordinator_epoch=3)
    send(log, 2, 0, count=2)
    commit(log, 2)
    send(log, 3, 0)
    plain(log)
    abort(log, 2, epoch=1)
    send(log, 3, 1)
    before = seen(log)
    if stop == "clean":
        log.close()
    else:
        world.files.kill()
    again = world.open(config, is_clean=stop == "clean", high_watermark=log.high_watermark)
    assert seen(again) == before
    assert again.start_verification(3, 0, 2, False) is ONGOING
    with pytest.raises(KafkaError) as caught:
        abort(again, 1, coordinator_epoch=2)
    assert code_of(caught) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    abort(again, 3)
    assert again.last_stable_offset == again.high_watermark


def seen(log: Log) -> tuple[object, ...]:
    producers = sorted(
        (each.producer_id, each.epoch, each.coordinator_epoch, each.current_txn_first_offset)
        for each in log.producers.entries
    )
    return log.last_stable_offset, log.aborted_transactions(0, log.log_end_offset), producers


@pytest.mark.parametrize("damage", [b"", b"\0" * 33, b"\xff" * 34, struct.pack(">hqqqq", 0, 1, 0, 99, 100)])
def test_an_index_that_cannot_be_true_is_made_anew(world: World, damage: bytes) -> None:
    log = world.open()
    send(log, 1, 0)
    abort(log, 1)
    before = seen(log)
    log.close()
    file = world.files.open(f"{DIRECTORY}/{0:020d}.txnindex")
    file.truncate(0)
    file.pwrite(damage, 0)
    again = world.open(is_clean=bool(damage), high_watermark=2)
    assert seen(again) == before
    assert world.files.size(f"{DIRECTORY}/{0:020d}.txnindex") == 34


def test_an_index_of_a_segment_whose_marker_was_lost_is_removed(world: World, log: Log) -> None:
    send(log, 1, 0)
    log.flush()
    abort(log, 1)
    world.files.kill()
    file = world.files.open(f"{DIRECTORY}/{0:020d}.log")
    file.truncate(file.size() - 5)
    again = world.open(is_clean=False, high_watermark=2)
    assert again.log_end_offset == 1
    assert not world.files.exists(f"{DIRECTORY}/{0:020d}.txnindex")
    assert again.last_stable_offset == 0


def test_a_follower_learns_transactions_from_what_the_leader_sends(world: World, log: Log) -> None:
    send(log, 1, 0)
    send(log, 2, 0)
    abort(log, 1, epoch=1, coordinator_epoch=4)
    found = log.read(0, 1 << 20, log.log_end_offset)
    assert found is not None
    data = found.file.pread(found.size, found.position)
    follower = World().open()
    follower.append_as_follower(data)
    follower.advance_high_watermark(3)
    assert seen(follower) == seen(log)


def test_a_full_disk_for_the_index_does_not_lose_the_abort(world: World, log: Log) -> None:
    send(log, 1, 0)
    world.files.fail_when(lambda _, path: path.endswith(".txnindex"), OSError(errno.ENOSPC, "full"))
    abort(log, 1)
    assert log.aborted_transactions(0, 2) == [AbortedTransaction(1, 0, 1, 2)]
    world.files.heal()
    log.roll()
    assert world.files.size(f"{DIRECTORY}/{0:020d}.txnindex") == 34
