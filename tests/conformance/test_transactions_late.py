"""Requests of a transaction that arrive late: after its end, in the next one, or twice.

A proxy of our own holds them. With the second version of the protocol (KIP-890: Produce from 12, EndTxn from 5 on) each
transaction has an epoch of its own, so what is late is told from what is new, and nothing tears. In the old protocol
all transactions of a producer have one epoch. A late write that finds no transaction is refused there too, but one that
finds the next transaction open becomes part of it, and a late end ends it: on Kafka as on Penstock.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from kio.schema.errors import ErrorCode as Code

import penstock as library
import raw
from brokers import Broker
from clients import QUIET
from delaying_proxy import ADD_PARTITIONS_TO_TXN, END_TXN, PRODUCE, TXN_OFFSET_COMMIT, DelayingProxy, Fate, Request
from flaky_producer import FlakyProducer
from members import wait_until
from penstock.testing.history import History, Recorder, check
from transactional import Transactional, committed_offset, find_transaction_coordinator

COMMITTED, UNCOMMITTED = 1, 0
LATEST = -1
OLD_PRODUCE, OLD_END, NEW_PRODUCE, NEW_END = 11, 3, 12, 5
NEW_OFFSETS = 5
OLD_ADD = 0
"""What librdkafka sends."""
DEADLINE_SECONDS = 60.0
OUTCOMES = pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])


@pytest.fixture
def proxy(broker: Broker) -> Iterator[DelayingProxy]:
    with DelayingProxy(broker.bootstrap) as made:
        yield made


@pytest.fixture
def producer(proxy: DelayingProxy) -> Iterator[Transactional]:
    with Transactional(proxy.bootstrap) as made:
        assert made.settled(made.init) == 0
        yield made


@pytest.fixture
def transactional_id(connection: raw.Connection) -> str:
    """An id that nobody has, whose coordinator can be asked."""
    new = f"txn-{uuid.uuid4().hex[:12]}"
    find_transaction_coordinator(connection, new)
    return new


def new_confluent(proxy: DelayingProxy, transactional_id: str) -> confluent_kafka.Producer:
    """Speaks the old protocol; all its connections go through the proxy."""
    config = {"bootstrap.servers": proxy.bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    producer = confluent_kafka.Producer(config | QUIET)
    producer.init_transactions(DEADLINE_SECONDS)
    return producer


def decide_next(proxy: DelayingProxy, api_key: int, fate: Fate = Fate.HOLD) -> None:
    """The fate of the next request of this kind, and of no other."""
    is_over = threading.Event()

    def decide(request: Request) -> Fate:
        if request.api_key != api_key or is_over.is_set():
            return Fate.PASS
        is_over.set()
        return fate

    proxy.fate = decide


def hold_produce(proxy: DelayingProxy, producer: Transactional, topic: str, value: bytes, version: int) -> Request:
    """The producer sends it and hears nothing; its connection goes on."""
    decide_next(proxy, PRODUCE)
    count = len(proxy.held)
    sequence = producer.sequences.get((topic, 0), 0)
    records = raw.batch([value], (producer.producer_id, producer.epoch, sequence), is_transactional=True)
    producer.send("Produce", version, **raw.produce_fields(topic, records, transactional_id=producer.id))
    return proxy.wait_for_held(count + 1)[-1]


def deliver(proxy: DelayingProxy, producer: Transactional, late: Request, api: str) -> Any:
    """It arrives now; what the broker answers."""
    answer = raw.decode_response(api, late.api_version, proxy.deliver(late))
    assert producer.receive(api, late.api_version, late.correlation_id).encode() == answer.encode()
    return answer


def deliver_produce(proxy: DelayingProxy, producer: Transactional, late: Request) -> int:
    answer = deliver(proxy, producer, late, "Produce")
    return int(answer.responses[0].partition_responses[0].error_code)


def end_offset(connection: raw.Connection, topic: str, isolation: int, partition: int = 0) -> int:
    asked = [{"name": topic, "partitions": [{"partition_index": partition, "timestamp": LATEST}]}]
    answer = connection.call("ListOffsets", 8, replica_id=-1, isolation_level=isolation, topics=asked)
    return int(answer.topics[0].partitions[0].offset)


def is_unblocked(connection: raw.Connection, topic: str, partition: int = 0) -> bool:
    """Whether readers of committed messages get to the end."""
    ends = {end_offset(connection, topic, isolation, partition) for isolation in (COMMITTED, UNCOMMITTED)}
    return len(ends) == 1


def ended(producer: Transactional, committed: bool, version: int) -> None:
    """End the transaction, and return when its markers are written."""
    assert producer.settled(lambda: producer.end(committed, version)) == 0
    wait_until(lambda: producer.state() in ("CompleteCommit", "CompleteAbort"))


def read(broker: Broker, topic: str) -> list[bytes]:
    """To the end, committed messages only."""
    with library.Consumer(topic, broker.bootstrap, partitions="all", stop_at_end=True) as reader:
        return [message.value for message in reader]


# The second version: nothing tears.


@OUTCOMES
def test_a_late_write_after_the_end_is_refused(
    broker: Broker,
    connection: raw.Connection,
    proxy: DelayingProxy,
    producer: Transactional,
    topic: str,
    committed: bool,
) -> None:
    assert producer.produce(topic, [b"in time"], version=NEW_PRODUCE) == 0
    late = hold_produce(proxy, producer, topic, b"late", NEW_PRODUCE)
    ended(producer, committed, NEW_END)
    assert deliver_produce(proxy, producer, late) == Code.invalid_producer_epoch
    assert is_unblocked(connection, topic)
    assert read(broker, topic) == ([b"in time"] if committed else [])


@OUTCOMES
def test_a_late_write_does_not_become_part_of_the_next_transaction(
    broker: Broker,
    connection: raw.Connection,
    proxy: DelayingProxy,
    producer: Transactional,
    topic: str,
    committed: bool,
) -> None:
    assert producer.produce(topic, [b"in time"], version=NEW_PRODUCE) == 0
    late = hold_produce(proxy, producer, topic, b"late", NEW_PRODUCE)
    ended(producer, committed, NEW_END)
    assert producer.produce(topic, [b"next"], version=NEW_PRODUCE) == 0
    assert deliver_produce(proxy, producer, late) == Code.invalid_producer_epoch
    assert producer.produce(topic, [b"and more"], version=NEW_PRODUCE) == 0
    ended(producer, True, NEW_END)
    assert is_unblocked(connection, topic)
    assert read(broker, topic) == [b"in time"] * committed + [b"next", b"and more"]


def test_a_late_first_write_adds_its_partition_to_no_transaction(
    broker: Broker, connection: raw.Connection, proxy: DelayingProxy, producer: Transactional, topic: str
) -> None:
    """The producer aborts, although the coordinator knows of no transaction: the epoch changes all the same."""
    late = hold_produce(proxy, producer, topic, b"late", NEW_PRODUCE)
    epoch = producer.epoch
    ended(producer, False, NEW_END)
    assert producer.epoch == epoch + 1
    assert deliver_produce(proxy, producer, late) == Code.invalid_producer_epoch
    assert producer.state() == "CompleteAbort"
    assert end_offset(connection, topic, UNCOMMITTED) == 0
    assert read(broker, topic) == []


def test_a_late_first_write_does_not_enter_the_next_transaction_of_another_partition(
    broker: Broker, proxy: DelayingProxy, producer: Transactional, topic: str, new_topic: Callable[..., str]
) -> None:
    other = new_topic()
    late = hold_produce(proxy, producer, topic, b"late", NEW_PRODUCE)
    ended(producer, False, NEW_END)
    assert producer.produce(other, [b"next"], version=NEW_PRODUCE) == 0
    assert deliver_produce(proxy, producer, late) == Code.invalid_producer_epoch
    assert [each.topic for each in producer.described().topics] == [other]
    ended(producer, True, NEW_END)
    assert (read(broker, topic), read(broker, other)) == ([], [b"next"])


@OUTCOMES
def test_an_end_that_comes_again_does_not_end_the_next_transaction(
    broker: Broker,
    connection: raw.Connection,
    proxy: DelayingProxy,
    producer: Transactional,
    topic: str,
    committed: bool,
) -> None:
    assert producer.produce(topic, [b"first"], version=NEW_PRODUCE) == 0
    decide_next(proxy, END_TXN, Fate.COPY)
    ended(producer, committed, NEW_END)
    (copy,) = proxy.held
    assert producer.produce(topic, [b"second"], version=NEW_PRODUCE) == 0
    answer = raw.decode_response("EndTxn", NEW_END, proxy.deliver(copy))
    assert answer.error_code == Code.producer_fenced
    assert (producer.state(), is_unblocked(connection, topic)) == ("Ongoing", False)
    ended(producer, not committed, NEW_END)
    assert is_unblocked(connection, topic)
    assert read(broker, topic) == [b"first" if committed else b"second"]


@OUTCOMES
def test_an_end_that_comes_again_before_the_next_transaction_is_answered_as_the_first(
    proxy: DelayingProxy, producer: Transactional, topic: str, committed: bool
) -> None:
    assert producer.produce(topic, [b"first"], version=NEW_PRODUCE) == 0
    decide_next(proxy, END_TXN, Fate.COPY)
    ended(producer, committed, NEW_END)
    answer = raw.decode_response("EndTxn", NEW_END, proxy.deliver(proxy.held[0]))
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, producer.producer_id, producer.epoch)


@OUTCOMES
def test_late_offsets_do_not_become_part_of_the_next_transaction(
    proxy: DelayingProxy, producer: Transactional, group: str, topic: str, committed: bool
) -> None:
    assert producer.commit_offsets(group, topic, 10, NEW_OFFSETS) == 0
    decide_next(proxy, TXN_OFFSET_COMMIT)
    partition = {"partition_index": 0, "committed_offset": 20, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [partition]}]
    producer.send("TxnOffsetCommit", NEW_OFFSETS, **producer.identity(), group_id=group, topics=topics)
    (late,) = proxy.wait_for_held()
    ended(producer, committed, NEW_END)
    assert producer.produce(topic, [b"next"], version=NEW_PRODUCE) == 0
    answer = deliver(proxy, producer, late, "TxnOffsetCommit")
    assert answer.topics[0].partitions[0].error_code == Code.invalid_producer_epoch
    ended(producer, True, NEW_END)
    assert committed_offset(producer, group, topic, require_stable=True) == (0, 10 if committed else -1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_many_late_requests_tear_nothing(
    broker: Broker, connection: raw.Connection, proxy: DelayingProxy, tmp_path: Path, new_topic: Callable[..., str],
    seed: int,
) -> None:  # fmt: skip
    """Producers whose requests are lost and arrive at any time later, or twice; readers all the while; one judge."""
    topic = new_topic(partitions=2)
    proxy.fate = fates(random.Random(seed))
    producers = [
        FlakyProducer(proxy.bootstrap, Recorder(tmp_path / f"{name}.jsonl", name), topic, 2, random.Random(name))
        for name in (f"p{seed}{number}" for number in range(3))
    ]
    storm(broker, proxy, producers, topic, tmp_path, random.Random(seed))
    for request in list(proxy.held):
        proxy.deliver(request)
    for partition in range(2):
        wait_until(lambda partition=partition: is_unblocked(connection, topic, partition))  # type: ignore[misc]
    for producer in producers:
        assert producer.client.state() in ("CompleteCommit", "CompleteAbort"), "the last transaction is the last"
        producer.close()
    record_read(broker, topic, tmp_path, "at-the-end")
    history = History.load(tmp_path.glob("*.jsonl"))
    verdict = check(history)
    assert verdict.is_good, verdict
    assert sum(1 for _ in history.committed) > 20


def fates(chance: random.Random) -> Callable[[Request], Fate]:
    """A quarter of all writes and ends are lost or come twice."""
    lock = threading.Lock()

    def decide(request: Request) -> Fate:
        if request.api_key not in (PRODUCE, END_TXN):
            return Fate.PASS
        with lock:
            drawn = chance.random()
        return Fate.LOSE if drawn < 0.15 else Fate.COPY if drawn < 0.25 else Fate.PASS

    return decide


def storm(
    broker: Broker, proxy: DelayingProxy, producers: list[FlakyProducer], topic: str, directory: Path,
    chance: random.Random,
) -> None:  # fmt: skip
    """Until all producers are done, late requests arrive in any order, and readers read from the start."""
    is_over = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def deliver_late() -> None:
        while not is_over.wait(chance.random() / 50):
            if proxy.held:
                proxy.deliver(chance.choice(proxy.held))

    def read_again_and_again() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            record_read(broker, topic, directory, f"reader-{number}")

    others = [guarded(deliver_late), guarded(read_again_and_again)]
    working = [guarded(lambda each=each: each.run(transactions=20)) for each in producers]  # type: ignore[misc]
    for thread in working:
        thread.join()
    is_over.set()
    for thread in others:
        thread.join()
    assert failures == []


def record_read(broker: Broker, topic: str, directory: Path, name: str) -> None:
    recorder = Recorder(directory / f"{name}.jsonl", name)
    with library.Consumer(topic, broker.bootstrap, partitions="all", stop_at_end=True) as reader:
        for message in reader:
            recorder.poll([(f"{topic}-{message.partition}", message.offset, message.value.decode())])
    recorder.close()


# The old protocol: what holds, and the hole that remains.


@OUTCOMES
def test_by_the_old_protocol_a_late_write_after_the_end_is_refused(
    broker: Broker,
    connection: raw.Connection,
    proxy: DelayingProxy,
    producer: Transactional,
    topic: str,
    committed: bool,
) -> None:
    """Verification: the leader asks the coordinator, who knows of no transaction. So none can hang."""
    assert producer.add(topic, version=OLD_ADD) == 0
    assert producer.produce(topic, [b"in time"], version=OLD_PRODUCE) == 0
    late = hold_produce(proxy, producer, topic, b"late", OLD_PRODUCE)
    ended(producer, committed, OLD_END)
    assert deliver_produce(proxy, producer, late) == Code.transaction_abortable
    assert is_unblocked(connection, topic)
    assert read(broker, topic) == [b"in time"] * committed


def test_by_the_old_protocol_a_batch_that_comes_again_is_known_by_its_sequence(
    broker: Broker, proxy: DelayingProxy, topic: str, transactional_id: str
) -> None:
    """librdkafka loses its connection and sends the batch again; the first copy arrives in the next transaction."""
    decide_next(proxy, PRODUCE, Fate.LOSE)
    producer = new_confluent(proxy, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"first")
    producer.commit_transaction(DEADLINE_SECONDS)
    (late,) = proxy.held
    producer.begin_transaction()
    producer.produce(topic, b"second")
    assert producer.flush(DEADLINE_SECONDS) == 0
    answer = raw.decode_response("Produce", late.api_version, proxy.deliver(late))
    partition = answer.responses[0].partition_responses[0]
    assert (partition.error_code, partition.base_offset) == (0, 0), "it is where it was"
    producer.commit_transaction(DEADLINE_SECONDS)
    assert read(broker, topic) == [b"first", b"second"]


def test_the_hole_of_the_old_protocol_a_late_write_becomes_part_of_the_next_transaction(
    broker: Broker, proxy: DelayingProxy, topic: str, transactional_id: str, tmp_path: Path
) -> None:
    """librdkafka gives up a batch on its way and aborts. The batch arrives when the next transaction is open."""
    recorder = Recorder(tmp_path / "librdkafka.jsonl", "librdkafka")
    producer = new_confluent(proxy, transactional_id)
    decide_next(proxy, PRODUCE)
    producer.begin_transaction()
    aborted = recorder.begin()
    recorder.send("late", aborted)
    producer.produce(topic, b"late")
    (late,) = proxy.wait_for_held()
    producer.purge(in_flight=True)
    producer.abort_transaction(DEADLINE_SECONDS)
    recorder.aborted(aborted)

    producer.begin_transaction()
    transaction = recorder.begin()
    recorder.send("next", transaction)
    decide_next(proxy, PRODUCE)
    producer.produce(topic, b"next")
    _, own = proxy.wait_for_held(2)
    for request in (late, own):
        answer = raw.decode_response("Produce", request.api_version, proxy.deliver(request))
        assert answer.responses[0].partition_responses[0].error_code == 0
    recorder.commit(transaction)
    producer.commit_transaction(DEADLINE_SECONDS)
    recorder.committed(transaction)

    record_read(broker, topic, tmp_path, "reader")
    verdict = check(History.load(tmp_path.glob("*.jsonl")))
    assert verdict.broken_rules == {"aborted read"}, verdict
    assert read(broker, topic) == [b"late", b"next"]


def test_the_hole_of_the_old_protocol_an_end_that_comes_again_ends_the_next_transaction(
    broker: Broker, proxy: DelayingProxy, topic: str, transactional_id: str
) -> None:
    """librdkafka loses its connection and sends the EndTxn again; the first one arrives in the next transaction."""
    decide_next(proxy, END_TXN, Fate.LOSE)
    producer = new_confluent(proxy, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"first")
    producer.commit_transaction(DEADLINE_SECONDS)
    (late,) = proxy.held
    producer.begin_transaction()
    producer.produce(topic, b"second")
    assert producer.flush(DEADLINE_SECONDS) == 0
    answer = raw.decode_response("EndTxn", late.api_version, proxy.deliver(late))
    assert answer.error_code == 0
    wait_until(lambda: read(broker, topic) == [b"first", b"second"])
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        producer.abort_transaction(DEADLINE_SECONDS)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.INVALID_TXN_STATE, "too late to abort"


@pytest.mark.slow
def test_the_hole_of_the_old_protocol_is_no_hole_without_end(
    broker: Broker, connection: raw.Connection, proxy: DelayingProxy, producer: Transactional, topic: str
) -> None:
    """AddPartitionsToTxn and Produce arrive after the end, and nobody ends what they began. Its timeout does."""
    assert producer.init(transaction_timeout_ms=1000) == 0
    decide_next(proxy, ADD_PARTITIONS_TO_TXN, Fate.COPY)
    assert producer.add(topic, version=OLD_ADD) == 0
    (late_add,) = proxy.held
    late = hold_produce(proxy, producer, topic, b"late", OLD_PRODUCE)
    ended(producer, False, OLD_END)
    raw.produce(connection, topic, raw.batch([b"before"]))
    proxy.deliver(late_add)
    assert deliver_produce(proxy, producer, late) == 0
    raw.produce(connection, topic, raw.batch([b"behind it"]))
    wait_until(lambda: is_unblocked(connection, topic), DEADLINE_SECONDS)
    assert producer.state() == "CompleteAbort"
    assert read(broker, topic) == [b"before", b"behind it"]
