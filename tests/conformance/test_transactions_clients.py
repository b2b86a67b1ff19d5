"""Transactions with the clients that people use: commit, abort, offsets, fencing, many partitions, many producers."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
import pytest

from brokers import Broker
from changes import check_seen
from clients import QUIET, Confluent
from raw import Connection
from transactional import committed_offset, find_transaction_coordinator

DEADLINE_SECONDS = 60.0
Values = Sequence[bytes]


class TransactionClient(Protocol):
    """One client library: transactions one after the other, with one producer."""

    name: str

    def run(
        self, bootstrap: str, transactional_id: str, topic: str, transactions: Sequence[tuple[Values, bool]],
        offsets: tuple[str, str, int] | None = None,
    ) -> None:  # fmt: skip
        """Send the values of each, over two partitions, and commit it or not. With `offsets`, which are a group, a
        topic and an offset, each also commits that offset of partition 0."""
        ...

    def read(self, bootstrap: str, topic: str, partition: int, count: int) -> list[bytes | None]:
        """`count` committed messages from the beginning."""
        ...


class ConfluentTransactions:
    name = "confluent"

    def run(
        self, bootstrap: str, transactional_id: str, topic: str, transactions: Sequence[tuple[Values, bool]],
        offsets: tuple[str, str, int] | None = None,
    ) -> None:  # fmt: skip
        producer = new_confluent(bootstrap, transactional_id)
        for values, committed in transactions:
            producer.begin_transaction()
            for number, value in enumerate(values):
                producer.produce(topic, value, partition=number % 2)
            if offsets is not None:
                self._send_offsets(bootstrap, producer, *offsets)
            if committed:
                producer.commit_transaction(DEADLINE_SECONDS)
            else:
                assert producer.flush(DEADLINE_SECONDS) == 0
                producer.abort_transaction(DEADLINE_SECONDS)

    def _send_offsets(self, bootstrap: str, producer: Any, group: str, topic: str, offset: int) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group} | QUIET)
        where = [confluent_kafka.TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(where, consumer.consumer_group_metadata(), DEADLINE_SECONDS)
        consumer.close()

    def read(self, bootstrap: str, topic: str, partition: int, count: int) -> list[bytes | None]:
        options = {"isolation.level": "read_committed"}
        found = Confluent().consume(bootstrap, topic, 0, count, partition=partition, options=options)
        return [each.value for each in found]


class KafkaPythonTransactions:
    name = "kafka-python"

    def run(
        self, bootstrap: str, transactional_id: str, topic: str, transactions: Sequence[tuple[Values, bool]],
        offsets: tuple[str, str, int] | None = None,
    ) -> None:  # fmt: skip
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        try:
            producer.init_transactions()
            for values, committed in transactions:
                producer.begin_transaction()
                for number, value in enumerate(values):
                    producer.send(topic, value, partition=number % 2)
                if offsets is not None:
                    group, read, offset = offsets
                    where = {kafka.TopicPartition(read, 0): kafka.structs.OffsetAndMetadata(offset, "", -1)}
                    producer.send_offsets_to_transaction(where, group)
                if committed:
                    producer.commit_transaction()
                else:
                    producer.flush(DEADLINE_SECONDS)
                    producer.abort_transaction()
        finally:
            producer.close(timeout=DEADLINE_SECONDS)

    def read(self, bootstrap: str, topic: str, partition: int, count: int) -> list[bytes | None]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        where = kafka.TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.seek(where, 0)
        found: list[bytes | None] = []
        try:
            while len(found) < count:
                found += [each.value for each in consumer.poll(timeout_ms=200).get(where, [])]
        finally:
            consumer.close()
        return found


class AioKafkaTransactions:
    name = "aiokafka"

    def run(
        self, bootstrap: str, transactional_id: str, topic: str, transactions: Sequence[tuple[Values, bool]],
        offsets: tuple[str, str, int] | None = None,
    ) -> None:  # fmt: skip
        async def run() -> None:
            async with aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id
            ) as producer:
                for values, committed in transactions:
                    await producer.begin_transaction()
                    for number, value in enumerate(values):
                        await producer.send_and_wait(topic, value, partition=number % 2)
                    if offsets is not None:
                        group, read, offset = offsets
                        await producer.send_offsets_to_transaction({aiokafka.TopicPartition(read, 0): offset}, group)
                    await (producer.commit_transaction() if committed else producer.abort_transaction())

        asyncio.run(asyncio.wait_for(run(), DEADLINE_SECONDS))

    def read(self, bootstrap: str, topic: str, partition: int, count: int) -> list[bytes | None]:
        async def read() -> list[bytes | None]:
            where = aiokafka.TopicPartition(topic, partition)
            found: list[bytes | None] = []
            async with aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap, isolation_level="read_committed"
            ) as consumer:
                consumer.assign([where])
                consumer.seek(where, 0)
                while len(found) < count:
                    found += [each.value for each in (await consumer.getmany(where, timeout_ms=200)).get(where, [])]
            return found

        return asyncio.run(asyncio.wait_for(read(), DEADLINE_SECONDS))


CLIENTS: tuple[TransactionClient, ...] = (ConfluentTransactions(), KafkaPythonTransactions(), AioKafkaTransactions())


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def transactions(request: pytest.FixtureRequest) -> TransactionClient:
    chosen: TransactionClient = request.param
    return chosen


@pytest.fixture
def transactional_id(broker: Broker) -> str:
    """An id that nobody has, whose coordinator can be asked."""
    new = f"txn-{uuid.uuid4().hex[:12]}"
    with Connection(broker.bootstrap) as connection:
        find_transaction_coordinator(connection, new)
    return new


def new_confluent(bootstrap: str, transactional_id: str, **options: Any) -> confluent_kafka.Producer:
    config = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 5}
    producer = confluent_kafka.Producer(config | QUIET | options)
    producer.init_transactions(DEADLINE_SECONDS)
    return producer


def test_only_what_was_committed_is_read(
    broker: Broker, transactions: TransactionClient, transactional_id: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    script = [([b"%d-%d" % (number, each) for each in range(4)], number % 3 != 1) for number in range(7)]
    transactions.run(broker.bootstrap, transactional_id, topic, script)
    for partition in range(2):
        expected = [value for values, committed in script if committed for value in values[partition::2]]
        assert transactions.read(broker.bootstrap, topic, partition, len(expected)) == expected


def test_an_uncommitted_reader_sees_everything_and_no_marker(
    broker: Broker, transactional_id: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    script = [([b"1"], True), ([b"2"], False), ([b"3"], True)]
    ConfluentTransactions().run(broker.bootstrap, transactional_id, topic, script)
    options = {"isolation.level": "read_uncommitted"}
    found = Confluent().consume(broker.bootstrap, topic, 0, 3, options=options)
    assert [each.value for each in found] == [b"1", b"2", b"3"]
    assert [each.offset for each in found] == [0, 2, 4], "a marker has an offset of its own"


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_offsets_are_part_of_the_transaction(
    broker: Broker, transactions: TransactionClient, transactional_id: str, group: str, committed: bool,
    new_topic: Callable[..., str], connection: Connection,
) -> None:  # fmt: skip
    topic = new_topic(partitions=2)
    transactions.run(broker.bootstrap, transactional_id, topic, [([b"a", b"b"], committed)], (group, topic, 5))
    expected = (0, 5 if committed else -1)
    check_seen(broker, lambda: committed_offset(connection, group, topic, require_stable=True), expected)


def test_a_second_producer_with_the_same_id_fences_the_first(broker: Broker, transactional_id: str, topic: str) -> None:
    zombie = new_confluent(broker.bootstrap, transactional_id)
    zombie.begin_transaction()
    zombie.produce(topic, b"of a zombie")
    assert zombie.flush(DEADLINE_SECONDS) == 0
    heir = new_confluent(broker.bootstrap, transactional_id)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        zombie.commit_transaction(DEADLINE_SECONDS)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    assert caught.value.args[0].fatal()
    heir.begin_transaction()
    heir.produce(topic, b"of its heir")
    heir.commit_transaction(DEADLINE_SECONDS)
    assert ConfluentTransactions().read(broker.bootstrap, topic, 0, 1) == [b"of its heir"]


def test_a_transaction_over_many_partitions_is_one(
    broker: Broker, transactional_id: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=30)
    producer = new_confluent(broker.bootstrap, transactional_id)
    for word in (b"no", b"yes"):
        producer.begin_transaction()
        for partition in range(30):
            producer.produce(topic, word, partition=partition)
        if word == b"yes":
            producer.commit_transaction(DEADLINE_SECONDS)
        else:
            assert producer.flush(DEADLINE_SECONDS) == 0
            producer.abort_transaction(DEADLINE_SECONDS)
    for partition in range(0, 30, 7):
        assert ConfluentTransactions().read(broker.bootstrap, topic, partition, 1) == [b"yes"]


def test_many_producers_at_once(broker: Broker, transactional_id: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            script = [([b"%d-%d" % (number, each)] * 2, each % 2 == 0) for each in range(10)]
            ConfluentTransactions().run(broker.bootstrap, f"{transactional_id}-{number}", topic, script)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for partition in range(2):
        found = ConfluentTransactions().read(broker.bootstrap, topic, partition, 25)
        for number in range(5):
            mine = [value for value in found if value is not None and value.startswith(b"%d-" % number)]
            assert mine == [b"%d-%d" % (number, each) for each in range(0, 10, 2)]
