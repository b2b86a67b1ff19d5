"""Planning of topics. Apache Kafka 4.3.0 with one broker gave these error codes to the same requests."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.controller.configs import ResourceType
from penstock.broker.controller.topics import (
    CreatedTopic,
    CreatePlan,
    NewPartitions,
    NewTopic,
    TopicDefaults,
    TopicRef,
    check_topic_name,
    new_topic_id,
    plan_create,
    plan_create_partitions,
    plan_delete,
)
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata import records
from penstock.metadata.image import Image
from penstock.metadata.records import PartitionRecord
from penstock.metadata.store import ABSENT, Check, Op, Put
from penstock.types import TopicId, topic_id_text

E = ErrorCode


@pytest.fixture
def create(rules: Any) -> Callable[..., CreatePlan]:
    def plan(image: Image, *topics: NewTopic, defaults: TopicDefaults = TopicDefaults()) -> CreatePlan:  # noqa: B008
        return plan_create(
            image,
            topics,
            defaults=defaults,
            check_configs=lambda values: rules.check(ResourceType.TOPIC, "", values),
            chance=random.Random(1),
            now_ms=1234,
        )

    return plan


@pytest.fixture
def image(one_broker: Image, create: Callable[..., CreatePlan], commit: Callable[..., Image]) -> Image:
    """One broker; the topics a.b with two partitions, and k."""
    return commit(one_broker, create(one_broker, NewTopic("a.b", 2, 1), NewTopic("k", 1, 1)).ops)


def code(result: object) -> ErrorCode:
    return result.code if isinstance(result, KafkaError) else ErrorCode.NONE


REFUSED = [
    (NewTopic(""), E.INVALID_TOPIC_EXCEPTION),
    (NewTopic("."), E.INVALID_TOPIC_EXCEPTION),
    (NewTopic(".."), E.INVALID_TOPIC_EXCEPTION),
    (NewTopic("..."), E.NONE),
    (NewTopic("a" * 249), E.NONE),
    (NewTopic("a" * 250), E.INVALID_TOPIC_EXCEPTION),
    (NewTopic("a b"), E.INVALID_TOPIC_EXCEPTION),
    (NewTopic("a/b"), E.INVALID_TOPIC_EXCEPTION),
    (NewTopic("ä"), E.INVALID_TOPIC_EXCEPTION),
    (NewTopic("a\0"), E.INVALID_TOPIC_EXCEPTION),
    (NewTopic("a.b"), E.TOPIC_ALREADY_EXISTS),
    (NewTopic("a_b"), E.INVALID_TOPIC_EXCEPTION),
    (NewTopic("a.b.c"), E.NONE),
    (NewTopic("__cluster_metadata"), E.INVALID_REQUEST),
    (NewTopic("__consumer_offsets"), E.NONE),
    (NewTopic("n", 0, 1), E.INVALID_PARTITIONS),
    (NewTopic("n", -1, 1), E.NONE),
    (NewTopic("n", -2, 1), E.INVALID_PARTITIONS),
    (NewTopic("n", 1, 0), E.INVALID_REPLICATION_FACTOR),
    (NewTopic("n", 1, -1), E.NONE),
    (NewTopic("n", 1, -2), E.INVALID_REPLICATION_FACTOR),
    (NewTopic("n", 1, 2), E.INVALID_REPLICATION_FACTOR),
    (NewTopic("n", 1, 32767), E.INVALID_REPLICATION_FACTOR),
    (NewTopic("n", 0, 0), E.INVALID_REPLICATION_FACTOR),
    (NewTopic("n", 0, 3), E.INVALID_PARTITIONS),
    (NewTopic("n", 9999, 1), E.NONE),
    (NewTopic("n", 10000, 1), E.POLICY_VIOLATION),
    (NewTopic("n", 9999, 1, configs=(("retention.ms", "1"),)), E.POLICY_VIOLATION),
    (NewTopic("n", 2**31 - 1, 1), E.POLICY_VIOLATION),
    (NewTopic("n", assignments=((0, (1,)),)), E.NONE),
    (NewTopic("n", assignments=((1, (1,)), (0, (1,)))), E.NONE),
    (NewTopic("n", 1, -1, assignments=((0, (1,)),)), E.INVALID_REQUEST),
    (NewTopic("n", -1, 1, assignments=((0, (1,)),)), E.INVALID_REQUEST),
    (NewTopic("n", assignments=((1, (1,)),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments=((0, (1,)), (2, (1,)))), E.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments=((0, (1,)), (0, (1,)))), E.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments=((-1, (1,)),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments=((0, ()),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments=((0, (1,)), (1, ()))), E.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments=((0, (1, 1)),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments=((0, (2,)),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments=((0, (1, 2)),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments=((0, (-1,)),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", configs=(("nope", "1"),)), E.INVALID_CONFIG),
    (NewTopic("n", configs=(("retention.ms", "x"),)), E.INVALID_CONFIG),
    (NewTopic("n", configs=(("retention.ms", None),)), E.INVALID_CONFIG),
    (NewTopic("n", configs=(("retention.ms", "1"), ("retention.ms", "2"))), E.NONE),
    (NewTopic("n", 0, 1, configs=(("nope", "1"),)), E.INVALID_CONFIG),
    (NewTopic("n", 1, 5, configs=(("nope", "1"),)), E.INVALID_CONFIG),
    (NewTopic("a.b", 0, 9, configs=(("nope", "1"),)), E.TOPIC_ALREADY_EXISTS),
    (NewTopic("a_b", 1, 9), E.INVALID_TOPIC_EXCEPTION),
]


@pytest.mark.parametrize(("topic", "expected"), REFUSED, ids=lambda value: repr(value)[:70])
def test_a_topic_is_created_or_refused_as_kafka_does(
    topic: NewTopic, expected: ErrorCode, image: Image, create: Callable[..., CreatePlan]
) -> None:
    plan = create(image, topic)
    assert code(plan.results[topic.name]) == expected
    assert bool(plan.ops) == (expected == E.NONE)


def test_a_name_given_twice_is_refused_and_the_others_are_created(
    image: Image, create: Callable[..., CreatePlan]
) -> None:
    plan = create(image, NewTopic("dup"), NewTopic("dup"), NewTopic("ok"), NewTopic(""), NewTopic(""))
    assert {name: code(result) for name, result in plan.results.items()} == {
        "dup": E.INVALID_REQUEST,
        "ok": E.NONE,
        "": E.INVALID_REQUEST,
    }
    assert [op.key for op in plan.ops if isinstance(op, Check)] == [records.topic_key("ok")]


def test_names_that_collide_within_a_request_are_both_created(image: Image, create: Callable[..., CreatePlan]) -> None:
    plan = create(image, NewTopic("q.x"), NewTopic("q_x"))
    assert [code(result) for result in plan.results.values()] == [E.NONE, E.NONE]


def test_a_request_that_is_too_large_is_refused_as_a_whole(image: Image, create: Callable[..., CreatePlan]) -> None:
    plan = create(image, NewTopic("x", 5000, 1), NewTopic("y", 5000, 1), NewTopic("a.b"))
    assert {code(result) for result in plan.results.values()} == {E.POLICY_VIOLATION}
    assert plan.ops == ()


def test_what_a_new_topic_writes(
    one_broker: Image, create: Callable[..., CreatePlan], commit: Callable[..., Image]
) -> None:
    plan = create(one_broker, NewTopic("t", configs=(("retention.ms", "5"),)), defaults=TopicDefaults(3, 1))
    created = plan.results["t"]
    assert isinstance(created, CreatedTopic)
    assert (created.num_partitions, created.replication_factor, created.configs) == (3, 1, {"retention.ms": "5"})
    assert plan.ops[0] == Check(records.topic_key("t"), ABSENT)
    after = commit(one_broker, plan.ops)
    topic = after.topics_by_id[created.topic_id]
    assert [(p.leader, p.leader_epoch, p.replicas, p.isr, p.partition_epoch) for p in topic.partitions] == [
        (1, 0, (1,), (1,), 0)
    ] * 3
    assert topic.created_ms == 1234
    assert after.topic_config("t") == {"retention.ms": "5"}


def test_a_manual_assignment_is_kept_in_its_order(
    make_brokers: Callable[..., Image], create: Callable[..., CreatePlan], commit: Callable[..., Image]
) -> None:
    brokers = make_brokers([1, 2, 3])
    after = commit(brokers, create(brokers, NewTopic("t", assignments=((1, (3, 1)), (0, (2, 3))))).ops)
    assert [p.replicas for p in after.topics["t"].partitions] == [(2, 3), (3, 1)]
    assert [p.leader for p in after.topics["t"].partitions] == [2, 3]


def test_partitions_with_different_numbers_of_replicas_are_refused(
    make_brokers: Callable[..., Image], create: Callable[..., CreatePlan]
) -> None:
    plan = create(make_brokers([1, 2]), NewTopic("t", assignments=((0, (1,)), (1, (1, 2)))))
    assert code(plan.results["t"]) == E.INVALID_REPLICA_ASSIGNMENT


def test_deleting_a_topic_deletes_all_that_it_wrote(
    one_broker: Image, create: Callable[..., CreatePlan], commit: Callable[..., Image]
) -> None:
    full = commit(one_broker, create(one_broker, NewTopic("t", 4, 1, configs=(("retention.ms", "5"),))).ops)
    topic = full.topics["t"]
    for ref in (TopicRef("t"), TopicRef(None, topic.topic_id)):
        plan = plan_delete(full, [ref])
        assert [(r.name, r.topic_id, r.error) for r in plan.results] == [("t", topic.topic_id, None)]
        assert plan.ops[0] == Check(records.topic_key("t"), topic.version)
        assert commit(full, plan.ops) == one_broker


def test_deletions_are_refused_as_kafka_does(image: Image) -> None:
    known = image.topics["k"].topic_id
    unknown = TopicId(b"u" * 16)
    table: list[tuple[list[TopicRef], list[tuple[str | None, ErrorCode]]]] = [
        ([TopicRef("nope")], [("nope", E.UNKNOWN_TOPIC_OR_PARTITION)]),
        ([TopicRef("")], [("", E.UNKNOWN_TOPIC_OR_PARTITION)]),
        ([TopicRef(None, unknown)], [(None, E.UNKNOWN_TOPIC_ID)]),
        ([TopicRef("k", known)], [("k", E.INVALID_REQUEST)]),
        ([TopicRef()], [(None, E.INVALID_REQUEST)]),
        ([TopicRef("k"), TopicRef("k")], [("k", E.INVALID_REQUEST)]),
        ([TopicRef(None, known), TopicRef(None, known)], [(None, E.INVALID_REQUEST)]),
        ([TopicRef("k"), TopicRef(None, known)], [("k", E.INVALID_REQUEST)]),
        ([TopicRef("k"), TopicRef("nope")], [("k", E.NONE), ("nope", E.UNKNOWN_TOPIC_OR_PARTITION)]),
    ]
    for refs, expected in table:
        plan = plan_delete(image, refs)
        assert [(result.name, code(result.error)) for result in plan.results] == expected


def test_deletion_can_be_switched_off(image: Image) -> None:
    plan = plan_delete(image, [TopicRef("k"), TopicRef("nope"), TopicRef(), TopicRef("k")], is_enabled=False)
    assert [code(result.error) for result in plan.results] == [E.TOPIC_DELETION_DISABLED] * 4
    assert plan.ops == ()


GROWTHS = [
    (NewPartitions("a.b", 3), E.NONE),
    (NewPartitions("a.b", 3, ((1,),)), E.NONE),
    (NewPartitions("a.b", 2), E.INVALID_PARTITIONS),
    (NewPartitions("a.b", 1), E.INVALID_PARTITIONS),
    (NewPartitions("a.b", 0), E.INVALID_PARTITIONS),
    (NewPartitions("a.b", -1), E.INVALID_PARTITIONS),
    (NewPartitions("nope", 3), E.UNKNOWN_TOPIC_OR_PARTITION),
    (NewPartitions("", 3), E.UNKNOWN_TOPIC_OR_PARTITION),
    (NewPartitions("a.b", 4, ((1,),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("a.b", 3, ((1,), (1,))), E.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("a.b", 3, ()), E.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("a.b", 3, ((2,),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("a.b", 3, ((),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("a.b", 3, ((1, 1),)), E.INVALID_REPLICA_ASSIGNMENT),
    (NewPartitions("a.b", 2**31 - 1), E.UNKNOWN_SERVER_ERROR),
]


@pytest.mark.parametrize(("growth", "expected"), GROWTHS, ids=lambda value: repr(value)[:70])
def test_partitions_are_added_or_refused_as_kafka_does(
    growth: NewPartitions, expected: ErrorCode, image: Image, commit: Callable[..., Image]
) -> None:
    plan = plan_create_partitions(image, [growth], chance=random.Random(1))
    assert code(plan.results[growth.name]) == expected
    after = commit(image, plan.ops)
    if expected == E.NONE:
        assert plan.ops[0] == Check(records.topic_key("a.b"), image.topics["a.b"].version)
        assert after.topics["a.b"].partitions[:2] == image.topics["a.b"].partitions
        assert [p.leader for p in after.topics["a.b"].partitions] == [1, 1, 1]
    else:
        assert plan.ops == ()


def test_growing_a_topic_twice_in_a_request_is_refused(image: Image) -> None:
    growths = [NewPartitions("k", 3), NewPartitions("k", 4), NewPartitions("a.b", 5)]
    plan = plan_create_partitions(image, growths, chance=random.Random(1))
    assert {name: code(error) for name, error in plan.results.items()} == {"k": E.INVALID_REQUEST, "a.b": E.NONE}


def test_new_partitions_have_as_many_replicas_as_the_old_ones(
    make_brokers: Callable[..., Image], create: Callable[..., CreatePlan], commit: Callable[..., Image]
) -> None:
    brokers = make_brokers([1, 2, 3])
    image = commit(brokers, create(brokers, NewTopic("t", 1, 2)).ops)
    grown = commit(image, plan_create_partitions(image, [NewPartitions("t", 9)], chance=random.Random(1)).ops)
    assert {len(p.replicas) for p in grown.topics["t"].partitions} == {2}
    plan = plan_create_partitions(image, [NewPartitions("t", 2, ((1,),))], chance=random.Random(1))
    assert code(plan.results["t"]) == E.INVALID_REPLICA_ASSIGNMENT


def test_growing_keeps_fields_of_a_newer_broker(image: Image, commit: Callable[..., Image]) -> None:
    key = records.topic_key("k")
    value = image.topics["k"].record.encode()[:-1] + b',"tiered":true}'
    newer = commit(image, [Put(key, value)])
    plan = plan_create_partitions(newer, [NewPartitions("k", 2)], chance=random.Random(1))
    written = [op.value for op in plan.ops if isinstance(op, Put) and op.key == key]
    assert b'"tiered":true' in written[0]


def test_every_state_that_a_plan_writes_can_be_read(image: Image, create: Callable[..., CreatePlan]) -> None:
    ops: tuple[Op, ...] = create(image, NewTopic("t", 3, 1)).ops
    states = [op for op in ops if isinstance(op, Put) and op.key.startswith(records.PARTITIONS_PREFIX)]
    assert len(states) == 3
    for state in states:
        assert records.decode_partition(state.key, state.value) == PartitionRecord(1, 0, (1,), 0)


@given(st.text(max_size=300))
def test_a_name_that_passes_is_a_safe_directory(name: str) -> None:
    is_safe = 0 < len(name.encode()) <= 249 and "/" not in name and name not in (".", "..")
    if is_safe and name.isascii() and name.replace(".", "").replace("_", "").replace("-", "").isalnum():
        check_topic_name(name)
    elif not is_safe:
        with pytest.raises(KafkaError, match="not valid"):
            check_topic_name(name)


@given(st.integers())
def test_topic_ids_print_without_a_leading_dash(seed: int) -> None:
    assert not topic_id_text(new_topic_id(random.Random(seed))).startswith("-")
