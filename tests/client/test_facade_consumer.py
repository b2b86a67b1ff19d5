"""`penstock.Consumer` and its async twin, without a group, on Penstock and on Apache Kafka alike."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import penstock
from brokers import Broker
from clients import Confluent, Record
from penstock import TopicPartition

HOUR = timedelta(hours=1)
NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def filled(broker: Broker, topic: str) -> str:
    """A topic of ten messages, the last five an hour later than the first."""
    stamps = [int((NOW - HOUR if number < 5 else NOW).timestamp() * 1000) for number in range(10)]
    records = [Record(b"%d" % number, timestamp=stamp) for number, stamp in enumerate(stamps)]
    Confluent().produce(broker.bootstrap, topic, records)
    return topic


def reader(broker: Broker, topics: str | list[str], **settings: Any) -> penstock.Consumer:
    """A consumer that reads to the end and stops."""
    return penstock.Consumer(topics, broker.bootstrap, **{"partitions": "all", "stop_at_end": True, **settings})


def offsets(messages: Iterator[penstock.Message] | penstock.Consumer) -> list[int]:
    return [message.offset for message in messages]


def test_iterating_gives_messages_with_everything(broker: Broker, topic: str):
    Confluent().produce(
        broker.bootstrap, topic, [Record(b'{"n": 1}', b"k", (("h", b"v"),), int(NOW.timestamp() * 1000))]
    )
    with reader(broker, topic, value_deserializer=json.loads, key_deserializer=bytes.decode) as consumer:
        [message] = consumer
    assert (message.topic, message.partition, message.offset) == (topic, 0, 0)
    assert (message.key, message.value, message.headers) == ("k", {"n": 1}, [("h", b"v")])
    assert message.time == NOW
    assert message.raw.value() == b'{"n": 1}'
    assert topic in repr(message)


def test_one_bad_message_does_not_end_the_loop(broker: Broker, topic: str):
    Confluent().produce(broker.bootstrap, topic, [Record(b"1"), Record(b"no json"), Record(b"3"), Record(None)])
    good, bad = [], []
    with reader(broker, topic, value_deserializer=json.loads) as consumer:
        for message in consumer:
            try:
                good.append(message.value)
            except penstock.DecodingError as error:
                bad.append((error.message.offset, str(error)))
    assert good == [1, 3, None]
    assert bad[0][0] == 1
    assert f"value of the message at offset 1 of {topic}-0 cannot be decoded" in bad[0][1]


def test_batches_have_at_most_the_size_and_at_least_one(broker: Broker, filled: str):
    with reader(broker, filled) as consumer:
        sizes = [len(batch) for batch in consumer.batches(4, 0.2)]
    assert sum(sizes) == 10
    assert max(sizes) <= 4
    assert min(sizes) >= 1


def test_polling_waits_no_longer_than_asked(broker: Broker, filled: str):
    with penstock.Consumer(filled, broker.bootstrap, partitions=[0]) as consumer:
        assert [consumer.poll(20).offset for _ in range(10)] == list(range(10))  # type: ignore[union-attr]
        assert consumer.poll(0.05) is None
        assert consumer.poll_batch(10, 0.05) == []


def test_many_topics_and_many_partitions(broker: Broker, new_topic: Callable[..., str]):
    first, second = new_topic(partitions=3), new_topic(partitions=2)
    with penstock.Producer(broker.bootstrap) as producer:
        for topic, count in ((first, 3), (second, 2)):
            for partition in range(count):
                producer.send(topic, b"v", partition=partition, forget=True)
    with reader(broker, [first, second]) as consumer:
        assert len(consumer.assignment) == 5
        assert {message.where for message in consumer} == set(consumer.assignment)
    with reader(broker, first, partitions=[1]) as consumer:
        assert {message.where for message in consumer} == {TopicPartition(first, 1)}


def test_start_at_the_earliest_the_latest_or_a_time(broker: Broker, filled: str):
    for start, expected in (("earliest", 0), (NOW - 2 * HOUR, 0), (NOW - HOUR / 2, 5), (NOW, 5)):
        with reader(broker, filled, start=start) as consumer:
            assert offsets(consumer) == list(range(expected, 10)), start
    for start in ("latest", NOW + HOUR):
        with penstock.Consumer(filled, broker.bootstrap, partitions=[0], start=start) as consumer:
            Confluent().produce(broker.bootstrap, filled, [Record(b"new")])
            message = consumer.poll(20)
            assert message is not None
            assert message.value == b"new", start


def test_seek_by_offset_by_time_and_to_the_ends(broker: Broker, filled: str):
    with reader(broker, filled) as consumer:
        assert len(list(consumer)) == 10
        consumer.seek(7)
        assert offsets(consumer) == [7, 8, 9]
        consumer.seek(NOW - HOUR / 2)
        assert offsets(consumer) == [5, 6, 7, 8, 9]
        consumer.seek("earliest", [TopicPartition(filled, 0)])
        assert len(list(consumer)) == 10
        consumer.seek("latest")
        assert offsets(consumer) == []


def test_seek_right_after_the_start_and_in_the_middle(broker: Broker, filled: str):
    with reader(broker, filled) as consumer:
        consumer.seek(8)
        assert next(consumer).offset == 8
        consumer.seek(2)
        assert next(consumer).offset == 2


def test_a_wrong_seek_is_a_sentence(broker: Broker, filled: str):
    with reader(broker, filled) as consumer:
        with pytest.raises(ValueError, match="not one of this consumer's partitions"):
            consumer.seek(0, [TopicPartition(filled, 9)])
        with pytest.raises(ValueError, match="yesterday"):
            consumer.seek("yesterday")  # type: ignore[arg-type]


def test_a_paused_partition_gives_nothing_until_it_is_resumed(broker: Broker, new_topic: Callable[..., str]):
    topic = new_topic(partitions=2)
    with penstock.Consumer(topic, broker.bootstrap, partitions="all") as consumer:
        consumer.pause([TopicPartition(topic, 0)])
        for partition in (0, 1):
            Confluent().produce(broker.bootstrap, topic, [Record(b"v")], partition=partition)
        message = consumer.poll(20)
        assert message is not None
        assert message.partition == 1
        assert consumer.poll(0.3) is None
        consumer.resume()
        message = consumer.poll(20)
        assert message is not None
        assert message.partition == 0


def test_lag_is_what_is_left(broker: Broker, filled: str):
    with reader(broker, filled) as consumer:
        for _ in range(4):
            next(consumer)
        assert consumer.lag() == {TopicPartition(filled, 0): 6}


def test_without_a_group_nothing_is_committed(broker: Broker, filled: str):
    with reader(broker, filled) as consumer:
        next(consumer)
        with pytest.raises(ValueError, match="without a group"):
            consumer.commit()


def test_a_topic_that_is_not_there_is_a_sentence(broker: Broker, name: str):
    with pytest.raises(penstock.KafkaError, match=f"{name}.*no such topic"):
        reader(broker, name, options={"allow.auto.create.topics": False})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"delivery": "perhaps"}, "at_least_once"),
        ({"commit": "sometimes"}, "'auto', 'sync', 'async' or 'manual'"),
        ({"commit": "async", "delivery": "at_most_once"}, "does not go with"),
        ({"start": "tomorrow"}, "'earliest', 'latest' or a datetime"),
        ({"group": "g", "partitions": [0]}, "not both"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_happens(settings: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        penstock.Consumer("t", **settings)


def test_an_unknown_keyword_says_where_options_go():
    with pytest.raises(TypeError, match=r"fetch_min_bytes.*options="):
        penstock.Consumer("t", fetch_min_bytes=1)  # type: ignore[call-arg]


def test_a_wrong_option_is_a_sentence():
    with pytest.raises(penstock.KafkaError, match=r"The consumer was not made: .*no\.such\.option"):
        penstock.Consumer("t", options={"no.such.option": 1})


# The async twin


def test_async_iteration_batches_seek_and_end(broker: Broker, filled: str):
    async def scenario() -> None:
        settings: Any = {"partitions": "all", "stop_at_end": True}
        async with penstock.AsyncConsumer(filled, broker.bootstrap, **settings) as consumer:
            assert [message.offset async for message in consumer] == list(range(10))
            assert await consumer.lag() == {TopicPartition(filled, 0): 0}
            await consumer.seek(7)
            assert [message.offset async for message in consumer] == [7, 8, 9]
            await consumer.seek(NOW - HOUR / 2)
            assert [message.offset async for batch in consumer.batches(2, 0.2) for message in batch] == [5, 6, 7, 8, 9]
            await consumer.seek("earliest")
            first = await consumer.poll(20)
            assert first is not None
            assert first.offset == 0
            await consumer.seek(3)
            assert [message.offset for message in await consumer.poll_batch(2, 20)] == [3, 4]

    asyncio.run(scenario())


def test_async_a_cancelled_wait_loses_no_message(broker: Broker, topic: str):
    async def scenario() -> list[bytes]:
        got = []
        async with penstock.AsyncConsumer(topic, broker.bootstrap, partitions=[0]) as consumer:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(consumer), 0.05)
            sending = asyncio.to_thread(
                Confluent().produce, broker.bootstrap, topic, [Record(b"%d" % number) for number in range(50)]
            )
            task = asyncio.create_task(sending)
            while len(got) < 50:
                try:
                    got.append((await asyncio.wait_for(anext(consumer), 0.01)).value)
                except TimeoutError:
                    continue
            await task
        return got

    assert asyncio.run(scenario()) == [b"%d" % number for number in range(50)]


def test_async_the_loop_goes_on_while_the_consumer_waits(broker: Broker, topic: str):
    async def scenario() -> int:
        turns = 0
        async with penstock.AsyncConsumer(topic, broker.bootstrap, partitions=[0]) as consumer:
            waiting = asyncio.create_task(consumer.poll(0.3))
            while not waiting.done():
                await asyncio.sleep(0.01)
                turns += 1
            assert await waiting is None
        return turns

    assert asyncio.run(scenario()) >= 3
