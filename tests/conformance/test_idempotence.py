"""Idempotent producers: a batch that is sent again is not stored again, and a gap is not papered over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import confluent_kafka
import pytest
from kio.schema.errors import ErrorCode as Code

import raw
from brokers import Broker
from clients import Driver, Record

LAST_SEQUENCE = 2**31 - 1
BATCHES_REMEMBERED = 5


@dataclass(frozen=True, slots=True)
class Producer:
    """An idempotent producer by hand, on one connection and one topic."""

    connection: raw.Connection
    topic: str
    producer_id: int
    epoch: int = 0

    def send(self, sequence: int, count: int = 1, partition: int = 0, acks: int = -1) -> tuple[Code, int]:
        """Send a batch whose first record has this sequence number; the answer's code and base offset."""
        records = raw.batch([b"%d" % (sequence + n) for n in range(count)], (self.producer_id, self.epoch, sequence))
        answer = raw.produce(self.connection, self.topic, records, partition, acks)
        return Code(answer.error_code), answer.base_offset

    def at_epoch(self, epoch: int) -> Producer:
        return Producer(self.connection, self.topic, self.producer_id, epoch)

    def stored(self) -> list[bytes | None]:
        return raw.values(raw.fetch(self.connection, self.topic).records)


@pytest.fixture
def producer(connection: raw.Connection, new_topic: Callable[..., str]) -> Producer:
    return Producer(connection, new_topic(partitions=2), *raw.init_producer_id(connection))


OUT_OF_ORDER = (Code.out_of_order_sequence_number, -1)
STALE_EPOCH = (Code.invalid_producer_epoch, -1)


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_a_new_id_with_epoch_0(connection: raw.Connection, version: int) -> None:
    raw.init_producer_id(connection)
    fields = {"transactional_id": None, "transaction_timeout_ms": 60_000}
    answers = [connection.call("InitProducerId", version, **fields) for _ in range(3)]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert len({answer.producer_id for answer in answers}) == 3


def test_a_producer_that_asks_again_gets_another_id(connection: raw.Connection) -> None:
    producer_id, epoch = raw.init_producer_id(connection)
    fields = {"transactional_id": None, "producer_id": producer_id, "producer_epoch": epoch}
    answer = connection.call("InitProducerId", 4, transaction_timeout_ms=60_000, **fields)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id != producer_id


@pytest.mark.parametrize(
    "fields", [{"transactional_id": ""}, {"transactional_id": None, "producer_id": 5, "producer_epoch": -1}]
)
def test_requests_that_make_no_sense_are_refused(connection: raw.Connection, fields: dict[str, object]) -> None:
    answer = connection.call("InitProducerId", 4, transaction_timeout_ms=60_000, **fields)
    assert (answer.error_code, answer.producer_id) == (Code.invalid_request, -1)


def test_a_batch_sent_again_is_answered_with_its_first_offset(producer: Producer) -> None:
    assert [producer.send(sequence, 2) for sequence in (0, 2, 4)] == [(Code.none, n) for n in (0, 2, 4)]
    assert producer.send(4, 2) == (Code.none, 4)
    assert producer.send(0, 2) == (Code.none, 0)
    assert producer.send(6, 1) == (Code.none, 6)
    assert producer.stored() == [b"%d" % n for n in range(7)]


def test_the_last_five_batches_are_remembered(producer: Producer) -> None:
    for sequence in range(8):
        assert producer.send(sequence) == (Code.none, sequence)
    assert [producer.send(sequence) for sequence in range(3, 8)] == [(Code.none, n) for n in range(3, 8)]
    assert producer.send(8 - BATCHES_REMEMBERED - 1) == OUT_OF_ORDER
    assert producer.send(0) == OUT_OF_ORDER
    assert producer.send(8) == (Code.none, 8)


def test_a_gap_is_refused_until_it_is_filled(producer: Producer) -> None:
    assert producer.send(0, 3) == (Code.none, 0)
    assert producer.send(4) == OUT_OF_ORDER
    assert producer.send(3) == (Code.none, 3)
    assert producer.send(4) == (Code.none, 4)


@pytest.mark.parametrize(("sequence", "count"), [(2, 1), (3, 1), (1, 2), (2, 3), (0, 4)])
def test_a_batch_that_overlaps_another_is_refused(producer: Producer, sequence: int, count: int) -> None:
    assert [producer.send(0, 2), producer.send(2, 2)] == [(Code.none, 0), (Code.none, 2)]
    assert producer.send(sequence, count) == OUT_OF_ORDER
    assert producer.send(4) == (Code.none, 4)


def test_a_new_epoch_starts_at_sequence_0_and_fences_the_old(producer: Producer) -> None:
    newer = producer.at_epoch(1)
    assert producer.send(0) == (Code.none, 0)
    assert newer.send(5) == OUT_OF_ORDER
    assert newer.send(0) == (Code.none, 1)
    assert producer.send(1) == STALE_EPOCH
    assert newer.send(1) == (Code.none, 2)


def test_an_unknown_producer_may_begin_anywhere(producer: Producer) -> None:
    """Its state may have been dropped with the records that it stood in."""
    assert producer.send(17) == (Code.none, 0)
    assert producer.send(19) == OUT_OF_ORDER
    assert producer.send(18) == (Code.none, 1)


def test_each_partition_counts_for_itself(producer: Producer) -> None:
    assert producer.send(0) == (Code.none, 0)
    assert producer.send(0, partition=1) == (Code.none, 0)
    assert producer.send(1, partition=1) == (Code.none, 1)
    assert producer.send(1) == (Code.none, 1)


def test_sequence_numbers_wrap_to_0(producer: Producer) -> None:
    assert producer.send(LAST_SEQUENCE - 1, 2) == (Code.none, 0)
    assert producer.send(0) == (Code.none, 2)
    assert producer.send(LAST_SEQUENCE - 1, 2) == (Code.none, 0)
    assert producer.send(1) == (Code.none, 3)


def test_sequence_numbers_wrap_within_a_batch(producer: Producer) -> None:
    assert producer.send(LAST_SEQUENCE, 3) == (Code.none, 0)
    assert producer.send(2) == (Code.none, 3)


@pytest.mark.parametrize("sequence", [-1, -2])
def test_an_idempotent_batch_needs_a_sequence_number(producer: Producer, sequence: int) -> None:
    assert producer.send(sequence) == (Code.invalid_record, -1)


@pytest.mark.parametrize("acks", [1, -1])
def test_duplicates_are_seen_whatever_the_acks(producer: Producer, acks: int) -> None:
    assert [producer.send(0, acks=acks) for _ in range(3)] == [(Code.none, 0)] * 3
    assert producer.stored() == [b"0"]


def test_a_whole_pipeline_sent_again_changes_nothing(producer: Producer) -> None:
    """What a client does when the connection broke before the answers came."""
    batches = [raw.batch([b"%d" % n], (producer.producer_id, 0, n)) for n in range(5)]
    for _ in range(2):
        sent = [producer.connection.frame("Produce", 11, **raw.produce_fields(producer.topic, b)) for b in batches]
        first = producer.connection.correlation_id - len(sent) + 1
        producer.connection.send_bytes(b"".join(sent))
        answers = [producer.connection.receive("Produce", 11, first + n) for n in range(len(sent))]
        assert [a.responses[0].partition_responses[0].base_offset for a in answers] == [0, 1, 2, 3, 4]
    assert producer.stored() == [b"0", b"1", b"2", b"3", b"4"]


def test_clients_with_idempotence_on(broker: Broker, client: Driver, topic: str) -> None:
    option = {"enable.idempotence": True} if client.name == "confluent" else {"enable_idempotence": True}
    if client.name == "kafka-python":
        option = {}  # it is the default, and the driver sets it
    sent = [Record(b"%d" % number) for number in range(500)]
    assert client.produce(broker.bootstrap, topic, sent, options=option) == list(range(500))
    assert client.produce(broker.bootstrap, topic, sent, options=option) == list(range(500, 1000))


def test_an_idempotent_producer_writes_to_many_partitions(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=20)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    errors = []
    for number in range(2000):
        producer.produce(
            topic, b"%d" % number, partition=number % 20, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(30) == 0
    assert errors == [None] * 2000
