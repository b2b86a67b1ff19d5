"""The stream reader, step by step as Spark calls it, with real brokers and without a JVM."""

from __future__ import annotations

import json
import pickle
import threading
import time

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

import penstock
from penstock.client.admin import Admin
from penstock.client.arrow.writer import ArrowWriter
from penstock.client.cluster import UnknownTopicError
from penstock.client.groups import Groups
from penstock.client.transactional import TransactionalSession
from penstock.errors import ConfigError, KafkaError
from penstock.spark.loss import LostDataError
from penstock.spark.options import stream_options
from penstock.spark.stream import TopicStreamReader
from penstock.testing import Cluster
from penstock.types import TopicPartition
from ports import free_ports

ALL = ReadAllAvailable()
FORGIVING = {"failOnDataLoss": "false"}


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds

    def now_ms(self) -> int:
        return int(self.seconds * 1000)


@pytest.fixture
def cluster(every_cluster):
    return every_cluster


@pytest.fixture
def stream(cluster):
    """`stream("orders", startingOffsets="earliest")` is a reader as Spark makes it; all are stopped at the end."""
    readers = []

    def make(topic, clock=None, bootstrap=None, **options):
        given = {"kafka.bootstrap.servers": bootstrap or cluster.bootstrap, "startingOffsets": "earliest", **options}
        if not {"subscribePattern", "assign"} & options.keys():
            given["subscribe"] = topic
        readers.append(TopicStreamReader(stream_options(given), clock))
        return readers[-1]

    yield make
    for reader in readers:
        reader.stop()


@pytest.fixture
def admin(connections):
    return Admin(connections)


def values(reader, start, end):
    """What the micro-batch between two offsets holds, as its tasks read it after travelling."""
    found = []
    for task in reader.partitions(start, end):
        for batch in reader.read(pickle.loads(pickle.dumps(task))):
            found += [value.decode() for value in batch.column("value").to_pylist()]
    return found


def record_batch(found):
    return pa.record_batch({"value": pa.array([each.encode() for each in found])})


def next_offset(reader, known):
    """Kafka writes a transaction's markers after it has answered."""
    for _ in range(600):
        end = reader.latestOffset(known, ALL)
        if end != known:
            return end
        time.sleep(0.05)
    raise AssertionError("nothing came")


def without_ids(offset):
    return {topic: {key: at for key, at in entry.items() if key != "id"} for topic, entry in offset.items()}


def test_a_stream_from_the_start_reads_all_and_then_what_is_new(cluster, write, stream):
    topic = cluster.create_topic(partitions=2)
    write(topic, ["a", "b"])
    write(topic, ["c"], partition=1)
    reader = stream(topic)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert without_ids(end) == {topic: {"0": 2, "1": 1}}
    assert sorted(values(reader, start, end)) == ["a", "b", "c"]
    assert reader.latestOffset(end, ALL) == end
    write(topic, ["d"])
    assert values(reader, end, reader.latestOffset(end, ALL)) == ["d"]


def test_a_stream_from_the_end_loses_nothing_however_often_spark_asks_where_it_begins(cluster, write, stream):
    topic = cluster.create_topic()
    write(topic, ["old"])
    reader = stream(topic, startingOffsets="latest")
    first = reader.initialOffset()
    begin = reader.latestOffset(first, ALL)
    write(topic, ["new"])
    assert reader.initialOffset() == first
    assert reader.partitions(first, begin) == []
    again = stream(topic, startingOffsets="latest")  # the driver died before it had noted the first batch as done
    assert again.initialOffset() == first
    assert again.partitions(first, begin) == []
    assert values(again, begin, again.latestOffset(begin, ALL)) == ["new"]


def test_a_micro_batch_that_is_done_again_after_a_crash_is_the_same(cluster, write, stream):
    topic = cluster.create_topic(partitions=2)
    write(topic, [str(n) for n in range(20)])
    reader = stream(topic, minPartitions="5")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    tasks = reader.partitions(start, end)
    assert len(tasks) == 5
    write(topic, ["later"])
    again = stream(topic, minPartitions="5")
    assert again.partitions(again.initialOffset(), end) == tasks
    assert values(again, start, end) == [str(n) for n in range(20)]


def test_a_limit_is_spark_s_to_give(cluster, write, stream):
    topic = cluster.create_topic(partitions=2)
    write(topic, ["x"] * 90)
    write(topic, ["y"] * 10, partition=1)
    reader = stream(topic, maxOffsetsPerTrigger="20")
    assert reader.getDefaultReadLimit() == ReadMaxRows(20)
    start = reader.initialOffset()
    assert without_ids(reader.latestOffset(start, ReadMaxRows(20))) == {topic: {"0": 18, "1": 2}}
    assert without_ids(reader.latestOffset(start, ALL)) == {topic: {"0": 90, "1": 10}}
    assert stream(topic).getDefaultReadLimit() == ALL


def test_too_little_waits_for_more_or_for_the_time_to_be_over(cluster, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a"])
    clock = Hand()
    reader = stream(topic, clock, minOffsetsPerTrigger="3", maxTriggerDelay="60s")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(3)
    first = reader.latestOffset(reader.initialOffset(), limit)
    assert without_ids(first) == {topic: {"0": 1}}, "the first micro-batch of a run does not wait"
    write(topic, ["b", "c"])
    assert reader.latestOffset(first, limit) == first
    clock.seconds += 61
    second = reader.latestOffset(first, limit)
    assert without_ids(second) == {topic: {"0": 3}}
    write(topic, ["d", "e", "f"])
    assert without_ids(reader.latestOffset(second, limit)) == {topic: {"0": 6}}


def test_least_and_most_hold_together(cluster, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a"] * 10)
    reader = stream(topic, Hand(), minOffsetsPerTrigger="5", maxOffsetsPerTrigger="8")
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert without_ids(end) == {topic: {"0": 8}}
    assert reader.latestOffset(end, limit) == end, "two are fewer than five"


def test_a_run_of_what_is_available_now_ends_there(cluster, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a", "b", "c"])
    reader = stream(topic, maxOffsetsPerTrigger="2", minOffsetsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    write(topic, ["later"])
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(reader.initialOffset(), limit)
    second = reader.latestOffset(first, limit)
    assert (without_ids(first), without_ids(second)) == ({topic: {"0": 2}}, {topic: {"0": 3}})
    assert reader.latestOffset(second, limit) == second
    next_run = stream(topic)
    next_run.prepareForTriggerAvailableNow()
    assert values(next_run, second, next_run.latestOffset(second, ALL)) == ["later"]


def test_a_run_of_what_is_available_now_that_begins_at_the_end_ends_at_once(cluster, write, stream):
    topic = cluster.create_topic()
    write(topic, ["old"])
    reader = stream(topic, startingOffsets="latest")
    reader.prepareForTriggerAvailableNow()
    write(topic, ["new"])
    begin = reader.latestOffset(reader.initialOffset(), ALL)
    assert reader.latestOffset(begin, ALL) == begin
    next_run = stream(topic)
    assert values(next_run, begin, next_run.latestOffset(begin, ALL)) == ["new"]


def test_new_partitions_are_read_from_their_start_after_a_step_that_notes_it(cluster, admin, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a"])
    reader = stream(topic)
    known = reader.latestOffset(reader.initialOffset(), ALL)
    admin.create_partitions(topic, 2)
    write(topic, ["b", "c"], partition=1)
    step = reader.latestOffset(known, ALL)
    assert without_ids(step) == {topic: {"0": 1, "1": 0}}
    assert values(reader, known, step) == []
    assert values(reader, step, reader.latestOffset(step, ALL)) == ["b", "c"]


def test_a_pattern_finds_topics_that_come_later(cluster, write, stream):
    name = cluster.create_topic()
    write(name, ["a"])
    reader = stream(None, subscribePattern=f"{name}(-more)?", startingOffsets="latest")
    known = reader.latestOffset(reader.initialOffset(), ALL)
    more = cluster.create_topic(f"{name}-more")
    cluster.create_topic(f"{name}-more-than-that")
    write(more, ["b"])
    step = reader.latestOffset(known, ALL)
    assert without_ids(step) == {name: {"0": 1}, more: {"0": 0}}
    assert values(reader, step, reader.latestOffset(step, ALL)) == ["b"]


def test_a_pattern_that_matches_nothing_yet_reads_a_topic_that_comes_from_its_start(cluster, write, stream):
    reader = stream(None, subscribePattern="coming-soon-.*", startingOffsets="latest")
    begin = reader.latestOffset(reader.initialOffset(), ALL)
    assert begin == {}
    topic = cluster.create_topic("coming-soon-1")
    write(topic, ["a"])
    step = reader.latestOffset(begin, ALL)
    assert values(reader, step, reader.latestOffset(step, ALL)) == ["a"]


def test_records_deleted_before_they_were_read_are_an_error_or_are_passed_over(cluster, admin, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a", "b", "c", "d"])
    start = stream(topic).initialOffset()
    admin.delete_records({TopicPartition(topic, 0): 2})
    with pytest.raises(LostDataError, match="offsets 0 to before 2 were deleted before they were read"):
        stream(topic).latestOffset(start, ALL)
    forgiving = stream(topic, **FORGIVING)
    assert values(forgiving, start, forgiving.latestOffset(start, ALL)) == ["c", "d"]


def test_records_deleted_while_a_task_is_on_its_way_are_an_error_or_are_passed_over(cluster, admin, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a", "b", "c", "d"])
    reader, forgiving = stream(topic), stream(topic, **FORGIVING)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    admin.delete_records({TopicPartition(topic, 0): 2})
    with pytest.raises(LostDataError, match="offset 0 is wanted, but the log has 2 to before 4"):
        values(reader, start, end)
    assert values(forgiving, start, end) == ["c", "d"]


def test_a_topic_created_anew_is_an_error_or_is_read_from_its_start(cluster, admin, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a", "b"])
    reader = stream(topic)
    known = reader.latestOffset(reader.initialOffset(), ALL)
    admin.delete_topic(topic)
    cluster.create_topic(topic)
    write(topic, ["c", "d", "e"])
    with pytest.raises(LostDataError, match=f"Topic '{topic}' was deleted and created anew"):
        reader.latestOffset(known, ALL)
    forgiving = stream(topic, **FORGIVING)
    step = forgiving.latestOffset(known, ALL)
    assert without_ids(step) == {topic: {"0": 0}}
    assert step[topic]["id"] != known[topic]["id"]
    assert values(forgiving, known, step) == []
    assert values(forgiving, step, forgiving.latestOffset(step, ALL)) == ["c", "d", "e"]


def test_a_topic_created_anew_is_noticed_even_where_the_offset_is_the_same(cluster, admin, write, stream):
    topic = cluster.create_topic()
    reader = stream(topic, **FORGIVING)
    known = reader.initialOffset()
    admin.delete_topic(topic)
    cluster.create_topic(topic)
    write(topic, ["a"])
    step = reader.latestOffset(known, ALL)
    assert without_ids(step) == {topic: {"0": 0}}
    assert values(reader, step, reader.latestOffset(step, ALL)) == ["a"]


def test_a_micro_batch_of_a_topic_that_is_another_one_now_is_not_done_again(cluster, admin, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a", "b"])
    before = stream(topic)
    start = before.initialOffset()
    end = before.latestOffset(start, ALL)
    admin.delete_topic(topic)
    cluster.create_topic(topic)
    write(topic, ["c", "d"])
    with pytest.raises(LostDataError, match="was deleted before a micro-batch could be done again"):
        stream(topic).partitions(start, end)
    assert stream(topic, **FORGIVING).partitions(start, end) == []


def test_a_micro_batch_of_a_topic_that_is_gone_is_not_done_again(cluster, admin, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a"])
    pattern = {"subscribePattern": topic}
    before = stream(None, **pattern)
    start = before.initialOffset()
    end = before.latestOffset(start, ALL)
    admin.delete_topic(topic)
    with pytest.raises(LostDataError, match="was deleted before a micro-batch could be done again"):
        stream(None, **pattern).partitions(start, end)
    assert stream(None, **pattern, **FORGIVING).partitions(start, end) == []


def test_a_topic_that_is_deleted_is_an_error_or_is_left_out(cluster, admin, write, stream):
    stays, goes = cluster.create_topic(), cluster.create_topic()
    write(goes, ["a"])
    both = f"{stays},{goes}"
    reader = stream(both)
    known = reader.latestOffset(reader.initialOffset(), ALL)
    admin.delete_topic(goes)
    with pytest.raises(LostDataError, match=f"Partition {goes}-0 is gone: its topic was deleted"):
        reader.latestOffset(known, ALL)
    forgiving = stream(both, **FORGIVING)
    step = forgiving.latestOffset(known, ALL)
    assert without_ids(step) == {stays: {"0": 0}}
    write(stays, ["b"])
    assert values(forgiving, step, forgiving.latestOffset(step, ALL)) == ["b"]


def test_a_log_that_ends_before_what_was_read_is_an_error_or_goes_on_at_its_end(cluster, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a"])
    known = {topic: {"0": 7}}
    with pytest.raises(LostDataError, match="ends before offset 1, but was read up to 7 before"):
        stream(topic).latestOffset(known, ALL)
    once = stream(topic)
    once.prepareForTriggerAvailableNow()
    with pytest.raises(LostDataError, match="ends before offset 1"):
        once.latestOffset(known, ALL)
    forgiving = stream(topic, **FORGIVING)
    step = forgiving.latestOffset(known, ALL)
    assert without_ids(step) == {topic: {"0": 1}}
    assert values(forgiving, known, step) == []


def test_a_topic_that_is_not_there_is_an_error_that_names_it(stream):
    with pytest.raises(UnknownTopicError, match="There is no topic 'nowhere'"):
        stream("nowhere").initialOffset()
    reader = stream("nowhere", startingOffsets="latest")
    with pytest.raises(UnknownTopicError, match="There is no topic 'nowhere'"):
        reader.latestOffset(reader.initialOffset(), ALL)


def test_offsets_to_start_at_name_every_partition(cluster, write, stream):
    topic = cluster.create_topic(partitions=2)
    write(topic, ["a", "b"])
    given = stream(topic, startingOffsets=json.dumps({topic: {"0": 1, "1": -2}})).initialOffset()
    assert without_ids(given) == {topic: {"0": 1, "1": 0}}
    with pytest.raises(ConfigError, match=f"leaves out {topic}-1"):
        stream(topic, startingOffsets=json.dumps({topic: {"0": 1}})).initialOffset()
    with pytest.raises(ConfigError, match=f"names {topic}-2, which this query does not read"):
        stream(topic, startingOffsets=json.dumps({topic: {"0": 1, "1": 0, "2": 0}})).initialOffset()
    with pytest.raises(LostDataError, match=f"offset 9 of partition {topic}-0, whose log goes from 0 to before 2"):
        stream(topic, startingOffsets=json.dumps({topic: {"0": 9, "1": 0}})).initialOffset()


def test_what_is_not_committed_yet_is_not_read(cluster, connections, write, stream):
    topic = cluster.create_topic()
    write(topic, ["before"])
    reader, careless = stream(topic), stream(topic, **{"kafka.isolation.level": "read_uncommitted"})
    start = reader.initialOffset()
    session = TransactionalSession(connections, f"open-{topic}")
    transaction = session.begin()
    with ArrowWriter(connections, topic, transaction=transaction) as writer:
        writer.write(record_batch(["inside"]))
    committed = reader.latestOffset(start, ALL)
    assert values(reader, start, committed) == ["before"]
    seen = careless.latestOffset(start, ALL)
    assert values(careless, start, seen) == ["before", "inside"]
    assert reader.latestOffset(seen, ALL) == seen, "what is open is no loss"
    transaction.commit()
    assert values(reader, committed, next_offset(reader, committed)) == ["inside"]


def test_progress_is_published_as_a_groups_offsets_when_a_micro_batch_is_done(cluster, connections, write, stream):
    topic = cluster.create_topic(partitions=2)
    write(topic, ["a", "b"])
    group = f"progress-{topic}"
    reader = stream(topic, **{"kafka.group.id": group})
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert Groups(connections).committed(group) == {first: 0, second: 0}
    assert reader.latestOffset(end, ALL) == end
    assert Groups(connections).committed(group) == {first: 2, second: 0}


def test_a_group_with_members_keeps_its_offsets_and_the_query_goes_on(cluster, write, stream, caplog):
    topic = cluster.create_topic()
    write(topic, ["a"])
    with penstock.Consumer(topic, group=f"members-{topic}", bootstrap=cluster.bootstrap) as consumer:
        next(iter(consumer))
        reader = stream(topic, **{"kafka.group.id": f"members-{topic}"})
        end = reader.latestOffset(reader.initialOffset(), ALL)
        assert reader.latestOffset(end, ALL) == end
    assert "has members now" in caplog.text


def test_the_latest_offsets_are_reported_for_the_querys_progress(cluster, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a", "b"])
    reader = stream(topic, maxOffsetsPerTrigger="1")
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    assert reader.reportLatestOffset() == {topic: {"0": 2}}


def test_what_travels_to_the_executors_is_small(cluster, write, stream):
    topic = cluster.create_topic()
    write(topic, ["a"])
    assert len(pickle.dumps(stream(topic))) < 1500
    reader = stream(topic)
    start = reader.initialOffset()
    assert len(pickle.dumps(reader.partitions(start, reader.latestOffset(start, ALL)))) < 300


def test_a_broker_that_is_away_is_waited_for(write, stream):
    with Cluster() as own:
        topic = own.create_topic()
        reader = stream(topic, bootstrap=own.bootstrap)
        start = reader.initialOffset()
        penstock.write(topic, record_batch(["a"]), bootstrap=own.bootstrap)
        end = reader.latestOffset(start, ALL)
        own.stop()
        back = threading.Timer(1.0, own.start)
        back.start()
        try:
            assert values(reader, start, end) == ["a"], "a task waits for its first broker"
        finally:
            back.join()
        own.stop()
        back = threading.Timer(1.0, own.start)
        back.start()
        try:
            assert reader.latestOffset(end, ALL) == end, "the driver waits for one that it knows"
        finally:
            back.join()


def test_a_broker_that_never_answered_is_an_error_at_once(stream):
    reader = stream("orders", bootstrap=f"127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(KafkaError, match="No broker answered at"):
        reader.initialOffset()
