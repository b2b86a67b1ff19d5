"""The requests of transactional producers, good and bad, frame by frame: the same codes from Penstock and Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from brokers import Broker
from members import Member
from raw import Code, Connection
from transactional import TRANSACTION, Transactional, committed_offset

UNKNOWN = "no-such-topic"


@pytest.fixture
def transactional(broker: Broker) -> Iterator[Callable[..., Transactional]]:
    """Makes producers, each on a connection of its own."""
    with ExitStack() as stack:

        def make(transactional_id: str | None = None) -> Transactional:
            return stack.enter_context(Transactional(broker.bootstrap, transactional_id))

        yield make


@pytest.fixture
def producer(transactional: Callable[..., Transactional]) -> Transactional:
    """One with its first epoch."""
    made = transactional()
    assert made.settled(made.init) == 0
    return made


def test_a_coordinator_is_found_for_any_id(connection: Connection, producer: Transactional) -> None:
    for version in (1, 3):
        found = connection.call("FindCoordinator", version, key_type=TRANSACTION, key=producer.id)
        assert (found.error_code, found.node_id) == (0, 1)


def test_transaction_version_2_is_offered(connection: Connection) -> None:
    answer = connection.call("ApiVersions", 4, client_software_name="tests", client_software_version="1")
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    supported = {each.name: each.max_version for each in answer.supported_features}
    assert (finalized["transaction.version"], supported["transaction.version"]) == (2, 2)


# InitProducerId


def test_each_one_who_begins_gets_the_next_epoch(transactional: Callable[..., Transactional]) -> None:
    one = transactional()
    assert one.settled(one.init) == 0
    assert one.epoch == 0
    two = transactional(one.id)
    for version in range(6):
        assert two.init(version) == 0
        assert (two.producer_id, two.epoch) == (one.producer_id, version + 1)


def test_what_is_wrong_with_a_beginning(producer: Transactional) -> None:
    assert producer.init(transactional_id="") == Code.invalid_request
    assert producer.init(transaction_timeout_ms=0) == Code.invalid_transaction_timeout
    assert producer.init(transaction_timeout_ms=-1) == Code.invalid_transaction_timeout
    assert producer.init(transaction_timeout_ms=900_001) == Code.invalid_transaction_timeout
    assert producer.init(transaction_timeout_ms=900_000) == 0
    assert producer.recover(producer_id=-1) == Code.invalid_request
    assert producer.recover(epoch=-1) == Code.invalid_request


def test_a_producer_goes_on_after_an_error(producer: Transactional) -> None:
    producer_id, epoch = producer.producer_id, producer.epoch
    assert producer.recover() == 0
    assert (producer.producer_id, producer.epoch) == (producer_id, epoch + 1)
    assert producer.recover(epoch=epoch) == 0
    assert producer.epoch == epoch + 1, "the answer got lost: a retry is no second bump"
    for version, code in ((3, Code.invalid_producer_epoch), (4, Code.producer_fenced), (5, Code.producer_fenced)):
        assert producer.recover(version, epoch=epoch + 7) == code
        assert producer.recover(version, producer_id=producer_id + 1_000_000) == code


def test_a_retry_is_fenced_once_another_began(
    producer: Transactional, transactional: Callable[..., Transactional]
) -> None:
    first = producer.epoch
    assert producer.recover() == 0
    assert transactional(producer.id).init() == 0
    assert producer.recover(epoch=first) == Code.producer_fenced
    assert producer.recover() == Code.producer_fenced


@pytest.mark.parametrize("adds_like_a_broker", [False, True], ids=["version 1", "version 2"])
def test_an_open_transaction_is_aborted_before_another_begins(
    producer: Transactional, transactional: Callable[..., Transactional], topic: str, adds_like_a_broker: bool
) -> None:
    if adds_like_a_broker:
        assert producer.add_many({topic: [0]}) == {(topic, 0): 0}
    else:
        assert producer.add(topic) == 0
    other = transactional(producer.id)
    assert other.init() == Code.concurrent_transactions
    assert other.settled(other.init) == 0
    assert (other.producer_id, other.epoch) == (producer.producer_id, producer.epoch + 2)
    assert producer.end(True, 1) == Code.invalid_producer_epoch
    assert producer.end(True, 3) == Code.producer_fenced
    assert producer.end(True, 5) == Code.producer_fenced
    assert producer.add(topic) == Code.producer_fenced


# AddPartitionsToTxn, AddOffsetsToTxn


def test_partitions_are_added(producer: Transactional, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    for version in range(4):
        assert producer.add(topic, 2, version) == 0
    assert producer.add(topic, 0) == 0
    described = producer.described()
    assert (described.transaction_state, described.producer_epoch) == ("Ongoing", producer.epoch)
    assert [(each.topic, sorted(each.partitions)) for each in described.topics] == [(topic, [0, 2])]
    assert described.transaction_timeout_ms == 60_000
    assert described.transaction_start_time_ms > 0


def test_one_unknown_partition_spoils_the_request(producer: Transactional, topic: str) -> None:
    asked = [{"name": topic, "partitions": [0, 7]}, {"name": UNKNOWN, "partitions": [0]}]
    answer = producer.call(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id=producer.id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=asked,
    )
    codes = {
        (each.name, part.partition_index): part.partition_error_code
        for each in answer.results_by_topic_v3_and_below
        for part in each.results_by_partition
    }
    assert codes == {
        (topic, 0): Code.operation_not_attempted,
        (topic, 7): Code.unknown_topic_or_partition,
        (UNKNOWN, 0): Code.unknown_topic_or_partition,
    }
    assert producer.state() == "Empty"


def test_only_the_present_producer_may_add(producer: Transactional, topic: str) -> None:
    wrong_epoch = {"v3_and_below_producer_epoch": producer.epoch + 1}
    wrong_id = {"v3_and_below_producer_id": producer.producer_id + 1_000_000}
    for version in range(4):
        fenced = Code.invalid_producer_epoch if version < 2 else Code.producer_fenced
        assert producer.add(topic, 0, version, **wrong_epoch) == fenced
        assert producer.add(topic, 0, version, **wrong_id) == Code.invalid_producer_id_mapping
        assert producer.add(topic, 0, version, v3_and_below_transactional_id="") == Code.invalid_request
        unknown = {"v3_and_below_transactional_id": producer.id + "-unknown"}
        assert producer.add(topic, 0, version, **unknown) == Code.invalid_producer_id_mapping


def test_brokers_add_and_verify(producer: Transactional, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    not_there = {(topic, 0): Code.transaction_abortable}
    for version in (4, 5):
        assert producer.add_many({topic: [0]}, version, verify_only=True) == not_there
    assert producer.add_many({topic: [0]}, 4) == {(topic, 0): 0}
    for version in (4, 5):
        codes = producer.add_many({topic: [0, 1]}, version, verify_only=True)
        assert codes == {(topic, 0): 0, (topic, 1): Code.transaction_abortable}
        wrong = producer.add_many({topic: [0]}, version, verify_only=True, producer_epoch=producer.epoch + 1)
        assert wrong == {(topic, 0): Code.producer_fenced}
        wrong = producer.add_many({topic: [0]}, version, verify_only=True, producer_id=producer.producer_id + 1)
        assert wrong == {(topic, 0): Code.invalid_producer_id_mapping}
        unknown = producer.add_many({topic: [0]}, version, verify_only=True, transactional_id=producer.id + "-unknown")
        assert unknown == {(topic, 0): Code.invalid_producer_id_mapping}
        empty = producer.add_many({topic: [0]}, version, transactional_id="")
        assert empty == {(topic, 0): Code.invalid_request}


def test_offsets_are_added(producer: Transactional, group: str) -> None:
    for version in range(5):
        assert producer.add_offsets(group, version) == 0
        fenced = Code.invalid_producer_epoch if version < 2 else Code.producer_fenced
        assert producer.add_offsets(group, version, producer_epoch=producer.epoch + 1) == fenced
        wrong = producer.add_offsets(group, version, producer_id=producer.producer_id + 1_000_000)
        assert wrong == Code.invalid_producer_id_mapping
        assert producer.add_offsets(group, version, transactional_id="") == Code.invalid_request
    (only,) = producer.described().topics
    assert only.topic == "__consumer_offsets"
    assert len(only.partitions) == 1


# EndTxn


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("version", range(5))
def test_version_1_ends_a_transaction(producer: Transactional, topic: str, version: int, committed: bool) -> None:
    assert producer.end(committed, version) == Code.invalid_txn_state, "there is none"
    assert producer.add(topic) == 0
    fenced = Code.invalid_producer_epoch if version < 2 else Code.producer_fenced
    assert producer.end(committed, version, producer_epoch=producer.epoch + 1) == fenced
    wrong = producer.end(committed, version, producer_id=producer.producer_id + 1_000_000)
    assert wrong == Code.invalid_producer_id_mapping
    assert producer.end(committed, version, transactional_id="") == Code.invalid_request
    unknown = producer.end(committed, version, transactional_id=producer.id + "-unknown")
    assert unknown == Code.invalid_producer_id_mapping
    assert producer.end(committed, version) == 0
    assert producer.settled(lambda: producer.end(committed, version)) == 0, "once more is the same"
    assert producer.settled(lambda: producer.end(not committed, version)) == Code.invalid_txn_state
    described = producer.described()
    assert (described.transaction_state, described.producer_epoch, list(described.topics)) == (
        "CompleteCommit" if committed else "CompleteAbort",
        producer.epoch,
        [],
    )


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_version_2_ends_a_transaction_with_the_next_epoch(producer: Transactional, topic: str, committed: bool) -> None:
    assert producer.add_many({topic: [0]}) == {(topic, 0): 0}
    before = producer.epoch
    assert producer.end(committed, 5, producer_epoch=before + 1) == Code.producer_fenced
    assert producer.end(committed, 5) == 0
    assert producer.epoch == before + 1
    again = {"producer_epoch": before}
    assert producer.settled(lambda: producer.end(committed, 5, **again)) == 0, "a retry"
    assert producer.settled(lambda: producer.end(not committed, 5, **again)) == Code.invalid_txn_state
    assert producer.end(True, 5) == Code.invalid_txn_state, "there is none to commit"
    assert producer.end(False, 5) == 0, "an abort of nothing is another epoch"
    assert producer.epoch == before + 2
    producer.wait_for_state("CompleteAbort")
    assert producer.described().producer_epoch == before + 2


def test_version_2_aborts_where_nothing_was_begun(producer: Transactional) -> None:
    assert producer.end(True, 5) == Code.invalid_txn_state
    assert producer.end(False, 5) == 0
    assert producer.epoch == 1


def test_a_late_end_does_not_reach_the_next_transaction(producer: Transactional, topic: str) -> None:
    """B17, which version 1 does not know how to prevent."""
    late = {"producer_epoch": producer.epoch}
    assert producer.add_many({topic: [0]}) == {(topic, 0): 0}
    assert producer.end(True, 5) == 0
    assert producer.settled(lambda: producer.add_many({topic: [0]})[topic, 0]) == 0
    assert producer.end(True, 5, **late) == Code.producer_fenced
    assert producer.state() == "Ongoing"


# TxnOffsetCommit


def test_offsets_count_when_the_transaction_is_committed(producer: Transactional, group: str, topic: str) -> None:
    for version in range(5):
        assert producer.settled(lambda: producer.add_offsets(group)) == 0
        offset = 10 + version
        assert producer.commit_offsets(group, topic, offset, version) == 0
        assert committed_offset(producer, group, topic, require_stable=True) == (Code.unstable_offset_commit, -1)
        assert committed_offset(producer, group, topic)[1] == (offset - 1 if version else -1)
        assert producer.end(True) == 0
        producer.wait_for_state("CompleteCommit")
        assert committed_offset(producer, group, topic, require_stable=True) == (0, offset)


def test_offsets_are_gone_when_the_transaction_is_aborted(producer: Transactional, group: str, topic: str) -> None:
    assert producer.add_offsets(group) == 0
    assert producer.commit_offsets(group, topic, 10) == 0
    assert producer.end(False) == 0
    producer.wait_for_state("CompleteAbort")
    assert committed_offset(producer, group, topic, require_stable=True) == (0, -1)


def test_version_2_adds_the_offsets_by_itself(producer: Transactional, group: str, topic: str) -> None:
    assert producer.commit_offsets(group, topic, 10, 5) == 0
    assert [each.topic for each in producer.described().topics] == ["__consumer_offsets"]
    assert producer.end(True, 5) == 0
    producer.wait_for_state("CompleteCommit")
    assert committed_offset(producer, group, topic, require_stable=True) == (0, 10)


def test_what_is_wrong_with_offsets_in_a_transaction(producer: Transactional, group: str, topic: str) -> None:
    for version in range(5):
        missing = Code.transaction_abortable if version >= 4 else Code.invalid_txn_state
        assert producer.commit_offsets(group, topic, 1, version) == missing
        assert producer.commit_offsets(group, UNKNOWN, 1, version) == Code.unknown_topic_or_partition
        assert producer.commit_offsets("", topic, 1, version) == Code.invalid_group_id
    for version in range(6):
        wrong = producer.commit_offsets(group, topic, 1, version, producer_id=producer.producer_id + 1_000_000)
        assert wrong == Code.invalid_producer_id_mapping
        wrong = producer.commit_offsets(group, topic, 1, version, producer_epoch=producer.epoch + 1)
        assert wrong == Code.invalid_producer_epoch
        unknown = producer.commit_offsets(group, topic, 1, version, transactional_id=producer.id + "-unknown")
        assert unknown == Code.invalid_producer_id_mapping


def test_a_member_that_was_replaced_cannot_commit(
    producer: Transactional, member: Callable[..., Member], group: str, topic: str
) -> None:
    assert producer.add_offsets(group) == 0
    assert producer.commit_offsets(group, topic, 1, generation_id=4, member_id="nobody") == Code.illegal_generation
    one = member()
    one.join()
    one.sync({one.id: b""})
    mine = {"generation_id": one.generation, "member_id": one.id}
    assert producer.commit_offsets(group, topic, 2, **mine) == 0
    assert producer.commit_offsets(group, topic, 3, **(mine | {"generation_id": 99})) == Code.illegal_generation
    assert producer.commit_offsets(group, topic, 3, **(mine | {"member_id": "other"})) == Code.unknown_member_id
    assert producer.commit_offsets(group, topic, 3, group_instance_id="i", **mine) == Code.unknown_member_id
    assert producer.commit_offsets(group, topic, 4) == 0, "who does not say who it is may"


def test_what_was_written_last_counts(
    producer: Transactional, transactional: Callable[..., Transactional], connection: Connection, group: str, topic: str
) -> None:
    """Not what was decided last: a plain commit and another transaction come between."""
    other = transactional()
    assert other.settled(other.init) == 0
    assert producer.add_offsets(group) == other.add_offsets(group) == 0
    assert producer.commit_offsets(group, topic, 10) == 0
    assert other.commit_offsets(group, topic, 20) == 0
    assert other.end(True) == 0
    other.wait_for_state("CompleteCommit")
    assert committed_offset(connection, group, topic) == (0, 20)
    assert producer.end(True) == 0
    producer.wait_for_state("CompleteCommit")
    assert committed_offset(connection, group, topic, require_stable=True) == (0, 20)


def test_a_plain_commit_is_not_undone_by_an_older_one(
    producer: Transactional, connection: Connection, group: str, topic: str
) -> None:
    assert producer.add_offsets(group) == 0
    assert producer.commit_offsets(group, topic, 10) == 0
    partition = {"partition_index": 0, "committed_offset": 30, "committed_metadata": ""}
    asked = [{"name": topic, "partitions": [partition]}]
    answer = connection.call("OffsetCommit", 8, group_id=group, topics=asked)
    assert answer.topics[0].partitions[0].error_code == 0
    assert committed_offset(connection, group, topic, require_stable=True)[0] == Code.unstable_offset_commit
    assert producer.end(True) == 0
    producer.wait_for_state("CompleteCommit")
    assert committed_offset(connection, group, topic, require_stable=True) == (0, 30)


# DescribeTransactions, ListTransactions


def test_what_cannot_be_described(connection: Connection, producer: Transactional) -> None:
    asked = [producer.id + "-unknown", ""]
    found = connection.call("DescribeTransactions", 0, transactional_ids=asked).transaction_states
    codes = {each.transactional_id: each.error_code for each in found}
    assert codes == {asked[0]: Code.transactional_id_not_found, "": Code.invalid_request}


def test_transactions_are_listed(connection: Connection, producer: Transactional, topic: str) -> None:
    def listed(version: int = 2, **fields: object) -> dict[str, str]:
        answer = connection.call("ListTransactions", version, **fields)
        assert answer.error_code == 0
        mine = {each.transactional_id: each for each in answer.transaction_states}
        return {key: each.transaction_state for key, each in mine.items() if key == producer.id}

    everything = {producer.id: "Empty"}
    for version in range(3):
        assert listed(version) == everything
    assert listed(producer_id_filters=[producer.producer_id]) == everything
    assert listed(producer_id_filters=[producer.producer_id + 1_000_000]) == {}
    assert listed(state_filters=["Ongoing"]) == {}
    assert listed(state_filters=["Ongoing", "Empty"]) == everything
    assert listed(transactional_id_pattern=producer.id[:-2] + ".*") == everything
    assert listed(transactional_id_pattern=producer.id[:-2]) == {}, "the whole id must match"
    assert listed(transactional_id_pattern="") == everything
    assert producer.add(topic) == 0
    assert listed(state_filters=["Ongoing"]) == {producer.id: "Ongoing"}
    assert listed(state_filters=["Ongoing"], duration_filter=0) in ({producer.id: "Ongoing"}, {})
    assert listed(state_filters=["Ongoing"], duration_filter=600_000) == {}


def test_what_is_wrong_with_a_list(connection: Connection) -> None:
    answer = connection.call("ListTransactions", 2, state_filters=["Ongoing", "Sleeping"])
    assert (answer.error_code, list(answer.unknown_state_filters)) == (0, ["Sleeping"])
    answer = connection.call("ListTransactions", 2, transactional_id_pattern="(")
    assert answer.error_code == Code.invalid_regular_expression


@pytest.mark.slow
def test_a_transaction_ends_when_its_time_is_over(producer: Transactional, topic: str) -> None:
    assert producer.init(transaction_timeout_ms=1) == 0
    epoch = producer.epoch
    assert producer.add(topic) == 0
    producer.wait_for_state("CompleteAbort")
    assert producer.described().producer_epoch == epoch + 1
    assert producer.end(True, 1) == Code.invalid_producer_epoch
    assert producer.end(True, 3) == Code.producer_fenced
    assert producer.end(True, 5) == Code.invalid_txn_state
    assert producer.add(topic) == Code.producer_fenced
    assert producer.recover() == 0, "it may go on, with the epoch of the abort"
    assert producer.epoch == epoch + 1
