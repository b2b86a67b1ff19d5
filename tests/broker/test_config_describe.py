"""DescribeConfigs' rows: values, sources and synonyms as a real Apache Kafka 4.3 gave them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.broker.config import BrokerConfig, DescribedConfig, Source
from penstock.broker.settings.setting import Type

KAFKA = Path(__file__).resolve().parents[2].parent / "shared" / "kafka-protocol" / "settings-4.3.0.json"

TOPIC, BROKER, ALL_BROKERS = (
    Source.DYNAMIC_TOPIC_CONFIG,
    Source.DYNAMIC_BROKER_CONFIG,
    Source.DYNAMIC_DEFAULT_BROKER_CONFIG,
)
STATIC, DEFAULT = Source.STATIC_BROKER_CONFIG, Source.DEFAULT_CONFIG


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    """The settings that the real one was started with."""
    path = tmp_path / "server.properties"
    path.write_text(
        "node.id=1\nlog.retention.hours=100\nssl.keystore.password=abc\nmy.plugin.setting=5\n"
        "listeners=PLAINTEXT://127.0.0.1:21100\n"
    )
    return BrokerConfig.load(path, {}, ())


def by_name(rows: list[DescribedConfig]) -> dict[str, DescribedConfig]:
    return {row.name: row for row in rows}


def topic(config: BrokerConfig, **overrides: str) -> dict[str, DescribedConfig]:
    own = {name.replace("_", "."): value for name, value in overrides.items()}
    return by_name(config.describe_topic(own, include_synonyms=True))


def broker(config: BrokerConfig) -> dict[str, DescribedConfig]:
    return by_name(config.describe_broker(include_synonyms=True))


def test_a_topic_has_kafkas_settings_and_an_internal_one_when_it_is_set(config: BrokerConfig) -> None:
    assert len(topic(config)) == 33
    assert len(topic(config, internal_segment_bytes="5000")) == 34


def test_a_topics_own_value_stands_before_the_brokers(config: BrokerConfig) -> None:
    row = topic(config, cleanup_policy="compact, delete")["cleanup.policy"]
    assert (row.value, row.source) == ("compact,delete", TOPIC)
    assert row.synonyms == (("cleanup.policy", "compact,delete", TOPIC), ("log.cleanup.policy", "delete", DEFAULT))


def test_an_unset_topic_setting_shows_the_brokers(config: BrokerConfig) -> None:
    row = topic(config)["segment.bytes"]
    assert (row.value, row.source) == ("1073741824", DEFAULT)
    assert row.synonyms == (("log.segment.bytes", "1073741824", DEFAULT),)


def test_a_setting_given_in_other_words_has_its_value_but_no_synonyms(config: BrokerConfig) -> None:
    row = topic(config)["retention.ms"]
    assert (row.value, row.source, row.synonyms) == ("360000000", DEFAULT, ())
    assert broker(config)["log.retention.ms"].synonyms == ()


def test_every_layer_is_listed_the_strongest_first(config: BrokerConfig) -> None:
    running = config.with_dynamic({"log.retention.ms": "70000"}, {"log.retention.ms": "60000"})
    below = (
        ("log.retention.ms", "60000", BROKER),
        ("log.retention.ms", "70000", ALL_BROKERS),
        ("log.retention.hours", "100", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    )
    assert broker(running)["log.retention.ms"].synonyms == below
    assert topic(running)["retention.ms"].synonyms == below
    assert topic(running)["retention.ms"].source is BROKER
    assert topic(running, retention_ms="1000")["retention.ms"].synonyms == (("retention.ms", "1000", TOPIC), *below)
    assert broker(running)["log.retention.hours"].synonyms == below[2:]


def test_a_setting_of_the_same_name_in_topic_and_broker_is_listed_twice(config: BrokerConfig) -> None:
    row = topic(config, compression_gzip_level="-1")["compression.gzip.level"]
    assert row.synonyms == (("compression.gzip.level", "-1", TOPIC), ("compression.gzip.level", "-1", DEFAULT))


def test_doubles_and_booleans_are_printed_as_kafka_prints_them(config: BrokerConfig) -> None:
    rows = topic(config, min_cleanable_dirty_ratio="0.0001", preallocate="TRUE")
    assert rows["min.cleanable.dirty.ratio"].value == "1.0E-4"
    assert rows["preallocate"].value == "true"
    assert broker(config)["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"


def test_a_broker_shows_what_it_was_given(config: BrokerConfig) -> None:
    rows = broker(config)
    assert rows["log.retention.hours"].synonyms == (
        ("log.retention.hours", "100", STATIC),
        ("log.retention.hours", "168", DEFAULT),
    )
    assert (rows["broker.id"].value, rows["broker.id"].source) == ("1", STATIC)
    assert rows["listeners"].value == "PLAINTEXT://127.0.0.1:21100"
    assert rows["log.flush.interval.ms"].value is None
    assert rows["num.partitions"].read_only
    assert not rows["log.retention.ms"].read_only
    assert rows["log.retention.ms"].type is Type.LONG


def test_a_secret_is_never_shown(config: BrokerConfig) -> None:
    row = broker(config)["ssl.keystore.password"]
    assert (row.value, row.source, row.is_sensitive) == (None, STATIC, True)
    assert row.synonyms == (("ssl.keystore.password", None, STATIC),)
    assert "abc" not in repr(config.describe_broker(include_synonyms=True, include_docs=True))


def test_a_plugins_setting_is_listed_without_its_value(config: BrokerConfig) -> None:
    row = broker(config)["my.plugin.setting"]
    assert (row.value, row.source, row.is_sensitive, row.read_only) == (None, STATIC, True, True)
    assert row.type is Type.UNKNOWN
    assert row.synonyms == (("my.plugin.setting", None, STATIC),)


def test_hidden_settings_are_listed_only_when_they_are_set(config: BrokerConfig) -> None:
    assert "producer.id.expiration.check.interval.ms" not in broker(config)
    assert "leader.replication.throttled.rate" not in broker(config)
    running = config.with_dynamic(
        {"leader.replication.throttled.rate": "2000"}, {"leader.replication.throttled.rate": "1000"}
    )
    row = broker(running)["leader.replication.throttled.rate"]
    assert (row.value, row.source, row.read_only) == ("1000", BROKER, False)


def test_a_listeners_setting_lists_the_one_behind_it(config: BrokerConfig) -> None:
    name = "listener.name.plaintext.ssl.keystore.type"
    row = broker(config.with_dynamic({}, {name: "JKS"}))[name]
    assert (row.value, row.source, row.read_only, row.type) == ("JKS", BROKER, True, Type.STRING)
    assert row.synonyms == ((name, "JKS", BROKER), ("ssl.keystore.type", "JKS", DEFAULT))


def test_all_brokers_show_only_what_was_set_for_all(config: BrokerConfig) -> None:
    running = config.with_dynamic({"log.retention.ms": "70000", "no.such": "3"}, {"background.threads": "5"})
    rows = by_name(running.describe_broker_default(include_synonyms=True))
    assert set(rows) == {"log.retention.ms", "no.such"}
    assert rows["log.retention.ms"].synonyms == (("log.retention.ms", "70000", ALL_BROKERS),)
    assert rows["no.such"].value is None
    assert config.describe_broker_default() == []


def test_a_group_shows_its_own_value_and_the_brokers(config: BrokerConfig) -> None:
    rows = by_name(config.describe_group({"consumer.session.timeout.ms": "50000"}, include_synonyms=True))
    assert len(rows) == 17
    assert rows["consumer.session.timeout.ms"].synonyms == (
        ("consumer.session.timeout.ms", "50000", Source.GROUP_CONFIG),
        ("group.consumer.session.timeout.ms", "45000", DEFAULT),
    )
    assert rows["share.isolation.level"].synonyms == (("share.isolation.level", "read_uncommitted", DEFAULT),)


def test_only_what_is_asked_for_is_given(config: BrokerConfig) -> None:
    (row,) = config.describe_topic({}, ["segment.bytes", "no.such"])
    assert (row.name, row.synonyms, row.documentation) == ("segment.bytes", (), None)
    (row,) = config.describe_topic({}, ["segment.bytes"], include_docs=True)
    assert row.documentation == "At which size, in bytes, a segment is closed and the next one begins."
    assert len(config.describe_topic({}, [])) == 33


@pytest.mark.skipif(not KAFKA.exists(), reason="Kafka's list of settings is not beside the repository")
@pytest.mark.parametrize("kind", ["topic", "group"])
def test_synonyms_of_defaults_are_those_of_kafka(kind: str) -> None:
    fresh = BrokerConfig.load(None, {}, ())
    rows = fresh.describe_topic({}, None, True) if kind == "topic" else fresh.describe_group({}, None, True)
    theirs = json.loads(KAFKA.read_text())[kind]
    for row in rows:
        assert [synonym.name for synonym in row.synonyms if synonym.name != row.name] == theirs[row.name]["synonyms"]
