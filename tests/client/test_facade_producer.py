"""`penstock.Producer` and its async twin, on Penstock and on Apache Kafka alike."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import penstock
from brokers import SOURCE, Broker
from clients import Confluent
from penstock.client.partitioner import murmur2_random
from ports import free_ports

NOW = datetime.now(UTC).replace(microsecond=0)
NOBODY = {"delivery.timeout.ms": 300, "request.timeout.ms": 200, "socket.timeout.ms": 300}


def values(broker: Broker, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in Confluent().consume(broker.bootstrap, topic, 0, count, partition=partition)]


def test_the_three_ways_to_send(broker: Broker, topic: str):
    told: list[tuple[penstock.Delivery | None, penstock.KafkaError | None]] = []
    with penstock.Producer(broker.bootstrap) as producer:
        assert producer.send(topic, b"future").result(20)[:3] == (topic, 0, 0)
        assert producer.send(topic, b"callback", on_delivery=lambda *it: told.append(it)) is None
        assert producer.send(topic, b"forgotten", forget=True) is None
    [(delivery, error)] = told
    assert error is None
    assert delivery is not None
    assert delivery[:3] == (topic, 0, 1)
    assert values(broker, topic, 3) == [b"future", b"callback", b"forgotten"]


def test_text_bytes_headers_times_and_tombstones_arrive(broker: Broker, topic: str):
    with penstock.Producer(broker.bootstrap) as producer:
        delivery = producer.send(topic, "grün", "key", {"a": "text", "b": b"\xff", "c": None}, timestamp=NOW).result(20)
        producer.send(topic, None, key=b"k", headers=[("twice", b"1"), ("twice", b"2")], timestamp=1_000_000_000_000)
    first, second = Confluent().consume(broker.bootstrap, topic, 0, 2)
    assert (first.value, first.key) == ("grün".encode(), b"key")
    assert first.headers == (("a", b"text"), ("b", b"\xff"), ("c", None))
    assert first.timestamp == delivery.timestamp == int(NOW.timestamp() * 1000)
    assert (second.value, second.headers) == (None, (("twice", b"1"), ("twice", b"2")))
    assert second.timestamp == 1_000_000_000_000


def test_serializers_may_give_text(broker: Broker, topic: str):
    with penstock.Producer(broker.bootstrap, value_serializer=json.dumps, key_serializer=str) as producer:
        producer.send(topic, {"n": 1}, key=42).result(20)
        producer.send(topic, None, key=42).result(20)
    first, second = Confluent().consume(broker.bootstrap, topic, 0, 2)
    assert (first.key, first.value) == (b"42", b'{"n": 1}')
    assert second.value is None


def test_a_value_that_is_no_bytes_is_a_sentence(broker: Broker, topic: str):
    with penstock.Producer(broker.bootstrap) as producer, pytest.raises(TypeError, match="value_serializer"):
        producer.send(topic, {"n": 1})


def test_partition_by_number_key_balance_and_function(broker: Broker, new_topic: Callable[..., str]):
    topic = new_topic(partitions=4)
    keys = [b"%d" % number for number in range(40)]
    with penstock.Producer(broker.bootstrap, options={"sticky.partitioning.linger.ms": 0}) as producer:
        assert producer.send(topic, b"v", partition=3).result(20).partition == 3
        by_key = {key: producer.send(topic, b"v", key=key) for key in keys}
        assert {key: sent.result(20).partition for key, sent in by_key.items()} == {
            key: murmur2_random(key, 4) for key in keys
        }
        balanced = Counter(sent.result(20).partition for sent in [producer.send(topic, b"v") for _ in range(400)])
        assert set(balanced) == {0, 1, 2, 3}
    with penstock.Producer(broker.bootstrap, partitioner=lambda key, count: int(key or 0) % count) as producer:
        sent = [producer.send(topic, b"v", key=str(number)) for number in range(10)]
        assert [each.result(20).partition for each in sent] == [number % 4 for number in range(10)]


def test_many_threads_share_one_producer(broker: Broker, topic: str):
    with penstock.Producer(broker.bootstrap) as producer:

        def work(worker: int) -> None:
            for number in range(200):
                producer.send(topic, b"%d %d" % (worker, number), forget=True)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    got = [(value or b"").split() for value in values(broker, topic, 800)]
    for worker in range(4):
        assert [int(number) for who, number in got if int(who) == worker] == list(range(200))


def test_a_message_that_is_too_large_is_refused_at_once(broker: Broker, topic: str):
    with penstock.Producer(broker.bootstrap) as producer:
        with pytest.raises(penstock.KafkaError, match="refused"):
            producer.send(topic, b"x" * 2_000_000)
        assert producer.send(topic, b"small").result(20).offset == 0


def test_a_full_buffer_makes_send_wait(broker: Broker, topic: str):
    with penstock.Producer(broker.bootstrap, options={"queue.buffering.max.messages": 10}) as producer:
        sent = [producer.send(topic, b"v") for _ in range(200)]
        assert [each.result(20).offset for each in sent] == list(range(200))


def test_acks_0_tells_no_offset(broker: Broker, topic: str):
    with penstock.Producer(broker.bootstrap, options={"acks": 0}) as producer:
        assert producer.send(topic, b"v").result(20).offset is None


def test_a_callback_that_raises_does_not_stop_the_others(broker: Broker, topic: str, caplog: pytest.LogCaptureFixture):
    def bad(delivery: object, error: object) -> None:
        raise RuntimeError("mine")

    with penstock.Producer(broker.bootstrap) as producer:
        producer.send(topic, b"1", on_delivery=bad)
        assert producer.send(topic, b"2").result(20).offset == 1


def test_any_option_of_librdkafka_goes_through_and_raw_is_there(broker: Broker, topic: str):
    with penstock.Producer(broker.bootstrap, options={"compression.type": "zstd", "linger.ms": 1}) as producer:
        producer.send(topic, b"v" * 1000).result(20)
        assert topic in producer.raw.list_topics(timeout=20).topics
    with pytest.raises(penstock.KafkaError, match=r"no\.such\.option"):
        penstock.Producer(broker.bootstrap, options={"no.such.option": 1})


def test_an_unknown_keyword_says_where_options_go():
    with pytest.raises(TypeError, match=r"linger_ms.*options="):
        penstock.Producer(linger_ms=5)  # type: ignore[call-arg]


def test_without_a_broker_the_failure_is_a_sentence():
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    heard: list[penstock.KafkaError] = []
    producer = penstock.Producer(nowhere, options=NOBODY, on_error=heard.append)
    lost = producer.send("orders", b"v")
    with pytest.raises(penstock.ClientError, match=r"'orders' was not delivered.*reachable") as caught:
        lost.result(20)
    assert caught.value.code.name == "REQUEST_TIMED_OUT"
    assert caught.value.raw.name() == "_MSG_TIMED_OUT"
    producer.send("orders", b"v", forget=True)
    producer.close()
    assert any("'orders' was not delivered" in str(error) for error in heard)
    assert any("penstock serve" in str(error) for error in heard)


def test_what_is_given_up_at_the_end_is_an_error():
    producer = penstock.Producer(f"127.0.0.1:{free_ports(1)[0]}", on_error=lambda error: None)
    lost = producer.send("orders", b"v")
    with pytest.raises(penstock.KafkaError, match="1 messages were not delivered"):
        producer.close(timeout=0.2)
    with pytest.raises(penstock.KafkaError, match="'orders' was not delivered"):
        lost.result(20)
    producer.close()


def test_a_producer_that_nobody_closed_delivers_at_the_end_of_the_program(broker: Broker, topic: str):
    program = f"import penstock; penstock.Producer({broker.bootstrap!r}).send({topic!r}, 'last words')"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env={"PYTHONPATH": str(SOURCE)})
    assert values(broker, topic, 1) == [b"last words"]


def test_importing_penstock_loads_no_client_library():
    program = "import penstock, sys; print('confluent_kafka' in sys.modules, 'asyncio' in sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}
    )
    assert told.stdout.split() == ["False", "False"]


def test_without_confluent_kafka_the_import_says_what_to_install():
    program = "import sys; sys.modules['confluent_kafka'] = None\nimport penstock\npenstock.Producer()"
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": str(SOURCE)}
    )
    assert told.returncode == 1
    assert "pip install 'penstock[client]'" in told.stderr.splitlines()[-1]


# The async twin


def test_async_the_three_ways_to_send(broker: Broker, topic: str):
    async def scenario() -> list[object]:
        told: list[object] = []
        async with penstock.AsyncProducer(broker.bootstrap) as producer:
            first = await producer.send_and_wait(topic, b"waited", headers={"h": b"v"})
            future = await producer.send(topic, b"future")
            await producer.send(topic, b"callback", on_delivery=lambda delivery, error: told.append(delivery))
            await producer.send(topic, b"forgotten", forget=True)
            second = await future
            await producer.flush()
        return [first.offset, second.offset, told[0][2]]  # type: ignore[index]

    assert asyncio.run(scenario()) == [0, 1, 2]
    assert values(broker, topic, 4) == [b"waited", b"future", b"callback", b"forgotten"]


def test_async_order_is_kept_when_the_buffer_is_full(broker: Broker, topic: str):
    async def scenario() -> None:
        async with penstock.AsyncProducer(broker.bootstrap, options={"queue.buffering.max.messages": 10}) as producer:
            sent = [asyncio.create_task(producer.send_and_wait(topic, b"%d" % number)) for number in range(300)]
            assert [(await each).offset for each in sent] == list(range(300))

    asyncio.run(scenario())
    assert values(broker, topic, 300) == [b"%d" % number for number in range(300)]


def test_async_failures_are_exceptions_and_a_cancelled_wait_harms_nothing():
    async def scenario() -> None:
        nowhere = f"127.0.0.1:{free_ports(1)[0]}"
        heard: list[penstock.KafkaError] = []
        async with penstock.AsyncProducer(nowhere, options=NOBODY, on_error=heard.append) as producer:
            cancelled = await producer.send("orders", b"v")
            cancelled.cancel()
            await producer.send("orders", b"v", forget=True)
            with pytest.raises(penstock.ClientError, match="not delivered"):
                await producer.send_and_wait("orders", b"v")
        assert any("not delivered" in str(error) for error in heard)

    asyncio.run(scenario())


def test_a_datetime_without_a_zone_is_local_time(broker: Broker, topic: str):
    naive = datetime.now() - timedelta(hours=1)  # noqa: DTZ005 a user's own
    with penstock.Producer(broker.bootstrap) as producer:
        assert producer.send(topic, b"v", timestamp=naive).result(20).timestamp == int(naive.timestamp() * 1000)
