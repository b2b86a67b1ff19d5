"""M18: forget, wait for a future, callback; from many threads; several producers side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable

import confluent_kafka
import kafka

import penstock as library
from brokers import PenstockProcess
from clients import Confluent, Record


def test_m18_send_and_forget(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    topic = topic_on_penstock()
    producer = kafka.KafkaProducer(bootstrap_servers=penstock.bootstrap, acks=0, enable_idempotence=False)
    for number in range(100):
        producer.send(topic, b"%d" % number)
    producer.close()
    got = Confluent().consume(penstock.bootstrap, topic, 0, 100)
    assert [record.value for record in got] == [b"%d" % number for number in range(100)]


def test_m18_send_and_wait_for_the_result(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    topic = topic_on_penstock()
    producer = kafka.KafkaProducer(bootstrap_servers=penstock.bootstrap)
    results = [producer.send(topic, b"v").get(20) for _ in range(10)]
    producer.close()
    assert [(result.topic, result.partition, result.offset) for result in results] == [(topic, 0, n) for n in range(10)]


def test_m18_send_with_a_callback(penstock: PenstockProcess, topic_on_penstock: Callable[..., str]) -> None:
    topic = topic_on_penstock()
    producer = confluent_kafka.Producer({"bootstrap.servers": penstock.bootstrap})
    told: list[tuple[object, int | None]] = []
    for _ in range(10):
        producer.produce(topic, b"v", on_delivery=lambda error, message: told.append((error, message.offset())))
    assert producer.flush(20) == 0
    assert told == [(None, number) for number in range(10)]


def test_m18_many_threads_and_several_producers(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    producers = [confluent_kafka.Producer({"bootstrap.servers": penstock.bootstrap}) for _ in range(2)]

    def work(worker: int) -> None:
        for number in range(200):
            producers[worker % 2].produce(topic, b"%d %d" % (worker, number))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [producer.flush(30) for producer in producers] == [0, 0]
    got = [(record.value or b"").split() for record in Confluent().consume(penstock.bootstrap, topic, 0, 1200)]
    for worker in range(6):
        assert [int(number) for who, number in got if int(who) == worker] == list(range(200))


def test_m18_clients_of_every_kind_write_side_by_side(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    Confluent().produce(penstock.bootstrap, topic, [Record(b"c")] * 10)
    producer = kafka.KafkaProducer(bootstrap_servers=penstock.bootstrap)
    assert producer.send(topic, b"k").get(20).offset == 10
    producer.close()


def test_m18_our_own_producer_forgets_waits_and_calls_back_from_many_threads(
    penstock: PenstockProcess, topic_on_penstock: Callable[..., str]
) -> None:
    topic = topic_on_penstock()
    told: list[library.Delivery | None] = []
    with library.Producer(penstock.bootstrap) as producer:

        def work(worker: int) -> None:
            producer.send(topic, f"forgotten {worker}", forget=True)
            producer.send(topic, f"told {worker}", on_delivery=lambda delivery, _: told.append(delivery))
            assert producer.send(topic, f"waited {worker}").result(20).topic == topic

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    got = Confluent().consume(penstock.bootstrap, topic, 0, 15)
    ways = ("forgotten", "told", "waited")
    assert sorted((record.value or b"").decode() for record in got) == [f"{w} {n}" for w in ways for n in range(5)]
    assert len({delivery.offset for delivery in told if delivery is not None}) == 5
