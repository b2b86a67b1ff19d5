"""Where a key lives in an internal topic, and what is told while it cannot be served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from penstock.broker.internal_topic import HomeState, InternalTopic, java_hash, partition_for
from penstock.errors import ErrorCode, KafkaError


@dataclass
class Home:
    state: HomeState


def topic(partition_count: int) -> InternalTopic:
    nobody: Any = None
    made = InternalTopic("__state", nobody, nobody)
    made.partition_count = partition_count
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("group", 98629247), ("polygenelubricants", -(2**31)), ("é", 233), ("\U0001f600", 1772899)],
)
def test_a_key_hashes_as_in_java(text, expected):
    assert java_hash(text) == expected


def test_a_key_lives_where_kafka_would_look_for_it():
    assert partition_for("x", 50) == 120 % 50
    assert partition_for("polygenelubricants", 50) == 0, "the smallest number has no absolute value in Java"
    assert {partition_for(f"group-{number}", 50) for number in range(1000)} == set(range(50))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, ErrorCode.NOT_COORDINATOR),
        (HomeState.FAILED, ErrorCode.NOT_COORDINATOR),
        (HomeState.LOADING, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_a_key_that_cannot_be_served_is_refused(state, expected):
    homes = {} if state is None else {0: Home(state)}
    with pytest.raises(KafkaError) as caught:
        topic(1).home_of("key", homes)
    assert caught.value.code is expected


def test_a_key_is_served_from_its_partition():
    homes = {index: Home(HomeState.ACTIVE) for index in range(50)}
    assert topic(50).home_of("x", homes) is homes[20]


def test_without_the_topic_nobody_coordinates():
    with pytest.raises(KafkaError) as caught:
        topic(0).home_of("key", {0: Home(HomeState.ACTIVE)})
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
    with pytest.raises(KafkaError) as caught:
        topic(0).leader_of("key")
    assert caught.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
