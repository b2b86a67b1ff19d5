"""Planning of settings. The expected error codes are what Apache Kafka 4.3.0 gave to the same requests."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from penstock.broker.controller.configs import (
    Alteration,
    AlterOperation,
    AlterPlan,
    ConfigChange,
    ResourceType,
    plan_alter,
)
from penstock.broker.controller.topics import NewTopic, TopicDefaults, plan_create
from penstock.errors import ErrorCode
from penstock.metadata import records
from penstock.metadata.image import Image
from penstock.metadata.records import ConfigRecord
from penstock.metadata.store import Check, Delete, Put

E = ErrorCode
SET, DELETE, APPEND, SUBTRACT = AlterOperation
TOPIC, BROKER, LOGGER, METRICS, GROUP = ResourceType

Alter = Callable[..., tuple[ErrorCode, Image]]


@pytest.fixture
def image(one_broker: Image, commit: Callable[..., Image]) -> Image:
    plan = plan_create(
        one_broker,
        [NewTopic("k")],
        defaults=TopicDefaults(),
        check_configs=lambda values: None,
        chance=random.Random(1),
        now_ms=0,
    )
    return commit(one_broker, plan.ops)


@pytest.fixture
def alter(rules: Any, commit: Callable[..., Image]) -> Alter:
    """The code, and the image after it."""

    def run(
        image: Image, resource_type: int, name: str, *changes: tuple[str, int, str | None], is_incremental: bool = True
    ) -> tuple[ErrorCode, Image]:
        alteration = Alteration(resource_type, name, tuple(ConfigChange(n, v, op) for n, op, v in changes))
        plan = plan_alter(image, [alteration], rules=rules, node_id=1, is_incremental=is_incremental)
        assert len(plan.results) == 1
        error = plan.results[0]
        assert error is None or plan.ops == ()
        return (error.code if error else E.NONE), commit(image, plan.ops)

    return run


TABLE: list[tuple[int, str, list[tuple[str, int, str | None]], ErrorCode]] = [
    (TOPIC, "k", [("retention.ms", SET, "1000")], E.NONE),
    (TOPIC, "k", [], E.NONE),
    (TOPIC, "k", [("retention.ms", SET, "abc")], E.INVALID_CONFIG),
    (TOPIC, "k", [("nope", SET, "1")], E.INVALID_CONFIG),
    (TOPIC, "k", [("nope", DELETE, None)], E.NONE),
    (TOPIC, "k", [("retention.ms", DELETE, "x")], E.NONE),
    (TOPIC, "k", [("retention.ms", SET, None)], E.INVALID_REQUEST),
    (TOPIC, "k", [("cleanup.policy", APPEND, None)], E.INVALID_REQUEST),
    (TOPIC, "k", [("cleanup.policy", APPEND, "nope")], E.INVALID_CONFIG),
    (TOPIC, "k", [("cleanup.policy", SUBTRACT, "nope")], E.NONE),
    (TOPIC, "k", [("retention.ms", APPEND, "5")], E.INVALID_CONFIG),
    (TOPIC, "k", [("retention.ms", SUBTRACT, "5")], E.INVALID_CONFIG),
    (TOPIC, "k", [("nope", APPEND, "5")], E.INVALID_CONFIG),
    (TOPIC, "k", [("retention.ms", 4, "5")], E.UNKNOWN_SERVER_ERROR),
    (TOPIC, "k", [("retention.ms", -1, "5")], E.UNKNOWN_SERVER_ERROR),
    (TOPIC, "k", [("retention.ms", SET, "5"), ("retention.ms", DELETE, None)], E.INVALID_REQUEST),
    (TOPIC, "k", [("retention.ms", SET, "5"), ("cleanup.policy", SET, "bad")], E.INVALID_CONFIG),
    (TOPIC, "nosuch", [("retention.ms", SET, "5")], E.UNKNOWN_TOPIC_OR_PARTITION),
    (TOPIC, "nosuch", [("nope", SET, "5")], E.INVALID_CONFIG),
    (TOPIC, "nosuch", [], E.UNKNOWN_TOPIC_OR_PARTITION),
    (TOPIC, "", [("retention.ms", SET, "5")], E.INVALID_REQUEST),
    (TOPIC, "a b", [("retention.ms", SET, "5")], E.INVALID_TOPIC_EXCEPTION),
    (BROKER, "1", [("log.retention.ms", SET, "5")], E.NONE),
    (BROKER, "", [("log.retention.ms", SET, "5")], E.NONE),
    (BROKER, "1", [("log.retention.ms", SET, "x")], E.INVALID_REQUEST),
    (BROKER, "", [("log.retention.ms", SET, "x")], E.INVALID_REQUEST),
    (BROKER, "1", [("node.id", SET, "2")], E.INVALID_REQUEST),
    (BROKER, "1", [("node.id", DELETE, None)], E.NONE),
    (BROKER, "1", [("nope", SET, "2")], E.NONE),
    (BROKER, "1", [("log.retention.ms", APPEND, "2")], E.INVALID_CONFIG),
    (BROKER, "1", [("log.cleanup.policy", APPEND, "compact")], E.NONE),
    (BROKER, "7", [("log.retention.ms", SET, "5")], E.INVALID_REQUEST),
    (BROKER, "-1", [("log.retention.ms", SET, "5")], E.INVALID_REQUEST),
    (BROKER, "x", [("log.retention.ms", SET, "5")], E.INVALID_REQUEST),
    (LOGGER, "1", [("org.apache.kafka", SET, "DEBUG")], E.INVALID_CONFIG),
    (LOGGER, "1", [("org.apache.kafka", APPEND, "DEBUG")], E.INVALID_REQUEST),
    (LOGGER, "7", [("a", SET, "DEBUG")], E.INVALID_REQUEST),
    (LOGGER, "", [("a", SET, "DEBUG")], E.INVALID_REQUEST),
    (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")], E.NONE),
    (GROUP, "g", [("nope", SET, "1")], E.INVALID_CONFIG),
    (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], E.INVALID_REQUEST),
    (0, "x", [("a", SET, "b")], E.INVALID_REQUEST),
    (3, "x", [("a", SET, "b")], E.INVALID_REQUEST),
    (64, "x", [("a", SET, "b")], E.INVALID_REQUEST),
]


@pytest.mark.parametrize(("resource_type", "name", "changes", "expected"), TABLE)
def test_settings_are_changed_or_refused_as_kafka_does(
    resource_type: int, name: str, changes: list[Any], expected: ErrorCode, image: Image, alter: Alter
) -> None:
    found, after = alter(image, resource_type, name, *changes)
    assert found == expected
    if expected != E.NONE:
        assert after == image


def test_client_metrics_are_refused_because_there_are_none(image: Image, alter: Alter) -> None:
    """Kafka collects them, and accepts this."""
    assert alter(image, METRICS, "m", ("interval.ms", SET, "1000"))[0] == E.INVALID_REQUEST


def test_a_list_grows_and_shrinks_from_its_default(image: Image, alter: Alter) -> None:
    steps: list[tuple[int, str, Mapping[str, str]]] = [
        (APPEND, "compact", {"cleanup.policy": "delete,compact"}),
        (APPEND, "compact", {"cleanup.policy": "delete,compact"}),
        (SUBTRACT, "delete", {"cleanup.policy": "compact"}),
        (SUBTRACT, "compact", {"cleanup.policy": ""}),
        (APPEND, "delete, compact", {"cleanup.policy": "delete,compact"}),
        (DELETE, "", {}),
        (SUBTRACT, "delete", {"cleanup.policy": ""}),
    ]
    for operation, value, expected in steps:
        error, image = alter(image, TOPIC, "k", ("cleanup.policy", operation, value))
        assert error == E.NONE
        assert image.topic_config("k") == expected


def test_a_setting_goes_to_the_resource_that_was_named(image: Image, alter: Alter) -> None:
    change = ("log.retention.ms", SET, "5")
    for resource_type, name in ((BROKER, "1"), (BROKER, ""), (GROUP, "g/1")):
        _, image = alter(image, resource_type, name, change)
    expected = {"log.retention.ms": "5"}
    assert image.broker_config("1") == image.broker_config(records.DEFAULT_BROKER) == expected
    assert image.group_config("g/1") == expected


def test_a_replacement_unsets_what_it_does_not_name(image: Image, alter: Alter) -> None:
    _, image = alter(image, TOPIC, "k", ("retention.ms", SET, "5"), ("cleanup.policy", SET, "compact"))
    _, image = alter(image, TOPIC, "k", ("retention.ms", SET, "6"), is_incremental=False)
    assert image.topic_config("k") == {"retention.ms": "6"}
    for changes in ([("retention.ms", SET, None)], [("nope", SET, "1")], [("retention.ms", SET, "1")] * 2):
        assert alter(image, TOPIC, "k", *changes, is_incremental=False)[0] != E.NONE
    _, image = alter(image, TOPIC, "k", is_incremental=False)
    assert "k" not in image.topic_configs
    assert alter(image, LOGGER, "1", ("root", SET, "INFO"), is_incremental=False)[0] == E.INVALID_REQUEST


def test_a_resource_given_twice_is_refused_both_times(image: Image, rules: Any) -> None:
    change = (ConfigChange("retention.ms", "5"),)
    alterations = [Alteration(TOPIC, "k", change), Alteration(BROKER, "1", ()), Alteration(TOPIC, "k", change)]
    plan = plan_alter(image, alterations, rules=rules, node_id=1)
    assert [error and error.code for error in plan.results] == [E.INVALID_REQUEST, None, E.INVALID_REQUEST]


def plan_one(image: Image, rules: Any, *changes: ConfigChange) -> AlterPlan:
    return plan_alter(image, [Alteration(TOPIC, "k", changes)], rules=rules, node_id=1)


def test_a_write_checks_the_topic_and_the_settings_it_rests_on(
    image: Image, rules: Any, commit: Callable[..., Image]
) -> None:
    key = records.topic_config_key("k")
    plan = plan_one(image, rules, ConfigChange("retention.ms", "5"))
    topic_check = Check(records.topic_key("k"), image.topics["k"].version)
    assert plan.ops == (topic_check, Check(key, -1), Put(key, ConfigRecord({"retention.ms": "5"}).encode()))
    image = commit(image, plan.ops)
    assert plan_one(image, rules, ConfigChange("retention.ms", "5")).ops == (topic_check,), "nothing to write"
    plan = plan_one(image, rules, ConfigChange("retention.ms", None, DELETE))
    assert plan.ops == (topic_check, Check(key, image.topic_configs["k"].version), Delete(key))


def test_fields_of_a_newer_broker_are_kept(image: Image, rules: Any, commit: Callable[..., Image]) -> None:
    key = records.topic_config_key("k")
    image = commit(image, [Put(key, b'{"version":1,"values":{"retention.ms":"1"},"by":"u"}')])
    plan = plan_one(image, rules, ConfigChange("retention.ms", None, DELETE))
    assert plan.ops[-1] == Put(key, b'{"version":1,"values":{},"by":"u"}')
