"""Changes at runtime: what Apache Kafka 4.3 accepts and refuses, and with which code.

The cases were asked of a real one, except a null value of a topic's setting. What differs on purpose: listeners do not
change while Penstock runs, and min.insync.replicas of one broker can be set (Kafka refuses it with its ELR feature on).
"""

from __future__ import annotations

import pytest

from penstock.broker.config import BrokerConfig
from penstock.errors import ErrorCode, KafkaError

CONFIG = BrokerConfig.load(None, {}, ["log.dirs=/a"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "1048576"),
        ("segment.bytes", " 2097152 "),
        ("retention.ms", "-1"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete, compact"),
        ("cleanup.policy", "delete,delete"),
        ("compression.gzip.level", "-1"),
        ("preallocate", "TRUE"),
        ("min.cleanable.dirty.ratio", "1e-2"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("local.retention.ms", "700000000"),
        ("max.message.bytes", "2000000000"),
        ("min.insync.replicas", "5"),
        ("internal.segment.bytes", "5000"),
        ("remote.log.copy.disable", "true"),
    ],
)
def test_a_topic_may_have(name: str, value: str) -> None:
    assert CONFIG.validate_topic_configs({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such", "1"),
        ("", "5"),
        ("retention.ms", None),
        ("segment.bytes", "1000"),
        ("segment.bytes", "abc"),
        ("segment.bytes", ""),
        ("segment.bytes", "99999999999"),
        ("segment.index.bytes", "3"),
        ("retention.ms", "-2"),
        ("retention.ms", "7d"),
        ("cleanup.policy", "foo"),
        ("cleanup.policy", "none"),
        ("cleanup.policy", "delete,,compact"),
        ("compression.type", "GZIP"),
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "0"),
        ("preallocate", "yes"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "x"),
        ("max.compaction.lag.ms", "0"),
        ("message.timestamp.type", "LogAppendtime"),
        ("leader.replication.throttled.replicas", "abc"),
        ("leader.replication.throttled.replicas", "*,0:1"),
        ("remote.storage.enable", "true"),
        ("max.message.bytes", "-1"),
        ("min.insync.replicas", "0"),
    ],
)
def test_a_topic_may_not_have(name: str, value: str | None) -> None:
    with pytest.raises(KafkaError) as caught:
        CONFIG.validate_topic_configs({name: value})
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert name in caught.value.message


def test_a_topics_compaction_lags_must_not_cross() -> None:
    with pytest.raises(
        KafkaError, match=r"min\.compaction\.lag\.ms is 100, above max\.compaction\.lag\.ms, which is 50"
    ):
        CONFIG.validate_topic_configs({"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log.retention.ms", "60000"),
        ("log.retention.ms", "-5"),
        ("log.retention.bytes", "-9"),
        ("no.such", "3"),
        ("my.plugin.setting", "6"),
        ("background.threads", "5"),
        ("background.threads", "20"),
        ("leader.replication.throttled.rate", "1000"),
        ("max.connections.per.ip.overrides", "127.0.0.1:20"),
        ("log.cleanup.policy", ""),
        ("cordoned.log.dirs", "/a"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.plaintext.ssl.keystore.type", "JKS"),
        ("listener.name.plaintext.max.connections", "2"),
    ],
)
def test_a_broker_can_be_set_at_runtime_to(name: str, value: str) -> None:
    CONFIG.validate_broker_configs({name: value}, {}, per_broker=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num.partitions", "3"),
        ("log.retention.hours", "3"),
        ("advertised.listeners", "PLAINTEXT://x:1"),
        ("producer.id.expiration.check.interval.ms", "2"),
        ("ssl.keystore.type", "JKS"),
        ("background.threads", "0"),
        ("background.threads", "4"),
        ("background.threads", "100"),
        ("background.threads", "x"),
        ("log.cleaner.threads", "5"),
        ("leader.replication.throttled.rate", "-1"),
        ("message.max.bytes", "-5"),
        ("message.max.bytes", ""),
        ("log.segment.bytes", "100"),
        ("log.retention.ms", "0"),
        ("log.roll.ms", "0"),
        ("max.connections", "0"),
        ("max.connections.per.ip.overrides", "1.2.3.4:x"),
        ("log.message.timestamp.type", "x"),
        ("min.insync.replicas", "0"),
        ("compression.gzip.level", "0"),
        ("log.cleanup.policy", "foo"),
        ("cordoned.log.dirs", "/nope"),
    ],
)
def test_a_broker_cannot_be_set_at_runtime_to(name: str, value: str) -> None:
    with pytest.raises(KafkaError) as caught:
        CONFIG.validate_broker_configs({name: value}, {}, per_broker=True)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert name in caught.value.message


@pytest.mark.parametrize("name", ["listeners", "ssl.client.auth", "listener.name.plaintext.ssl.keystore.location"])
def test_some_settings_are_one_brokers_and_not_all_brokers(name: str) -> None:
    with pytest.raises(KafkaError, match="for one broker only") as caught:
        CONFIG.validate_broker_configs({name: "x"}, {}, per_broker=False)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_null_is_no_value() -> None:
    with pytest.raises(KafkaError, match="cannot be set to null") as caught:
        CONFIG.validate_dynamic_broker_config("background.threads", None)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_listeners_do_not_change_while_the_broker_runs() -> None:
    with pytest.raises(KafkaError, match="cannot be changed while the broker runs"):
        CONFIG.validate_dynamic_broker_config("listeners", "PLAINTEXT://:1")


def test_a_step_is_measured_from_the_value_in_force() -> None:
    running = CONFIG.with_dynamic({}, {"background.threads": "20"})
    running.validate_broker_configs({"background.threads": "40"}, {"background.threads": "20"}, per_broker=True)
    with pytest.raises(KafkaError, match="it is 20, and 41 was asked for"):
        running.validate_broker_configs({"background.threads": "41"}, {"background.threads": "20"}, per_broker=True)


def test_a_setting_that_stays_as_it_is_is_not_checked_again() -> None:
    CONFIG.validate_broker_configs({"background.threads": "100"}, {"background.threads": "100"}, per_broker=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [("consumer.session.timeout.ms", "50000"), ("share.auto.offset.reset", "by_duration:PT1H")],
)
def test_a_group_may_have(name: str, value: str) -> None:
    assert CONFIG.validate_group_configs({name: value}) == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumer.session.timeout.ms", "1000"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.session.timeout.ms", "x"),
        ("share.delivery.count.limit", "11"),
        ("streams.num.standby.replicas", "3"),
        ("share.auto.offset.reset", "x"),
        ("no.such", "5"),
    ],
)
def test_a_group_may_not_have(name: str, value: str) -> None:
    with pytest.raises(KafkaError) as caught:
        CONFIG.validate_group_configs({name: value})
    assert caught.value.code is ErrorCode.INVALID_CONFIG
