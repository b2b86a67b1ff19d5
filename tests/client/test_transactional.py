"""A transactional session against Penstock and Apache Kafka, and through a proxy that loses what was asked."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from brokers import Broker, PenstockProcess
from delaying_proxy import END_TXN, DelayingProxy, Fate, lose_first_answer
from members import wait_until
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster, UnknownTopicError
from penstock.client.fetcher import Fetcher, records_of
from penstock.client.groups import Groups
from penstock.client.metadata import error_code
from penstock.client.offsets import LATEST, READ_COMMITTED, list_offsets
from penstock.client.transactional import (
    CommitUnknownError,
    ProducerFencedError,
    Transaction,
    TransactionAbortedError,
    TransactionalSession,
)
from penstock.client.transactions import COMMITTED, Transactions
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.api import Api
from penstock.wire.api.api_versions import ApiVersionsResponse
from penstock.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from penstock.wire.batch_builder import build_batch
from penstock.wire.record import Record
from penstock.wire.schema import Struct

RECENT = time.time_ns() // 1_000_000
"""Retention deletes what is older than a week, a while after the broker began."""
NewTopic = Callable[..., str]


class OlderCluster(Cluster):
    """A cluster that does not run transaction version 2, though its brokers could."""

    def request(
        self, api: Api, message: Struct, *, node_id: int | None = None, deadline: float | None = None
    ) -> Struct:
        answer = super().request(api, message, node_id=node_id, deadline=deadline)
        if isinstance(answer, ApiVersionsResponse):
            answer.finalized_features = []
        return answer


@pytest.fixture(params=[Cluster, OlderCluster], ids=["version-2", "version-1"])
def cluster(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Cluster]:
    with request.param(broker.bootstrap) as opened:
        yield opened


@pytest.fixture
def session(cluster: Cluster) -> TransactionalSession:
    return TransactionalSession(cluster, f"txn-{uuid.uuid4().hex[:12]}")


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    cluster: Cluster, session: TransactionalSession, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    for number, outcome in enumerate([Transaction.commit, Transaction.abort, Transaction.commit, Transaction.commit]):
        transaction = session.begin()
        for partition in (0, 1):
            write(cluster, transaction, TopicPartition(topic, partition), [b"%d" % number])
        outcome(transaction)
    for partition in (0, 1):
        assert committed(cluster, TopicPartition(topic, partition)) == [b"0", b"2", b"3"]


def test_each_transaction_has_an_identity_of_its_own(
    cluster: Cluster, session: TransactionalSession, topic: str
) -> None:
    seen = set()
    for _ in range(3):
        transaction = session.begin()
        write(cluster, transaction, TopicPartition(topic, 0), [b"x"])
        transaction.commit()
        seen.add(transaction.identity)
    assert len(seen) == 3


def test_an_empty_transaction_costs_nothing_and_the_next_one_goes_on(
    cluster: Cluster, session: TransactionalSession, topic: str
) -> None:
    session.begin().commit()
    session.begin().abort()
    with session.begin() as transaction:
        assert transaction.is_empty
        write(cluster, transaction, TopicPartition(topic, 0), [b"x"])
    assert committed(cluster, TopicPartition(topic, 0)) == [b"x"]


def test_offsets_count_when_the_transaction_is_committed(
    cluster: Cluster, session: TransactionalSession, topic: str
) -> None:
    where, group = TopicPartition(topic, 0), f"g-{uuid.uuid4().hex[:12]}"
    first = session.begin()
    first.send_offsets(group, {where: 5}, "note")
    first.abort()
    assert Groups(cluster).committed(group) == {}
    second = session.begin()
    write(cluster, second, where, [b"x"])
    second.send_offsets(group, {where: 7})
    second.commit()
    wait_until(lambda: Groups(cluster).committed(group) == {where: 7})


def test_a_block_that_fails_is_aborted(cluster: Cluster, session: TransactionalSession, topic: str) -> None:
    where = TopicPartition(topic, 0)

    def fail_in_the_middle() -> None:
        with session.begin() as transaction:
            write(cluster, transaction, where, [b"lost"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()
    with session.begin() as transaction:
        write(cluster, transaction, where, [b"kept"])
    assert committed(cluster, where) == [b"kept"]


def test_who_takes_the_id_fences_who_had_it_and_aborts_what_that_one_left_open(
    cluster: Cluster, session: TransactionalSession, topic: str
) -> None:
    where = TopicPartition(topic, 0)
    zombie = session.begin()
    write(cluster, zombie, where, [b"zombie"])
    successor = TransactionalSession(cluster, session.transactional_id)
    successor.take_id()
    with pytest.raises(ProducerFencedError, match="Nothing of it is committed"):
        zombie.commit()
    with successor.begin() as transaction:
        write(cluster, transaction, where, [b"successor"])
    assert committed(cluster, where) == [b"successor"]


def test_a_fenced_producer_cannot_add_offsets_and_may_abort(
    cluster: Cluster, session: TransactionalSession, topic: str
) -> None:
    zombie = session.begin()
    zombie.send_offsets("markers", {TopicPartition(topic, 0): 1})
    TransactionalSession(cluster, session.transactional_id).take_id()
    with pytest.raises(ProducerFencedError):
        zombie.send_offsets("markers", {TopicPartition(topic, 0): 2})
    zombie.abort()


def test_an_aborted_transaction_of_the_coordinator_cannot_be_committed(
    cluster: Cluster, session: TransactionalSession, topic: str
) -> None:
    transaction = session.begin()
    transaction.add_partitions([TopicPartition(topic, 0)])
    described = Transactions(cluster).describe([session.transactional_id])[0]
    write(cluster, transaction, TopicPartition(topic, 0), [b"x"])
    Transactions(cluster).abort(described)
    with pytest.raises((ProducerFencedError, TransactionAbortedError)):
        transaction.commit()
    with session.begin() as after:
        write(cluster, after, TopicPartition(topic, 0), [b"after"])
    assert committed(cluster, TopicPartition(topic, 0)) == [b"after"]


def test_offsets_of_a_topic_that_does_not_exist_are_an_error_at_once(session: TransactionalSession) -> None:
    transaction = session.begin()
    with pytest.raises(UnknownTopicError):
        transaction.send_offsets("markers", {TopicPartition("no-such-topic", 0): 1})
    transaction.abort()


def test_a_timeout_that_the_broker_does_not_allow_is_an_error(cluster: Cluster) -> None:
    session = TransactionalSession(cluster, "impatient", timeout_ms=2**31 - 1)
    with pytest.raises(KafkaError, match=r"transaction\.max\.timeout\.ms"):
        session.begin()


def test_a_transaction_that_has_ended_cannot_be_used(session: TransactionalSession, topic: str) -> None:
    transaction = session.begin()
    transaction.commit()
    with pytest.raises(KafkaError, match="is committed; begin another"):
        transaction.add_partitions([TopicPartition(topic, 0)])


@pytest.mark.parametrize("opened", [Cluster, OlderCluster], ids=["version-2", "version-1"])
def test_a_commit_whose_answer_was_lost_is_asked_for_again_and_done_once(
    penstock: PenstockProcess, opened: type[Cluster], name: str
) -> None:
    with DelayingProxy(penstock.bootstrap) as proxy, opened(proxy.bootstrap) as cluster:
        where = create(cluster, name)
        asked = lose_first_answer(proxy, END_TXN)
        session = TransactionalSession(cluster, name)
        for value in (b"0", b"1"):
            with session.begin() as transaction:
                write(cluster, transaction, where, [value])
        assert len(asked) >= 3
        assert {request.api_version for request in asked} == {5 if session.is_version_2 else 4}
        assert committed(cluster, where) == [b"0", b"1"]


def test_a_commit_that_no_broker_answers_is_unknown_and_the_next_who_takes_the_id_knows(
    penstock: PenstockProcess, name: str
) -> None:
    with DelayingProxy(penstock.bootstrap) as proxy, Cluster(proxy.bootstrap, timeout_ms=2_000) as cluster:
        where = create(cluster, name)
        session = TransactionalSession(cluster, name)
        transaction = session.begin()
        write(cluster, transaction, where, [b"x"])
        proxy.fate = lambda request: Fate.LOSE if request.api_key == END_TXN else Fate.PASS
        with pytest.raises(CommitUnknownError, match="not known whether"):
            transaction.commit()
        proxy.deliver(proxy.held[0])  # it arrives after all
        TransactionalSession(cluster, name).take_id()
        assert committed(cluster, where) == [b"x"]


def test_who_is_fenced_after_an_answer_was_lost_does_not_say_that_nothing_is_committed(
    penstock: PenstockProcess, name: str
) -> None:
    with DelayingProxy(penstock.bootstrap) as proxy, Cluster(proxy.bootstrap) as cluster:
        where = create(cluster, name)

        def take_id() -> None:
            with Cluster(penstock.bootstrap) as other:
                TransactionalSession(other, name).take_id()

        lose_first_answer(proxy, END_TXN, before_again=take_id)
        transaction = TransactionalSession(cluster, name).begin()
        write(cluster, transaction, where, [b"x"])
        with pytest.raises(CommitUnknownError):
            transaction.commit()
        assert committed(cluster, where) == [b"x"]


def test_a_broker_that_dies_before_the_commit_is_waited_for(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    broker = PenstockProcess(tmp_path_factory.mktemp("dies"))
    with broker, Cluster(broker.bootstrap) as cluster:
        where = create(cluster, name)
        session = TransactionalSession(cluster, name)
        transaction = session.begin()
        write(cluster, transaction, where, [b"x"])
        broker.kill()
        broker.start()
        transaction.commit()
        wait_until(lambda: Transactions(cluster).describe([name])[0].state == COMMITTED)
        assert committed(cluster, where) == [b"x"]


# What the tests do beside


def create(cluster: Cluster, topic: str) -> TopicPartition:
    Admin(cluster).create_topic(topic, partitions=1)
    return TopicPartition(topic, 0)


def write(cluster: Cluster, transaction: Transaction, where: TopicPartition, values: list[bytes]) -> None:
    """One batch, the first of its partition in the transaction; what may pass is tried again."""
    transaction.add_partitions([where])
    producer_id, epoch = transaction.identity
    records = build_batch(
        [Record(number, RECENT, None, value, ()) for number, value in enumerate(values)],
        producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True,
    )  # fmt: skip

    def attempt(deadline: float) -> None:
        topic_id = cluster.topic(where.topic, deadline=deadline).topic_id
        data = TopicProduceData(
            name=where.topic, topic_id=topic_id, partition_data=[PartitionProduceData(where.partition, records)]
        )
        request = ProduceRequest(transaction.transactional_id, -1, 30_000, [data])
        node_id = cluster.leader(where, deadline=deadline)
        answer = cluster.request(transaction.produce_api, request, node_id=node_id, deadline=deadline)
        code = error_code(cast("ProduceResponse", answer).responses[0].partition_responses[0].error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)

    cluster.retry(attempt)


def committed(cluster: Cluster, where: TopicPartition) -> list[bytes]:
    """All that a reader of committed data sees, up to the end of the log."""
    end = list_offsets(cluster, {where: LATEST})[where].offset
    values: list[bytes] = []
    with Fetcher(cluster, {where: 0}, isolation_level=READ_COMMITTED) as fetcher:
        while fetcher.positions[where] < end:
            for fetched in fetcher.poll():
                values += [bytes(record.value or b"") for record in records_of(fetched)]
    return values
