"""Settings of topics and brokers: described, changed, refused, listed, and given at a topic's creation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import confluent_kafka.admin
import pytest
from kio.schema.errors import ErrorCode as Code

import raw
from brokers import Broker
from changes import check_seen

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5
"""Where a value comes from (ConfigSource)."""

TYPES = {1: "BOOLEAN", 2: "STRING", 3: "INT", 5: "LONG", 6: "DOUBLE", 7: "LIST"}


def describe(connection: raw.Connection, kind: int, name: str, keys: list[str] | None = None, **fields: Any) -> Any:
    asked = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]
    return connection.call("DescribeConfigs", fields.pop("version", 4), resources=asked, **fields).results[0]


Expect = Callable[[str, str, str, int], None]


@pytest.fixture
def expect(broker: Broker, connection: raw.Connection) -> Expect:
    """Checks a topic's setting after a change, and where it comes from."""

    def check(topic: str, key: str, value: str, source: int) -> None:
        def read() -> tuple[str | None, int]:
            (entry,) = describe(connection, TOPIC, topic, [key]).configs
            return entry.value, entry.config_source

        check_seen(broker, read, (value, source))

    return check


def alter(
    connection: raw.Connection, name: str, *changes: tuple[str, int, str | None], kind: int = TOPIC, **fields: Any
) -> Code:
    configs = [{"name": key, "config_operation": what, "value": to} for key, what, to in changes]
    asked = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    version = fields.pop("version", 1)
    response = connection.call("IncrementalAlterConfigs", version, resources=asked, **fields)
    return Code(response.responses[0].error_code)


def replace(connection: raw.Connection, name: str, configs: dict[str, str | None], **fields: Any) -> Code:
    """The older AlterConfigs, which replaces all settings of a resource."""
    settings = [{"name": key, "value": to} for key, to in configs.items()]
    asked = [{"resource_type": TOPIC, "resource_name": name, "configs": settings}]
    response = connection.call("AlterConfigs", fields.pop("version", 2), resources=asked, **fields)
    return Code(response.responses[0].error_code)


CHANGING = "file.delete.delay.ms"
"""The one setting that a test here changes for the whole broker, maybe while another test looks."""

TOPIC_DEFAULTS = {
    "cleanup.policy": ("delete", "LIST"),
    "compression.gzip.level": ("-1", "INT"),
    "compression.lz4.level": ("9", "INT"),
    "compression.type": ("producer", "STRING"),
    "compression.zstd.level": ("3", "INT"),
    "delete.retention.ms": ("86400000", "LONG"),
    "file.delete.delay.ms": ("60000", "LONG"),
    "flush.messages": ("9223372036854775807", "LONG"),
    "flush.ms": ("9223372036854775807", "LONG"),
    "follower.replication.throttled.replicas": ("", "LIST"),
    "index.interval.bytes": ("4096", "INT"),
    "leader.replication.throttled.replicas": ("", "LIST"),
    "local.retention.bytes": ("-2", "LONG"),
    "local.retention.ms": ("-2", "LONG"),
    "max.compaction.lag.ms": ("9223372036854775807", "LONG"),
    "max.message.bytes": ("1048588", "INT"),
    "message.timestamp.after.max.ms": ("3600000", "LONG"),
    "message.timestamp.before.max.ms": ("9223372036854775807", "LONG"),
    "message.timestamp.type": ("CreateTime", "STRING"),
    "min.cleanable.dirty.ratio": ("0.5", "DOUBLE"),
    "min.compaction.lag.ms": ("0", "LONG"),
    "min.insync.replicas": ("1", "INT"),
    "preallocate": ("false", "BOOLEAN"),
    "remote.log.copy.disable": ("false", "BOOLEAN"),
    "remote.log.delete.on.disable": ("false", "BOOLEAN"),
    "remote.storage.enable": ("false", "BOOLEAN"),
    "retention.bytes": ("-1", "LONG"),
    "retention.ms": ("604800000", "LONG"),
    "segment.bytes": ("1073741824", "INT"),
    "segment.index.bytes": ("10485760", "INT"),
    "segment.jitter.ms": ("0", "LONG"),
    "segment.ms": ("604800000", "LONG"),
    "unclean.leader.election.enable": ("false", "BOOLEAN"),
}


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("keys", [None, []])
def test_all_settings_of_a_topic(connection: raw.Connection, topic: str, version: int, keys: list[str] | None) -> None:
    """In version 4 an empty list means all as well."""
    if keys == [] and version < 4:
        keys = None
    described = describe(connection, TOPIC, topic, keys, version=version)
    found = {entry.name: entry.value for entry in described.configs}
    assert {**found, CHANGING: "60000"} == {key: value for key, (value, _) in TOPIC_DEFAULTS.items()}
    assert {(entry.read_only, entry.is_sensitive) for entry in described.configs} == {(False, False)}
    if version >= 3:
        types = {entry.name: TYPES[entry.config_type] for entry in described.configs}
        assert types == {key: kind for key, (_, kind) in TOPIC_DEFAULTS.items()}
    elsewhere = ("min.insync.replicas", CHANGING)  # Kafka sets the first for the whole cluster by itself
    assert {entry.config_source for entry in described.configs if entry.name not in elsewhere} == {DEFAULT}


def test_some_settings_of_a_topic(connection: raw.Connection, topic: str) -> None:
    described = describe(connection, TOPIC, topic, ["retention.ms", "no.such.setting", "segment.ms"])
    assert {entry.name for entry in described.configs} == {"retention.ms", "segment.ms"}


def test_documentation_comes_when_asked_for(connection: raw.Connection, topic: str) -> None:
    with_text = describe(connection, TOPIC, topic, ["retention.ms"], include_documentation=True)
    assert len(with_text.configs[0].documentation) > 20
    assert describe(connection, TOPIC, topic, ["retention.ms"]).configs[0].documentation is None


def test_resources_that_cannot_be_described(connection: raw.Connection, name: str) -> None:
    assert describe(connection, TOPIC, name).error_code == Code.unknown_topic_or_partition
    assert describe(connection, TOPIC, "a b").error_code == Code.invalid_topic_exception
    assert describe(connection, BROKER, "99").error_code == Code.invalid_request
    assert describe(connection, BROKER, "x").error_code == Code.invalid_request
    assert describe(connection, 99, "x").error_code == Code.invalid_request


def node_id(connection: raw.Connection) -> str:
    return str(connection.call("Metadata", 12, topics=[]).brokers[0].node_id)


def test_a_broker_is_described(connection: raw.Connection) -> None:
    described = describe(connection, BROKER, node_id(connection))
    found = {entry.name: (entry.value, entry.read_only) for entry in described.configs}
    assert len(found) >= 340
    assert found["num.partitions"] == ("1", True)
    assert found["log.segment.bytes"] == ("1073741824", False)
    assert found["message.max.bytes"] == ("1048588", False)
    assert found["log.retention.hours"] == ("168", True)
    assert found["log.retention.ms"] == (None, False)
    assert found["node.id"] == (node_id(connection), True)


def test_settings_given_at_creation(expect: Expect, new_topic: Callable[..., str]) -> None:
    topic = new_topic(retention_ms="5000", cleanup_policy="compact,delete", segment_bytes=" 2000000 ")
    expect(topic, "retention.ms", "5000", DYNAMIC_TOPIC)
    expect(topic, "cleanup.policy", "compact,delete", DYNAMIC_TOPIC)
    expect(topic, "segment.bytes", "2000000", DYNAMIC_TOPIC)
    expect(topic, "segment.ms", "604800000", DEFAULT)


BAD_SETTINGS = [
    ("no.such.setting", "1"),
    ("retention.ms", "abc"),
    ("retention.ms", "-2"),
    ("retention.ms", "99999999999999999999"),
    ("cleanup.policy", "x"),
    ("compression.type", "lzma"),
    ("segment.bytes", "1"),
    ("max.message.bytes", "-1"),
    ("min.insync.replicas", "0"),
    ("message.timestamp.type", "X"),
    ("unclean.leader.election.enable", "maybe"),
    ("min.cleanable.dirty.ratio", "2"),
    ("flush.messages", "0"),
    ("compression.gzip.level", "99"),
]


@pytest.mark.parametrize(("key", "bad"), BAD_SETTINGS)
def test_bad_settings_are_refused_at_creation_and_later(
    connection: raw.Connection, topic: str, name: str, key: str, bad: str
) -> None:
    asked = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": [{"name": key, "value": bad}]}
    answer = connection.call("CreateTopics", 7, topics=[asked], timeout_ms=30_000).topics[0]
    assert (Code(answer.error_code), key in answer.error_message) == (Code.invalid_config, True)
    assert alter(connection, topic, (key, SET, bad)) == Code.invalid_config
    assert replace(connection, topic, {key: bad}) == Code.invalid_config


def test_settings_that_contradict_each_other_are_refused(connection: raw.Connection, topic: str) -> None:
    changes = [("min.compaction.lag.ms", SET, "2"), ("max.compaction.lag.ms", SET, "1")]
    assert alter(connection, topic, *changes) == Code.invalid_config


def test_null_is_no_value(connection: raw.Connection, topic: str, name: str) -> None:
    asked = {"name": name, "num_partitions": 1, "replication_factor": 1}
    asked["configs"] = [{"name": "retention.ms", "value": None}]
    assert (
        connection.call("CreateTopics", 7, topics=[asked], timeout_ms=30_000).topics[0].error_code
        == Code.invalid_config
    )
    assert alter(connection, topic, ("retention.ms", SET, None)) == Code.invalid_request
    assert replace(connection, topic, {"retention.ms": None}) == Code.invalid_request


@pytest.mark.parametrize("version", [0, 1])
def test_set_and_delete(connection: raw.Connection, expect: Expect, topic: str, version: int) -> None:
    assert alter(connection, topic, ("retention.ms", SET, "1000"), version=version) == Code.none
    expect(topic, "retention.ms", "1000", DYNAMIC_TOPIC)
    assert alter(connection, topic, ("segment.ms", SET, "2000"), version=version) == Code.none
    expect(topic, "retention.ms", "1000", DYNAMIC_TOPIC)
    assert alter(connection, topic, ("retention.ms", DELETE, None), version=version) == Code.none
    expect(topic, "retention.ms", "604800000", DEFAULT)
    assert alter(connection, topic, ("retention.ms", DELETE, None), version=version) == Code.none
    assert alter(connection, topic, ("no.such.setting", DELETE, None), version=version) == Code.none


def test_append_to_and_subtract_from_a_list(connection: raw.Connection, expect: Expect, topic: str) -> None:
    steps = [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
    ]
    for what, item, expected in steps:
        assert alter(connection, topic, ("cleanup.policy", what, item)) == Code.none
        expect(topic, "cleanup.policy", expected, DYNAMIC_TOPIC)
    assert alter(connection, topic, ("cleanup.policy", APPEND, "zzz")) == Code.invalid_config
    assert alter(connection, topic, ("retention.ms", APPEND, "1")) == Code.invalid_config


def test_validate_only_changes_nothing(connection: raw.Connection, expect: Expect, topic: str) -> None:
    assert alter(connection, topic, ("retention.ms", SET, "1000"), validate_only=True) == Code.none
    assert replace(connection, topic, {"retention.ms": "1000"}, validate_only=True) == Code.none
    expect(topic, "retention.ms", "604800000", DEFAULT)


def test_a_request_with_one_bad_change_changes_nothing(connection: raw.Connection, expect: Expect, topic: str) -> None:
    changes = [("retention.bytes", SET, "5"), ("retention.ms", SET, "x")]
    assert alter(connection, topic, *changes) == Code.invalid_config
    expect(topic, "retention.bytes", "-1", DEFAULT)


def test_changes_that_make_no_sense(connection: raw.Connection, topic: str, name: str) -> None:
    twice = [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]
    assert alter(connection, topic, *twice) == Code.invalid_request
    assert alter(connection, name, ("retention.ms", SET, "1")) == Code.unknown_topic_or_partition
    assert alter(connection, "a b", ("retention.ms", SET, "1")) == Code.invalid_topic_exception
    assert alter(connection, "", ("retention.ms", SET, "1")) == Code.invalid_request
    assert alter(connection, "x", kind=99) == Code.invalid_request
    assert alter(connection, topic) == Code.none


def test_a_resource_named_twice_is_refused(connection: raw.Connection, topic: str) -> None:
    asked = [{"resource_type": TOPIC, "resource_name": topic, "configs": []}] * 2
    response = connection.call("IncrementalAlterConfigs", 1, resources=asked)
    assert {answer.error_code for answer in response.responses} == {Code.invalid_request}


@pytest.mark.parametrize("version", range(3))
def test_the_older_call_replaces_all_settings(
    connection: raw.Connection, expect: Expect, topic: str, version: int
) -> None:
    assert replace(connection, topic, {"retention.ms": "5"}, version=version) == Code.none
    expect(topic, "retention.ms", "5", DYNAMIC_TOPIC)
    assert replace(connection, topic, {"retention.bytes": "7"}, version=version) == Code.none
    expect(topic, "retention.ms", "604800000", DEFAULT)
    expect(topic, "retention.bytes", "7", DYNAMIC_TOPIC)
    assert replace(connection, topic, {}, version=version) == Code.none
    expect(topic, "retention.bytes", "-1", DEFAULT)


def test_the_older_call_on_an_unknown_topic(connection: raw.Connection, name: str) -> None:
    assert replace(connection, name, {}) == Code.unknown_topic_or_partition


def broker_setting(connection: raw.Connection, key: str) -> set[tuple[str, int]]:
    """What the broker itself and the first synonym say of a setting's value and where it comes from."""
    (entry,) = describe(connection, BROKER, node_id(connection), [key], include_synonyms=True).configs
    first = entry.synonyms[0]
    return {(entry.value, entry.config_source), (first.value, first.source)}


def test_a_brokers_settings_change_for_it_and_for_its_topics(
    broker: Broker, connection: raw.Connection, expect: Expect, topic: str
) -> None:
    key, this = "log.segment.delete.delay.ms", node_id(connection)
    try:
        assert alter(connection, this, (key, SET, "4000000"), kind=BROKER) == Code.none
        assert alter(connection, "", (key, SET, "5000000"), kind=BROKER) == Code.none
        check_seen(broker, lambda: broker_setting(connection, key), {("4000000", DYNAMIC_BROKER)})
        expect(topic, CHANGING, "4000000", DYNAMIC_BROKER)
        assert alter(connection, this, (key, DELETE, None), kind=BROKER) == Code.none
        check_seen(broker, lambda: broker_setting(connection, key), {("5000000", DYNAMIC_DEFAULT_BROKER)})
        expect(topic, CHANGING, "5000000", DYNAMIC_DEFAULT_BROKER)
    finally:
        alter(connection, this, (key, DELETE, None), kind=BROKER)
        alter(connection, "", (key, DELETE, None), kind=BROKER)
    check_seen(broker, lambda: broker_setting(connection, key), {("60000", DEFAULT)})


def test_broker_settings_that_cannot_be_changed(connection: raw.Connection) -> None:
    this = node_id(connection)
    assert alter(connection, this, ("node.id", SET, "5"), kind=BROKER) == Code.invalid_request
    assert alter(connection, this, ("log.retention.ms", SET, "x"), kind=BROKER) == Code.invalid_request
    assert alter(connection, "99", ("log.retention.ms", SET, "1"), kind=BROKER) == Code.invalid_request
    assert alter(connection, "x", ("log.retention.ms", SET, "1"), kind=BROKER) == Code.invalid_request


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([], {TOPIC, BROKER, BROKER_LOGGER}),
        ([TOPIC], {TOPIC}),
        ([BROKER], {BROKER}),
        ([TOPIC, BROKER], {TOPIC, BROKER}),
        ([CLIENT_METRICS], set()),
        ([GROUP], set()),
    ],
)
def test_resources_with_settings_are_listed(
    connection: raw.Connection, topic: str, kinds: list[int], found: set[int]
) -> None:
    response = connection.call("ListConfigResources", 1, resource_types=kinds)
    listed = {(resource.resource_type, resource.resource_name) for resource in response.config_resources}
    assert response.error_code == 0
    assert {kind for kind, _ in listed} == found
    assert ((TOPIC, topic) in listed) == (TOPIC in found)
    assert ((BROKER, node_id(connection)) in listed) == (BROKER in found)


def test_version_0_lists_only_client_metrics(connection: raw.Connection, topic: str) -> None:
    response = connection.call("ListConfigResources", 0)
    assert (response.error_code, response.config_resources) == (0, [])


@pytest.mark.parametrize("kind", [0, 99])
def test_unknown_kinds_of_resources_are_refused(connection: raw.Connection, kind: int) -> None:
    response = connection.call("ListConfigResources", 1, resource_types=[kind])
    assert response.error_code == Code.unsupported_version


def test_confluent_reads_and_changes_settings(broker: Broker, topic: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    change = confluent_kafka.admin.ConfigEntry(
        "retention.ms", "77", incremental_operation=confluent_kafka.admin.AlterConfigOpType.SET
    )
    resource = confluent_kafka.admin.ConfigResource(
        confluent_kafka.admin.ResourceType.TOPIC, topic, incremental_configs=[change]
    )
    admin.incremental_alter_configs([resource])[resource].result(20)

    def read() -> tuple[str, bool, bool]:
        described = admin.describe_configs([resource])[resource].result(20)
        changed, other = described["retention.ms"], described["segment.bytes"]
        return changed.value, changed.is_default, other.is_default

    check_seen(broker, read, ("77", False, True))
