"""Listeners: what is opened, what clients are told, and the sentence for each mistake."""

from __future__ import annotations

import pytest

from penstock.broker.config import BrokerConfig, Listener
from penstock.errors import ConfigError


def load(*overrides: str) -> BrokerConfig:
    return BrokerConfig.load(None, {}, overrides)


def problem(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*overrides)
    return str(caught.value)


def test_by_default_only_this_machine_can_connect() -> None:
    config = load()
    assert config.listeners == (Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),)
    assert config.listeners[0].is_loopback
    assert config.advertised_listeners == ()


@pytest.mark.parametrize(
    ("text", "host", "port", "is_loopback"),
    [
        ("PLAINTEXT://:9092", "", 9092, False),
        ("PLAINTEXT://0.0.0.0:9092", "0.0.0.0", 9092, False),
        ("PLAINTEXT://localhost:0", "localhost", 0, True),
        ("PLAINTEXT://127.0.0.7:1", "127.0.0.7", 1, True),
        ("PLAINTEXT://[::1]:65535", "::1", 65535, True),
        ("PLAINTEXT://[::]:9092", "::", 9092, False),
        ("PLAINTEXT://[2001:DB8::0:1]:9092", "2001:db8::1", 9092, False),
        ("plaintext://kafka-1.example.com:9092", "kafka-1.example.com", 9092, False),
    ],
)
def test_a_listener_is_read(text: str, host: str, port: int, is_loopback: bool) -> None:
    (listener,) = load(f"listeners={text}").listeners
    assert listener == Listener("PLAINTEXT", "PLAINTEXT", host, port)
    assert listener.is_loopback == is_loopback


def test_a_listener_is_written_as_it_is_read() -> None:
    for text in ("PLAINTEXT://:9092", "PLAINTEXT://[::1]:9092", "PLAINTEXT://a.b:1"):
        assert str(load(f"listeners={text}").listeners[0]) == text


def test_a_name_stands_for_the_protocol_that_the_map_says() -> None:
    config = load(
        "listeners=INSIDE://:1,OUTSIDE://:2", "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:plaintext"
    )
    assert [(listener.name, listener.protocol) for listener in config.listeners] == [
        ("INSIDE", "PLAINTEXT"),
        ("OUTSIDE", "PLAINTEXT"),
    ]


def test_ipv4_and_ipv6_may_share_a_port() -> None:
    map_setting = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    assert len(load("listeners=A://127.0.0.1:9092,B://[::1]:9092", map_setting).listeners) == 2
    assert "port 9092 twice" in problem("listeners=A://127.0.0.1:9092,B://127.0.0.2:9092", map_setting)
    assert "port 9092 twice" in problem("listeners=A://:9092,B://[::1]:9092", map_setting)


def test_any_free_port_may_be_asked_for_twice() -> None:
    map_setting = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    assert len(load("listeners=A://127.0.0.1:0,B://127.0.0.1:0", map_setting).listeners) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("9092", "listeners has '9092'. Write NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092."),
        ("PLAINTEXT://127.0.0.1", "listeners has 'PLAINTEXT://127.0.0.1'. Write NAME://HOST:PORT, such as"),
        ("PLAINTEXT://::1:9092", "listeners has 'PLAINTEXT://::1:9092'. Write NAME://HOST:PORT"),
        ("PLAINTEXT://[::zz]:9092", "'::zz' is no IPv6 address."),
        ("PLAINTEXT://:70000", "has the port 70000 in 'PLAINTEXT://:70000'; a port is between 0 and 65535."),
        ("PLAINTEXT://:-1", "has the port -1"),
        ("SSL://:9093", "with the protocol SSL, which Penstock does not speak yet. So far it speaks PLAINTEXT."),
        ("SASL_PLAINTEXT://:9093", "with the protocol SASL_PLAINTEXT, which Penstock does not speak yet."),
        ("INSIDE://:9092", "listener.security.protocol.map does not say which protocol that is. Add INSIDE:PLAINTEXT"),
        ("PLAINTEXT://:1,PLAINTEXT://:2", "listeners has two listeners named PLAINTEXT."),
        ("", "listeners has no address that clients could use. Write listeners=PLAINTEXT://127.0.0.1:9092."),
    ],
)
def test_a_wrong_listener_gets_a_sentence(text: str, sentence: str) -> None:
    found = problem(f"listeners={text}")
    assert found.startswith("command line: listeners has ")
    assert sentence in found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("A", "must be NAME:PROTOCOL pairs, not 'A'"),
        ("A:TLS", "has the protocol 'TLS' for A. The protocols are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."),
        ("A:PLAINTEXT,A:SSL", "names A twice"),
    ],
)
def test_a_wrong_protocol_map_gets_a_sentence(text: str, sentence: str) -> None:
    assert sentence in problem(f"listener.security.protocol.map={text}")


def test_clients_are_told_another_address_when_it_is_given() -> None:
    config = load("listeners=PLAINTEXT://:9092", "advertised.listeners=PLAINTEXT://kafka.example.com:19092")
    assert config.advertised_listeners == (Listener("PLAINTEXT", "PLAINTEXT", "kafka.example.com", 19092),)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("PLAINTEXT://0.0.0.0:9092", "tells clients to connect to 0.0.0.0, which is no address of a machine."),
        ("OTHER://a:1", "no listener is named OTHER. The listeners are PLAINTEXT."),
        ("PLAINTEXT://a:1,PLAINTEXT://b:2", "advertised.listeners has two listeners named PLAINTEXT."),
        ("a:1", "Write NAME://HOST:PORT"),
    ],
)
def test_a_wrong_advertised_listener_gets_a_sentence(text: str, sentence: str) -> None:
    assert sentence in problem(f"advertised.listeners={text}")


def test_brokers_talk_on_a_listener_that_exists() -> None:
    assert load("inter.broker.listener.name=PLAINTEXT").get("inter.broker.listener.name") == "PLAINTEXT"
    assert "inter.broker.listener.name is INSIDE, but the listeners are PLAINTEXT." in problem(
        "inter.broker.listener.name=INSIDE"
    )


def test_the_listener_of_kafkas_controllers_is_dropped_with_a_notice() -> None:
    config = load("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", "controller.listener.names=CONTROLLER")
    assert [listener.name for listener in config.listeners] == ["PLAINTEXT"]
    assert config.warnings == (
        "The listener CONTROLLER://:9093 is for Kafka's controllers. Penstock has none: not opened.",
    )
