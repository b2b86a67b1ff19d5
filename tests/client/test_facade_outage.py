"""An outage is told once, and once that it is over."""

from __future__ import annotations

import logging
import socket

import confluent_kafka
import pytest

import penstock
from penstock.client.facade.outage import REPEAT_SECONDS, SETTLE_SECONDS, Outage

POLLS = 20


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def transport_error() -> confluent_kafka.KafkaError:
    return confluent_kafka.KafkaError(confluent_kafka.KafkaError._TRANSPORT, "refused")


def all_down() -> confluent_kafka.KafkaError:
    return confluent_kafka.KafkaError(confluent_kafka.KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("penstock.client")]


def test_an_outage_is_one_line_and_its_end_another(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("somewhere:9092", None, clock)
    for _ in range(100):
        outage.hear(transport_error())
        outage.hear(all_down())
    outage.on_message()  # fetched before
    assert outage.is_on
    clock.now += 7
    outage.on_message()
    assert len(told(caplog)) == 2
    assert "Trouble with somewhere:9092" in told(caplog)[0]
    assert told(caplog)[1] == "somewhere:9092 answers again, after 7 s."


def test_a_long_outage_is_told_of_again_and_so_is_the_next(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("somewhere:9092", None, clock)
    outage.hear(all_down())
    clock.now += REPEAT_SECONDS
    outage.hear(all_down())
    assert len(told(caplog)) == 2
    clock.now += SETTLE_SECONDS
    outage.on_message()
    outage.hear(all_down())
    assert len(told(caplog)) == 4


def test_one_broker_of_several_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("somewhere:9092", None, clock)
    for _ in range(100):
        outage.hear(transport_error())
        clock.now += 0.1
    assert not outage.is_on
    assert len(told(caplog)) == 1


def test_other_errors_are_all_told(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("somewhere:9092", None)
    for _ in range(3):
        outage.hear(confluent_kafka.KafkaError(confluent_kafka.KafkaError._AUTHENTICATION, "no"))
    assert len(told(caplog)) == 3
    assert not outage.is_on


def test_on_error_hears_of_every_error(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[penstock.KafkaError] = []
    outage = Outage("somewhere:9092", heard.append)
    for _ in range(3):
        outage.hear(transport_error())
    assert len(heard) == 3
    assert told(caplog) == []


def test_a_consumer_of_a_closed_port_says_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nobody else takes it, and it refuses
        bootstrap = f"127.0.0.1:{closed.getsockname()[1]}"
        with caplog.at_level(logging.INFO), penstock.Consumer("t", bootstrap) as consumer:
            for _ in range(POLLS):
                consumer.poll(0.1)
    assert len(told(caplog)) == 1
