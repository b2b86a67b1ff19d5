"""Every decision about a transactional id: who may do what, in which state, with which epoch."""

from __future__ import annotations

import pytest

from penstock.broker.transactions import decide
from penstock.broker.transactions import metadata as steps
from penstock.broker.transactions.decide import ProducerIdAndEpoch
from penstock.broker.transactions.metadata import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TV_0,
    TV_2,
    TransactionMetadata,
    new_metadata,
)
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition

PARTITIONS = frozenset((TopicPartition("a", 0), TopicPartition("b", 1)))
TIMEOUT_MS = 60_000


def begun(epoch: int = 5) -> TransactionMetadata:
    """An id whose producer has this epoch and no transaction."""
    return new_metadata("t", 7, TIMEOUT_MS, 0)._replace(producer_epoch=epoch)


def ongoing(epoch: int = 5) -> TransactionMetadata:
    return steps.add_partitions(begun(epoch), PARTITIONS, TV_0, 100)


def ended(is_commit: bool, version: int, epoch: int = 5) -> TransactionMetadata:
    return steps.complete(steps.prepare_end(ongoing(epoch), is_commit, version, -1, 200), 300)


def code_of(decision: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        decision()  # type: ignore[operator]
    return caught.value.code


def end(now: TransactionMetadata, epoch: int, is_commit: bool, version: int = TV_2, new_id: int | None = None):
    return decide.end(now, None, ProducerIdAndEpoch(7, epoch), is_commit, version, new_id, 400)


def init(now: TransactionMetadata, expected: tuple[int, int] | None = None, new_id: int | None = None):
    wanted = None if expected is None else ProducerIdAndEpoch(*expected)
    return decide.init_producer_id(now, None, TIMEOUT_MS, wanted, new_id, 400)


def test_a_new_id_begins_with_epoch_0():
    given = init(new_metadata("t", 7, TIMEOUT_MS, 0))
    assert (given.producer_id, given.producer_epoch, given.state) == (7, 0, EMPTY)


def test_whoever_begins_gets_the_next_epoch():
    for now in (begun(), ended(True, TV_0), ended(False, TV_0)):
        assert init(now).producer_epoch == now.producer_epoch + 1


def test_an_open_transaction_is_aborted_with_the_next_epoch_first():
    given = init(ongoing())
    assert (given.state, given.producer_epoch, given.partitions) == (PREPARE_ABORT, 6, PARTITIONS)
    assert init(steps.complete(given, 500)).producer_epoch == 7


@pytest.mark.parametrize("is_commit", [True, False])
def test_nobody_begins_while_a_transaction_ends(is_commit):
    prepared = steps.prepare_end(ongoing(), is_commit, TV_2, -1, 200)
    assert code_of(lambda: init(prepared)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_nothing_is_decided_while_a_record_is_on_its_way():
    me = ProducerIdAndEpoch(7, 5)
    decisions = [
        lambda: decide.init_producer_id(begun(), ONGOING, TIMEOUT_MS, None, None, 0),
        lambda: decide.add_partitions(begun(), EMPTY, me, PARTITIONS, TV_2, 0),
        lambda: decide.end(ongoing(), ONGOING, me, True, TV_0, None, 0),
        lambda: decide.end(ongoing(), ONGOING, me, True, TV_2, None, 0),
    ]
    assert {code_of(each) for each in decisions} == {ErrorCode.CONCURRENT_TRANSACTIONS}


def test_a_producer_goes_on_after_an_error_with_its_own_epoch():
    given = init(begun(), expected=(7, 5))
    assert (given.producer_epoch, given.last_producer_epoch) == (6, 5)
    again = init(given, expected=(7, 5))
    assert (again.producer_epoch, again.last_producer_epoch) == (6, 5), "the answer got lost; nothing is bumped twice"


@pytest.mark.parametrize("expected", [(7, 3), (7, 6), (8, 5)])
def test_a_producer_that_was_replaced_cannot_go_on(expected):
    assert code_of(lambda: init(begun(), expected)) is ErrorCode.PRODUCER_FENCED


def test_a_retry_is_fenced_once_someone_else_began():
    bumped = init(begun(), expected=(7, 5))
    assert code_of(lambda: init(init(bumped), expected=(7, 5))) is ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_epochs_are_used_up_gets_a_new_id():
    assert init(begun(LAST_CLIENT_EPOCH)) is None, "a new producer id is needed"
    given = init(begun(LAST_CLIENT_EPOCH), new_id=9)
    assert (given.producer_id, given.producer_epoch, given.previous_producer_id) == (9, 0, 7)
    mine = init(begun(LAST_CLIENT_EPOCH), expected=(7, LAST_CLIENT_EPOCH), new_id=9)
    again = init(mine, expected=(7, LAST_CLIENT_EPOCH))
    assert (again.producer_id, again.producer_epoch) == (9, 0)


def test_partitions_are_added_once():
    me = ProducerIdAndEpoch(7, 5)
    now = decide.add_partitions(begun(), None, me, PARTITIONS, TV_2, 100)
    assert (now.state, now.partitions, now.start_ms) == (ONGOING, PARTITIONS, 100)
    assert decide.add_partitions(now, None, me, PARTITIONS, TV_2, 200) is now
    more = decide.add_partitions(now, None, me, frozenset((TopicPartition("c", 0),)), TV_2, 200)
    assert (len(more.partitions), more.start_ms) == (3, 100)


def test_only_the_present_producer_may_add_and_end():
    for epoch in (4, 6):
        who = ProducerIdAndEpoch(7, epoch)
        assert code_of(lambda who=who: decide.add_partitions(begun(), None, who, PARTITIONS, TV_2, 0)) is (
            ErrorCode.PRODUCER_FENCED
        )
        for version in (TV_0, TV_2):
            assert code_of(lambda epoch=epoch, version=version: end(ongoing(), epoch, True, version)) is (
                ErrorCode.PRODUCER_FENCED
            )
    other = ProducerIdAndEpoch(8, 5)
    assert code_of(lambda: decide.add_partitions(begun(), None, other, PARTITIONS, TV_2, 0)) is (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )


def test_verification_says_which_partitions_are_in_the_transaction():
    found = decide.verify_partitions(ongoing(), ProducerIdAndEpoch(7, 5), [TopicPartition("a", 0), ("a", 1)])
    assert list(found.values()) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    prepared = steps.prepare_end(ongoing(), True, TV_0, -1, 200)
    assert code_of(lambda: decide.verify_partitions(prepared, ProducerIdAndEpoch(7, 5), [])) is (
        ErrorCode.CONCURRENT_TRANSACTIONS
    )


@pytest.mark.parametrize(("version", "epoch"), [(TV_0, 5), (TV_2, 6)])
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_is_prepared_and_completed(version, epoch, is_commit):
    prepared = end(ongoing(), 5, is_commit, version)
    assert prepared.state is (PREPARE_COMMIT if is_commit else PREPARE_ABORT)
    assert (prepared.producer_epoch, prepared.partitions) == (epoch, PARTITIONS)
    completed = steps.complete(prepared, 500)
    assert completed.state is (COMPLETE_COMMIT if is_commit else COMPLETE_ABORT)
    assert (completed.producer_epoch, completed.partitions) == (epoch, frozenset())


def test_version_1_takes_the_same_end_again_and_no_other():
    done = ended(True, TV_0)
    assert end(done, 5, True, TV_0) is done
    assert code_of(lambda: end(done, 5, False, TV_0)) is ErrorCode.INVALID_TXN_STATE
    assert code_of(lambda: end(begun(), 5, True, TV_0)) is ErrorCode.INVALID_TXN_STATE
    prepared = steps.prepare_end(ongoing(), True, TV_0, -1, 200)
    assert code_of(lambda: end(prepared, 5, True, TV_0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert code_of(lambda: end(prepared, 5, False, TV_0)) is ErrorCode.INVALID_TXN_STATE


def test_version_2_follows_the_table():
    fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
    aborted, committed = ended(False, TV_2), ended(True, TV_2)
    assert (aborted.producer_epoch, committed.producer_epoch) == (6, 6)
    retry, current = 5, 6
    assert code_of(lambda: end(begun(6), retry, False)) is fenced
    assert code_of(lambda: end(begun(6), retry, True)) is fenced
    assert end(begun(6), current, False).producer_epoch == 7
    assert code_of(lambda: end(begun(6), current, True)) is invalid
    assert end(aborted, retry, False) is aborted
    assert end(aborted, current, False).producer_epoch == 7
    assert code_of(lambda: end(aborted, retry, True)) is invalid
    assert code_of(lambda: end(aborted, current, True)) is invalid
    assert code_of(lambda: end(committed, retry, False)) is invalid
    assert end(committed, current, False).producer_epoch == 7
    assert end(committed, retry, True) is committed
    assert code_of(lambda: end(committed, current, True)) is invalid


def test_a_late_end_does_not_reach_the_next_transaction():
    """B17: the commit of a transaction that ended comes when the next one is open."""
    next_one = steps.add_partitions(ended(True, TV_2), PARTITIONS, TV_2, 400)
    assert code_of(lambda: end(next_one, 5, True)) is ErrorCode.PRODUCER_FENCED


def test_version_2_goes_on_with_a_new_id_when_the_epochs_are_used_up():
    now = ongoing(LAST_CLIENT_EPOCH)
    assert end(now, LAST_CLIENT_EPOCH, True) is None, "a new producer id is needed"
    prepared = end(now, LAST_CLIENT_EPOCH, True, new_id=9)
    assert (prepared.producer_id, prepared.producer_epoch) == (7, MAX_EPOCH), "the markers are of the old id"
    completed = steps.complete(prepared, 500)
    assert (completed.producer_id, completed.producer_epoch) == (9, 0)
    assert end(completed, LAST_CLIENT_EPOCH, True) is completed, "a retry"


def test_a_producer_at_its_last_epoch_can_be_fenced():
    fenced = steps.fence(ongoing(LAST_CLIENT_EPOCH), 200)
    assert fenced.producer_epoch == MAX_EPOCH
    now = steps.complete(fenced, 300)
    assert init(now) is None, "and then a new producer id is needed"
    assert init(now, expected=(7, LAST_CLIENT_EPOCH), new_id=9).producer_id == 9, "by the one that was fenced too"
    assert code_of(lambda: end(now, LAST_CLIENT_EPOCH, False)) is ErrorCode.PRODUCER_FENCED, "nobody is given the last"
