"""`producer.transaction()` and `process`, on Penstock and on Apache Kafka alike."""

# ruff: noqa: PT012, SIM117 - what is expected to be raised is raised at the end of the transaction's block

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

import penstock
from brokers import Broker
from capabilities import needs_transactions
from clients import Confluent, Record
from penstock import Send
from penstock.errors import ErrorCode

DEADLINE_SECONDS = 60.0
LONGER_THAN_A_TEST_MS = 600_000


@pytest.fixture(autouse=True)
def _transactions(broker: Broker) -> None:
    needs_transactions(broker.bootstrap)


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def transactional_id() -> str:
    return f"x-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def filled(broker: Broker, new_topic: Callable[..., str]) -> str:
    """Two partitions of ten messages each."""
    topic = new_topic(partitions=2)
    for partition in (0, 1):
        records = [Record(b"%d" % (10 * partition + number)) for number in range(10)]
        Confluent().produce(broker.bootstrap, topic, records, partition=partition)
    return topic


def values(broker: Broker, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """What a reader of everything gets, sorted."""
    options = {"isolation.level": isolation}
    settings: Any = {"partitions": "all", "stop_at_end": True, "options": options}
    with penstock.Consumer(topic, broker.bootstrap, **settings) as reader:
        return sorted(message.value for message in reader)


def numbers(broker: Broker, topic: str) -> list[int]:
    return sorted(map(int, values(broker, topic)))


def test_a_transaction_is_seen_whole_or_not_at_all(
    broker: Broker, new_topic: Callable[..., str], transactional_id: str
) -> None:
    one, two = new_topic(partitions=3), new_topic()
    with penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer:
        with producer.transaction():
            for number in range(6):
                producer.send(one, b"%d" % number, partition=number % 3)
            producer.send(two, b"6")
            producer.flush()
            assert values(broker, one) == values(broker, two) == []
            assert len(values(broker, one, "read_uncommitted")) == 6
        assert numbers(broker, one) == [0, 1, 2, 3, 4, 5]
        assert numbers(broker, two) == [6]


def test_an_exception_aborts_and_goes_on_to_the_caller(broker: Broker, topic: str, transactional_id: str) -> None:
    with penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer:
        with pytest.raises(RuntimeError, match="mine"), producer.transaction():
            producer.send(topic, b"aborted").result(DEADLINE_SECONDS)
            raise RuntimeError("mine")
        with producer.transaction():
            delivery = producer.send(topic, b"committed")
        assert delivery.result(0).offset is not None
    assert values(broker, topic) == [b"committed"]
    assert values(broker, topic, "read_uncommitted") == [b"aborted", b"committed"]


def test_what_was_not_sent_when_it_aborts_is_told(broker: Broker, topic: str, transactional_id: str) -> None:
    """It waits in the producer's buffer, and never leaves it."""
    options = {"linger.ms": 10_000}
    with penstock.Producer(broker.bootstrap, transactional_id=transactional_id, options=options) as producer:
        with pytest.raises(RuntimeError, match="mine"), producer.transaction():
            delivery = producer.send(topic, b"v")
            raise RuntimeError("mine")
        with pytest.raises(penstock.KafkaError):
            delivery.result(DEADLINE_SECONDS)
    assert values(broker, topic, "read_uncommitted") == []


def test_empty_transactions_are_fine(broker: Broker, topic: str, transactional_id: str) -> None:
    with penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer:
        for _ in range(3):
            with producer.transaction():
                pass
        with producer.transaction():
            producer.send(topic, b"after them")
    assert values(broker, topic, "read_committed") == [b"after them"]


def test_an_older_producer_of_the_same_id_is_out(broker: Broker, topic: str, transactional_id: str) -> None:
    with penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as old:
        with pytest.raises(penstock.KafkaError, match="same transactional_id") as failure, old.transaction():
            old.send(topic, b"old").result(DEADLINE_SECONDS)
            with (
                penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as new,
                new.transaction(),
            ):
                new.send(topic, b"new")
        assert failure.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert not isinstance(failure.value, penstock.TransactionAborted)
    assert values(broker, topic) == [b"new"]


def test_a_slow_producer_is_told_why_it_is_out(broker: Broker, topic: str, transactional_id: str) -> None:
    """Who takes the id for a moment ends the transaction as the broker does when its time is over."""
    with penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as slow:
        with pytest.raises(penstock.ClientError) as failure, slow.transaction():
            slow.send(topic, b"slow").result(DEADLINE_SECONDS)
            other = confluent_kafka.Producer(
                {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id}
            )
            other.init_transactions(DEADLINE_SECONDS)
        assert failure.value.is_fatal
        for cause in ("same transactional_id", "transaction.timeout.ms", "operator"):
            assert cause in str(failure.value)
    assert values(broker, topic) == []


def test_a_position_in_a_transaction_that_was_left_open_does_not_keep_its_next_producer_waiting(
    broker: Broker, filled: str, new_topic: Callable[..., str], group: str, transactional_id: str
) -> None:
    """The consumer gets no message before the transaction is ended, and that is for the new producer to do."""
    out = new_topic(partitions=2)
    with exactly_once(broker, filled, group) as consumer:
        options = {"transaction.timeout.ms": LONGER_THAN_A_TEST_MS}
        dead = penstock.Producer(broker.bootstrap, transactional_id=transactional_id, options=options)
        dead.transaction(consumer).__enter__()
        taken = consumer.poll_ready(5, DEADLINE_SECONDS)
        dead.raw.send_offsets_to_transaction(
            [confluent_kafka.TopicPartition(*taken[0].where, 5)], consumer.raw.consumer_group_metadata()
        )
    with (
        exactly_once(broker, filled, group, stop_at_end=True) as consumer,
        penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer,
    ):
        assert penstock.process(consumer, producer, copy_to(out)) == 20
    assert numbers(broker, out) == list(range(20))


def test_a_second_transaction_in_the_first_is_refused(broker: Broker, transactional_id: str) -> None:
    with (
        penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer,
        producer.transaction(),
        pytest.raises(penstock.KafkaError, match="one at a time"),
        producer.transaction(),
    ):
        pass


def test_what_cannot_be_is_refused_with_a_sentence(broker: Broker, filled: str, transactional_id: str) -> None:
    with penstock.Producer(broker.bootstrap) as plain, pytest.raises(ValueError, match="no transactional_id"):
        plain.transaction()
    with penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer:
        with pytest.raises(penstock.KafkaError, match="no transaction is open"):
            producer.send(filled, b"v")
        with (
            penstock.Consumer(filled, broker.bootstrap) as consumer,
            pytest.raises(ValueError, match="delivery='exactly_once'"),
        ):
            producer.transaction(consumer)


def test_a_closed_producer_begins_no_transaction(broker: Broker, transactional_id: str) -> None:
    producer = penstock.Producer(broker.bootstrap, transactional_id=transactional_id)
    producer.close()
    with pytest.raises(penstock.KafkaError, match="producer is closed"), producer.transaction():
        pass


def test_arguments_of_a_wrong_kind_are_refused_with_a_sentence(broker: Broker, transactional_id: str) -> None:
    wrong: Any = "text"
    with penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer:
        with pytest.raises(TypeError, match="takes a Consumer, not str"):
            producer.transaction(wrong)
        nothing: Any = None
        with pytest.raises(TypeError, match="takes a Consumer first, not NoneType"):
            penstock.process(nothing, producer, lambda message: None)


@pytest.mark.parametrize(("given", "kind"), [(7, TypeError), (None, TypeError), (b"id", TypeError), ("", ValueError)])
def test_a_transactional_id_is_text(broker: Broker, given: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="transactional_id"):
        penstock.Producer(broker.bootstrap, transactional_id=given)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"commit": "sync"}, "Leave commit away"),
        ({"partitions": "all"}, "needs a group"),
        ({"delivery": "twice"}, "'at_most_once' or 'exactly_once'"),
    ],
)
def test_settings_that_do_not_go_together(broker: Broker, settings: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        penstock.Consumer("t", broker.bootstrap, **{"delivery": "exactly_once", **settings})


def exactly_once(broker: Broker, topic: str, group: str, **settings: Any) -> penstock.Consumer:
    return penstock.Consumer(topic, broker.bootstrap, group=group, delivery="exactly_once", **settings)


def test_the_position_moves_with_the_transaction(
    broker: Broker, filled: str, group: str, transactional_id: str
) -> None:
    with (
        exactly_once(broker, filled, group) as consumer,
        penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer,
    ):
        first = next(consumer)
        with pytest.raises(ValueError, match="committed by a producer's transaction"):
            consumer.commit()
        next(consumer)
        assert set(consumer.committed().values()) == {None}
        with producer.transaction(consumer):
            third = next(consumer)
        assert consumer.committed()[third.where] == third.offset + 1
        assert third.offset == 2
        assert first.offset == 0


def test_a_transaction_that_fails_takes_the_consumer_back(
    broker: Broker, filled: str, group: str, transactional_id: str
) -> None:
    with (
        exactly_once(broker, filled, group) as consumer,
        penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer,
    ):
        with producer.transaction(consumer):
            first = next(consumer)
        with pytest.raises(RuntimeError, match="mine"), producer.transaction(consumer):
            again = [next(consumer) for _ in range(15)]
            raise RuntimeError("mine")
        came = {(message.where, message.offset) for message in (next(consumer) for _ in range(19))}
        assert {(message.where, message.offset) for message in again} <= came
        assert len(came) == 19
        assert (first.where, first.offset) not in came


def copy_to(topic: str) -> Callable[[penstock.Message], Send]:
    return lambda message: Send(topic, message.value, partition=message.partition)


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once", "at_most_once"])
def test_process_copies_everything(
    broker: Broker, filled: str, new_topic: Callable[..., str], group: str, transactional_id: str, delivery: Any
) -> None:
    out = new_topic(partitions=2)
    settings: Any = {"transactional_id": transactional_id} if delivery == "exactly_once" else {}
    for expected in (20, 0):
        with (
            penstock.Consumer(filled, broker.bootstrap, group=group, delivery=delivery, stop_at_end=True) as consumer,
            penstock.Producer(broker.bootstrap, **settings) as producer,
        ):
            assert penstock.process(consumer, producer, copy_to(out), batch_size=7) == expected
    assert numbers(broker, out) == list(range(20))


def test_process_sends_nothing_one_or_several(
    broker: Broker, filled: str, topic: str, group: str, transactional_id: str
) -> None:
    def spread(message: penstock.Message) -> Any:
        number = int(message.value)
        if number < 8:
            return None
        return Send(topic, b"one") if number < 12 else [Send(topic, b"several")] * 2

    with (
        exactly_once(broker, filled, group, stop_at_end=True) as consumer,
        penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer,
    ):
        assert penstock.process(consumer, producer, spread) == 20
    assert values(broker, topic) == [b"one"] * 4 + [b"several"] * 16


def test_a_function_that_fails_ends_the_loop_and_nothing_of_its_transaction_is_seen(
    broker: Broker, filled: str, new_topic: Callable[..., str], group: str, transactional_id: str
) -> None:
    out = new_topic(partitions=2)
    is_broken = True

    def copy(message: penstock.Message) -> Send:
        if message.value == b"5" and is_broken:
            raise RuntimeError("mine")
        return copy_to(out)(message)

    with (
        exactly_once(broker, filled, group, stop_at_end=True) as consumer,
        penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer,
    ):
        with pytest.raises(RuntimeError, match="mine"):
            penstock.process(consumer, producer, copy)
        is_broken = False
        penstock.process(consumer, producer, copy)
    assert numbers(broker, out) == list(range(20))


NOT_SENDS = [("text", "gave str,"), (("a-topic", b"v"), "gave tuple of str,"), (b"v", "gave bytes,"), (7, "gave int,")]


@pytest.mark.parametrize(("made", "words"), NOT_SENDS)
def test_a_function_that_gives_no_send_ends_the_loop_and_moves_nothing(
    broker: Broker, filled: str, topic: str, group: str, transactional_id: str, made: Any, words: str
) -> None:
    def wrong_at_the_last(message: penstock.Message) -> Any:
        return made if message.offset == 9 else Send(topic, message.value)

    with (
        exactly_once(broker, filled, group, stop_at_end=True) as consumer,
        penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer,
    ):
        with pytest.raises(TypeError, match=f"{words} not a Send, a list of them or None"):
            penstock.process(consumer, producer, wrong_at_the_last)
        assert penstock.process(consumer, producer, lambda message: Send(topic, message.value)) > 0
    assert numbers(broker, topic) == list(range(20))


def test_an_async_function_that_gives_no_send_ends_the_loop_and_moves_nothing(
    broker: Broker, filled: str, topic: str, group: str, transactional_id: str
) -> None:
    async def wrong(message: penstock.Message) -> Any:
        return "text"

    async def scenario() -> int:
        settings: Any = {"group": group, "delivery": "exactly_once", "stop_at_end": True}
        async with (
            penstock.AsyncConsumer(filled, broker.bootstrap, **settings) as consumer,
            penstock.AsyncProducer(broker.bootstrap, transactional_id=transactional_id) as producer,
        ):
            with pytest.raises(TypeError, match="gave str, not a Send"):
                await penstock.async_process(consumer, producer, wrong)
            return await penstock.async_process(consumer, producer, lambda message: None)

    assert asyncio.run(scenario()) == 20
    assert values(broker, topic) == []


@pytest.mark.parametrize(
    ("bad", "code"),
    [("small", ErrorCode.MESSAGE_TOO_LARGE), ("no such/name", ErrorCode.INVALID_TOPIC_EXCEPTION)],
)
def test_a_message_that_can_never_be_delivered_is_not_tried_again(
    broker: Broker, filled: str, new_topic: Callable[..., str], group: str, transactional_id: str, bad: str, code: Any
) -> None:
    target = new_topic(max_message_bytes="1000") if bad == "small" else bad
    runs: list[int] = []

    def enlarge(message: penstock.Message) -> Send:
        runs.append(message.offset)
        return Send(target, b"v" * 5000)

    with (
        exactly_once(broker, filled, group, stop_at_end=True) as consumer,
        penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer,
    ):
        with pytest.raises(
            penstock.ClientError, match=f"he message for '{target}' was (not delivered|refused)"
        ) as failure:
            penstock.process(consumer, producer, enlarge, batch_size=1)
        # When the broker's answer comes while librdkafka takes the message, it refuses it itself, by a code of its own.
        is_refused = "was refused" in str(failure.value)
        expected = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_refused and bad != "small" else code
        assert (failure.value.code, failure.value.retriable) == (expected, False)
        assert len(runs) == 1
        assert penstock.process(consumer, producer, lambda message: None) == 20


def test_process_stops_when_it_is_told(
    broker: Broker, filled: str, topic: str, group: str, transactional_id: str
) -> None:
    stop = threading.Event()

    def copy(message: penstock.Message) -> Send:
        if message.value == b"19":
            stop.set()
        return Send(topic, message.value)

    with (
        exactly_once(broker, filled, group) as consumer,
        penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer,
    ):
        penstock.process(consumer, producer, copy, stop=stop)
    assert b"19" in values(broker, topic)


def test_a_rebalance_in_the_middle_aborts_and_the_next_owner_does_it_once(
    broker: Broker, filled: str, new_topic: Callable[..., str], group: str, transactional_id: str
) -> None:
    """A zombie has read, and processes; the group takes its partitions away; its transaction must not count."""
    out = new_topic(partitions=2)
    zombie = exactly_once(broker, filled, group, options={"max.poll.interval.ms": 6000, "session.timeout.ms": 6000})
    with zombie, penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as slow:
        with pytest.raises(penstock.TransactionAborted, match="done again"), slow.transaction(zombie):
            for message in zombie.poll_ready(5, DEADLINE_SECONDS):
                slow.send(*copy_to(out)(message))
            assert copy_the_rest(broker, filled, out, group) == 20
        rest = zombie.poll_ready(5, 5.0)
    assert rest == []
    assert numbers(broker, out) == list(range(20))


def copy_the_rest(broker: Broker, topic: str, out: str, group: str) -> int:
    """By another consumer of the group, which gets the partitions when the first one has not polled for long."""
    with (
        exactly_once(broker, topic, group, stop_at_end=True) as consumer,
        penstock.Producer(broker.bootstrap, transactional_id=f"{group}-heir") as producer,
    ):
        deadline, count = time.monotonic() + DEADLINE_SECONDS, 0
        while len(consumer.assignment) < 2 or count < 20:
            assert time.monotonic() < deadline
            count += penstock.process(consumer, producer, copy_to(out))
        return count


def test_polling_on_in_a_transaction_when_a_partition_goes_tears_it(
    broker: Broker, filled: str, new_topic: Callable[..., str], group: str, transactional_id: str
) -> None:
    """The consumer gives a partition up properly; what it read of it in this transaction is the next owner's."""
    out = new_topic(partitions=2)
    with (
        exactly_once(broker, filled, group) as first,
        penstock.Producer(broker.bootstrap, transactional_id=transactional_id) as producer,
    ):
        with pytest.raises(penstock.TransactionAborted, match="to another consumer"), producer.transaction(first):
            took = first.poll_ready(20, DEADLINE_SECONDS)
            while len({message.partition for message in took}) < 2:
                took += first.poll_ready(20, DEADLINE_SECONDS)
            for message in took:
                producer.send(*copy_to(out)(message))
            with exactly_once(broker, filled, group) as second:
                deadline = time.monotonic() + DEADLINE_SECONDS
                while len(second.assignment) != 1 or len(first.assignment) != 1:
                    assert time.monotonic() < deadline
                    first.poll_ready(20, 0.05)
                    second.poll(0.05)
    assert values(broker, out) == []


def test_the_async_twins(
    broker: Broker, filled: str, new_topic: Callable[..., str], group: str, transactional_id: str
) -> None:
    out, other = new_topic(partitions=2), new_topic()

    async def copy(message: penstock.Message) -> Send:
        await asyncio.sleep(0)
        return copy_to(out)(message)

    async def scenario() -> None:
        settings: Any = {"group": group, "delivery": "exactly_once", "stop_at_end": True}
        async with (
            penstock.AsyncConsumer(filled, broker.bootstrap, **settings) as consumer,
            penstock.AsyncProducer(broker.bootstrap, transactional_id=transactional_id) as producer,
        ):
            with pytest.raises(RuntimeError, match="mine"):
                async with producer.transaction(consumer):
                    for message in await consumer.poll_ready(5, DEADLINE_SECONDS):
                        await producer.send(other, message.value)
                    raise RuntimeError("mine")
            assert await penstock.async_process(consumer, producer, copy, batch_size=7) == 20
            with pytest.raises(asyncio.TimeoutError):
                async with asyncio.timeout(0.1), producer.transaction():
                    await producer.send(other, b"cancelled")
                    await asyncio.sleep(DEADLINE_SECONDS)
            async with producer.transaction():
                await producer.send(other, b"committed")

    asyncio.run(scenario())
    assert numbers(broker, out) == list(range(20))
    assert values(broker, other) == [b"committed"]


@pytest.mark.parametrize("delivery", ["at_least_once", "at_most_once"])
def test_the_async_loop_without_transactions(
    broker: Broker, filled: str, new_topic: Callable[..., str], group: str, delivery: Any
) -> None:
    out = new_topic(partitions=2)

    async def scenario() -> int:
        settings: Any = {"group": group, "delivery": delivery, "stop_at_end": True}
        async with (
            penstock.AsyncConsumer(filled, broker.bootstrap, **settings) as consumer,
            penstock.AsyncProducer(broker.bootstrap) as producer,
        ):
            return await penstock.async_process(consumer, producer, copy_to(out))

    assert asyncio.run(scenario()) == 20
    assert numbers(broker, out) == list(range(20))
