"""CreateTopics, DeleteTopics, CreatePartitions and DeleteRecords: good arguments, bad ones, and the codes for them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import confluent_kafka.admin
import kafka
import pytest
from kio.schema.errors import ErrorCode as Code

import raw
from brokers import Broker
from changes import check_created, check_seen
from clients import Confluent, Record

THIS_BROKER = "the broker's own id"
"""Stands in assignments for the id of the broker under test."""


def create(connection: raw.Connection, version: int = 7, validate_only: bool = False, **fields: Any) -> Any:
    """Create one topic; what is not named is one partition on one broker."""
    topic = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [], **fields}
    response = connection.call("CreateTopics", version, topics=[topic], timeout_ms=30_000, validate_only=validate_only)
    return response.topics[0]


def metadata(connection: raw.Connection, name: str) -> Any:
    asked = [{"name": name, "topic_id": raw.NO_TOPIC_ID}]
    return connection.call("Metadata", 12, topics=asked, allow_auto_topic_creation=False).topics[0]


def assignments(connection: raw.Connection, replicas: list[list[Any]]) -> list[list[int]]:
    broker_id = connection.call("Metadata", 12, topics=[]).brokers[0].node_id
    return [[broker_id if replica == THIS_BROKER else replica for replica in part] for part in replicas]


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates(broker: Broker, connection: raw.Connection, name: str, version: int) -> None:
    created = create(connection, version, name=name, num_partitions=3)
    assert (created.name, created.error_code, created.error_message) == (name, 0, None)
    if version >= 5:
        assert (created.num_partitions, created.replication_factor, len(created.configs)) == (3, 1, 33)
    check_created(broker, connection, name, 3)
    if version >= 7:
        assert created.topic_id == raw.topic_id(connection, name)
    assert [partition.partition_index for partition in metadata(connection, name).partitions] == [0, 1, 2]


def test_a_topic_that_exists_is_refused(connection: raw.Connection, topic: str) -> None:
    for validate_only in (False, True):
        answer = create(connection, name=topic, validate_only=validate_only)
        assert (Code(answer.error_code), answer.num_partitions) == (Code.topic_already_exists, -1)
        assert "already exists" in answer.error_message


@pytest.mark.parametrize("bad", ["", ".", "..", "a b", "é", "a/b", "a:b", "x" * 250, "a\n"])
def test_bad_names_are_refused(connection: raw.Connection, bad: str) -> None:
    assert create(connection, name=bad).error_code == Code.invalid_topic_exception


def test_a_name_may_have_249_characters(connection: raw.Connection) -> None:
    assert create(connection, name=uuid.uuid4().hex + "x" * 217).error_code == 0


def test_names_that_differ_only_by_dot_and_underscore_collide(connection: raw.Connection, name: str) -> None:
    """Metric names would be the same."""
    assert create(connection, name=name + ".x").error_code == 0
    assert create(connection, name=name + "_x").error_code == Code.invalid_topic_exception


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"num_partitions": 0}, Code.invalid_partitions),
        ({"num_partitions": -2}, Code.invalid_partitions),
        ({"replication_factor": 0}, Code.invalid_replication_factor),
        ({"replication_factor": -2}, Code.invalid_replication_factor),
        ({"replication_factor": 2}, Code.invalid_replication_factor),
    ],
)
def test_bad_counts_are_refused(connection: raw.Connection, name: str, fields: dict[str, Any], code: Code) -> None:
    assert Code(create(connection, name=name, **fields).error_code) == code
    assert metadata(connection, name).error_code == Code.unknown_topic_or_partition


def test_minus_one_means_the_brokers_default(connection: raw.Connection, name: str) -> None:
    answer = create(connection, name=name, num_partitions=-1, replication_factor=-1)
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 1, 1)


def test_a_topic_named_twice_in_a_request_is_refused(connection: raw.Connection, name: str) -> None:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    response = connection.call("CreateTopics", 7, topics=[topic, topic], timeout_ms=30_000)
    assert [answer.error_code for answer in response.topics] == [Code.invalid_request]


def test_topics_of_one_request_succeed_or_fail_each_for_itself(connection: raw.Connection, name: str) -> None:
    names = {name: 0, "a b": Code.invalid_topic_exception, name + "2": 0}
    topics = [{"name": one, "num_partitions": 1, "replication_factor": 1} for one in names]
    response = connection.call("CreateTopics", 7, topics=topics, timeout_ms=30_000)
    assert {answer.name: answer.error_code for answer in response.topics} == names
    assert connection.call("CreateTopics", 7, topics=[], timeout_ms=30_000).topics == []


@pytest.mark.parametrize(
    ("assigned", "code"),
    [
        ({0: [THIS_BROKER]}, Code.none),
        ({0: [THIS_BROKER], 1: [THIS_BROKER]}, Code.none),
        ({1: [THIS_BROKER]}, Code.invalid_replica_assignment),
        ({0: [THIS_BROKER], 2: [THIS_BROKER]}, Code.invalid_replica_assignment),
        ({0: [99]}, Code.invalid_replica_assignment),
        ({0: [-1]}, Code.invalid_replica_assignment),
        ({0: []}, Code.invalid_replica_assignment),
        ({0: [THIS_BROKER, THIS_BROKER]}, Code.invalid_replica_assignment),
    ],
)
def test_replicas_assigned_by_hand(
    connection: raw.Connection, name: str, assigned: dict[int, list[Any]], code: Code
) -> None:
    replicas = assignments(connection, list(assigned.values()))
    by_hand = [{"partition_index": index, "broker_ids": ids} for index, ids in zip(assigned, replicas, strict=True)]
    answer = create(connection, name=name, num_partitions=-1, replication_factor=-1, assignments=by_hand)
    assert Code(answer.error_code) == code
    if code == Code.none:
        assert (answer.num_partitions, answer.replication_factor) == (len(assigned), 1)


def test_one_partition_assigned_twice_is_refused(connection: raw.Connection, name: str) -> None:
    ((this,),) = assignments(connection, [[THIS_BROKER]])
    by_hand = [{"partition_index": 0, "broker_ids": [this]}] * 2
    answer = create(connection, name=name, num_partitions=-1, replication_factor=-1, assignments=by_hand)
    assert answer.error_code == Code.invalid_replica_assignment


@pytest.mark.parametrize("counts", [{"num_partitions": 1}, {"replication_factor": 1}])
def test_counts_and_assignments_exclude_each_other(
    connection: raw.Connection, name: str, counts: dict[str, int]
) -> None:
    ((this,),) = assignments(connection, [[THIS_BROKER]])
    by_hand = [{"partition_index": 0, "broker_ids": [this]}]
    fields: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1, "assignments": by_hand, **counts}
    assert create(connection, name=name, **fields).error_code == Code.invalid_request


def test_validate_only_creates_nothing(connection: raw.Connection, name: str) -> None:
    answer = create(connection, name=name, num_partitions=3, validate_only=True)
    assert (answer.error_code, answer.num_partitions) == (0, 3)
    assert metadata(connection, name).error_code == Code.unknown_topic_or_partition


@pytest.mark.parametrize("version", range(1, 6))
def test_delete_by_name(connection: raw.Connection, topic: str, version: int) -> None:
    for code in (Code.none, Code.unknown_topic_or_partition):
        response = connection.call("DeleteTopics", version, topic_names=[topic], timeout_ms=30_000)
        assert [(answer.name, Code(answer.error_code)) for answer in response.responses] == [(topic, code)]


def test_delete_by_name_and_by_id_in_version_6(connection: raw.Connection, new_topic: Callable[..., str]) -> None:
    by_name, by_id = new_topic(), new_topic()
    known = raw.topic_id(connection, by_id)
    asked = [{"name": by_name, "topic_id": raw.NO_TOPIC_ID}, {"name": None, "topic_id": known}]
    response = connection.call("DeleteTopics", 6, topics=asked, timeout_ms=30_000)
    assert {(answer.name, answer.error_code) for answer in response.responses} == {(by_name, 0), (by_id, 0)}
    again = connection.call("DeleteTopics", 6, topics=asked[1:], timeout_ms=30_000).responses[0]
    assert (again.name, again.topic_id, Code(again.error_code)) == (None, known, Code.unknown_topic_id)


def test_what_cannot_be_deleted(connection: raw.Connection, topic: str, name: str) -> None:
    known = raw.topic_id(connection, topic)
    cases = [
        ((name, raw.NO_TOPIC_ID), Code.unknown_topic_or_partition),
        (("a b", raw.NO_TOPIC_ID), Code.unknown_topic_or_partition),
        ((None, uuid.uuid4()), Code.unknown_topic_id),
        ((None, raw.NO_TOPIC_ID), Code.invalid_request),
        ((topic, known), Code.invalid_request),
    ]
    for (asked_name, asked_id), code in cases:
        asked = [{"name": asked_name, "topic_id": asked_id}]
        response = connection.call("DeleteTopics", 6, topics=asked, timeout_ms=30_000)
        assert [Code(answer.error_code) for answer in response.responses] == [code], asked
    assert metadata(connection, topic).error_code == 0


def test_a_topic_named_twice_is_not_deleted(connection: raw.Connection, topic: str) -> None:
    known = raw.topic_id(connection, topic)
    names = [{"name": topic, "topic_id": raw.NO_TOPIC_ID}]
    for asked in (names * 2, [*names, {"name": None, "topic_id": known}]):
        response = connection.call("DeleteTopics", 6, topics=asked, timeout_ms=30_000)
        assert {answer.error_code for answer in response.responses} == {Code.invalid_request}
    assert metadata(connection, topic).error_code == 0


def test_a_topic_created_again_is_another_topic(broker: Broker, connection: raw.Connection, topic: str) -> None:
    before = raw.topic_id(connection, topic)
    raw.produce(connection, topic, raw.batch([b"old"]))
    connection.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=30_000)
    created = raw.create_topic(connection, topic)
    assert created.topic_id != before
    check_seen(broker, lambda: raw.topic_id(connection, topic), created.topic_id)
    check_created(broker, connection, topic)
    check_seen(broker, lambda: raw.fetch(connection, topic).high_watermark, 0)
    assert Confluent().produce(broker.bootstrap, topic, [Record(b"new")]) == [0]
    assert raw.values(raw.fetch(connection, topic).records) == [b"new"]


def grow(
    connection: raw.Connection, topic: str, count: int, replicas: list[list[int]] | None = None, **fields: Any
) -> Code:
    by_hand = None if replicas is None else [{"broker_ids": ids} for ids in replicas]
    asked = [{"name": topic, "count": count, "assignments": by_hand}]
    version = fields.pop("version", 3)
    response = connection.call("CreatePartitions", version, topics=asked, timeout_ms=30_000, **fields)
    return Code(response.results[0].error_code)


@pytest.mark.parametrize("version", range(4))
def test_partitions_can_be_added(broker: Broker, connection: raw.Connection, topic: str, version: int) -> None:
    raw.produce(connection, topic, raw.batch([b"kept"]))
    assert grow(connection, topic, 3, version=version, validate_only=False) == Code.none
    check_created(broker, connection, topic, 3)
    assert len(metadata(connection, topic).partitions) == 3
    assert raw.values(raw.fetch(connection, topic).records) == [b"kept"]
    assert raw.produce(connection, topic, raw.batch([b"new"]), partition=2).base_offset == 0


def test_partitions_cannot_be_taken_away(connection: raw.Connection, new_topic: Callable[..., str], name: str) -> None:
    topic = new_topic(partitions=2)
    for count in (1, 2, 0, -1):
        assert grow(connection, topic, count) == Code.invalid_partitions
    assert grow(connection, name, 3) == Code.unknown_topic_or_partition


@pytest.mark.parametrize(
    "replicas",
    [[], [[99]], [[]], [[THIS_BROKER, THIS_BROKER]], [[THIS_BROKER], [THIS_BROKER]]],
    ids=["none", "unknown broker", "no replicas", "a broker twice", "too many"],
)
def test_bad_assignments_of_new_partitions(connection: raw.Connection, topic: str, replicas: list[list[Any]]) -> None:
    code = grow(connection, topic, 2, assignments(connection, replicas))
    assert code == Code.invalid_replica_assignment
    assert grow(connection, topic, 2, assignments(connection, [[THIS_BROKER]])) == Code.none


def test_validate_only_adds_no_partitions(connection: raw.Connection, topic: str) -> None:
    assert grow(connection, topic, 5, validate_only=True) == Code.none
    assert len(metadata(connection, topic).partitions) == 1


def test_growing_a_topic_twice_in_a_request_is_refused(connection: raw.Connection, topic: str) -> None:
    asked = [{"name": topic, "count": 5, "assignments": None}] * 2
    response = connection.call("CreatePartitions", 3, topics=asked, timeout_ms=30_000, validate_only=False)
    assert [answer.error_code for answer in response.results] == [Code.invalid_request]


def delete_records(
    connection: raw.Connection, topic: str, offset: int, partition: int = 0, version: int = 2
) -> tuple[Code, int]:
    asked = [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
    response = connection.call("DeleteRecords", version, topics=asked, timeout_ms=30_000)
    answer = response.topics[0].partitions[0]
    return Code(answer.error_code), answer.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_records_are_deleted_up_to_an_offset(connection: raw.Connection, topic: str, version: int) -> None:
    raw.produce(connection, topic, raw.batch([b"%d" % number for number in range(10)]))
    assert delete_records(connection, topic, 3, version=version) == (Code.none, 3)
    assert delete_records(connection, topic, 2, version=version) == (Code.none, 3), "deleting less changes nothing"
    assert delete_records(connection, topic, 10, version=version) == (Code.none, 10)
    raw.produce(connection, topic, raw.batch([b"x"] * 5))
    assert delete_records(connection, topic, -1, version=version) == (Code.none, 15), "-1 is the high watermark"


def test_records_that_cannot_be_deleted(connection: raw.Connection, topic: str, name: str) -> None:
    raw.produce(connection, topic, raw.batch([b"v"] * 10))
    assert delete_records(connection, topic, 11) == (Code.offset_out_of_range, -1)
    assert delete_records(connection, topic, -2) == (Code.offset_out_of_range, -1)
    assert delete_records(connection, topic, 0, partition=9) == (Code.unknown_topic_or_partition, -1)
    assert delete_records(connection, name, 0) == (Code.unknown_topic_or_partition, -1)
    assert raw.fetch(connection, topic).log_start_offset == 0


def test_an_empty_partition_has_no_records_to_delete(connection: raw.Connection, topic: str) -> None:
    assert delete_records(connection, topic, 0) == (Code.none, 0)
    assert delete_records(connection, topic, -1) == (Code.none, 0)
    assert delete_records(connection, topic, 1) == (Code.offset_out_of_range, -1)


def test_a_compacted_topic_keeps_its_records(connection: raw.Connection, new_topic: Callable[..., str]) -> None:
    topic = new_topic(cleanup_policy="compact")
    assert delete_records(connection, topic, 0) == (Code.policy_violation, -1)


def test_confluents_admin_client(broker: Broker, name: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    new = confluent_kafka.admin.NewTopic(name, 2, 1, config={"retention.ms": "1000000"})
    admin.create_topics([new])[name].result(30)
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.create_topics([new])[name].result(30)
    assert refused.value.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([confluent_kafka.admin.NewPartitions(name, 4)])[name].result(30)
    Confluent().produce(broker.bootstrap, name, [Record(b"v")] * 5)
    asked = [confluent_kafka.TopicPartition(name, 0, 3)]
    (deleted,) = admin.delete_records(asked).values()
    assert deleted.result(30).low_watermark == 3
    named = confluent_kafka.TopicCollection([name])
    check_seen(broker, lambda: len(admin.describe_topics(named)[name].result(30).partitions), 4)
    admin.delete_topics([name])[name].result(30)


def test_kafka_pythons_admin_client(broker: Broker, name: str) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([kafka.admin.NewTopic(name, 2, 1)])
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        admin.create_topics([kafka.admin.NewTopic(name, 2, 1)])
    check_seen(broker, lambda: name in admin.list_topics(), True)
    admin.delete_topics([name])
    admin.close()
