"""Options of the source: Spark's names and defaults, and a sentence for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from penstock.errors import ConfigError
from penstock.spark.bounds import AtOffsets, AtTime, Everywhere
from penstock.spark.options import OPTIONS, SETTINGS, batch_options, includes_headers, stream_options
from penstock.spark.subscription import Assigned, Matching, Named
from penstock.types import TopicPartition

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}


def batch(**options):
    return batch_options({**NEEDED, **options})


def stream(**options):
    return stream_options({**NEEDED, **options})


def test_the_defaults_are_those_of_sparks_kafka_source_but_for_the_isolation_level():
    bounded, endless = batch(), stream()
    assert (bounded.starting, bounded.ending) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert endless.starting == Everywhere(LATEST)
    assert bounded.is_loss_fatal
    assert not bounded.include_headers
    assert bounded.min_partitions is bounded.max_records_per_partition is None
    assert endless.max_offsets_per_trigger is endless.min_offsets_per_trigger is endless.group_id is None
    assert endless.max_trigger_delay_ms == 15 * 60 * 1000
    assert bounded.isolation_level == READ_COMMITTED


def test_names_are_case_insensitive_as_spark_hands_them_over_in_small_letters():
    options = {"KAFKA.bootstrap.SERVERS": "a:1", "subscribepattern": "o.*", "FAILONDATALOSS": "False"}
    parsed = batch_options(options)
    assert parsed.connecting.bootstrap == "a:1"
    assert parsed.subscription == Matching("o.*")
    assert not parsed.is_loss_fatal


def test_bootstrap_is_a_short_name():
    assert batch_options({"bootstrap": "a:1,b:2", "subscribe": "x"}).connecting.bootstrap == "a:1,b:2"


def test_what_to_read_is_said_in_one_of_three_ways():
    assert batch(subscribe=" a, b,a ").subscription == Named(("a", "b"))
    others = {"kafka.bootstrap.servers": "a:1"}
    assigned = batch_options({**others, "assign": '{"a": [1, 0], "b": [2]}'}).subscription
    assert assigned == Assigned((TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 2)))
    with pytest.raises(ConfigError, match="by one of subscribe, subscribePattern and assign; there is none"):
        batch_options(others)
    with pytest.raises(ConfigError, match="there is subscribe and assign"):
        batch(assign='{"a": [0]}')


def test_offsets_are_json_by_topic_and_partition():
    found = stream(startingOffsets='{"orders": {"0": 5, "1": -1, "2": -2}}').starting
    orders = [TopicPartition("orders", n) for n in range(3)]
    assert found == AtOffsets("startingOffsets", dict(zip(orders, (5, LATEST, EARLIEST), strict=True)))


def test_offsets_may_be_copied_from_a_checkpoint_with_the_topics_id_in_them():
    found = stream(startingOffsets='{"orders": {"0": 5, "id": "AAAAAAAAAAAAAAAAAAAAAQ"}}').starting
    assert found == AtOffsets("startingOffsets", {TopicPartition("orders", 0): 5})


def test_a_time_for_all_wins_over_times_of_each_and_these_over_offsets():
    options = {
        "startingTimestamp": "1000",
        "startingOffsetsByTimestamp": '{"orders": {"0": 2000}}',
        "startingOffsets": "earliest",
    }
    assert batch(**options).starting == AtTime("startingTimestamp", 1000, {}, or_latest=False)
    del options["startingTimestamp"]
    each = AtTime("startingOffsetsByTimestamp", None, {TopicPartition("orders", 0): 2000}, or_latest=False)
    assert batch(**options).starting == each


def test_where_no_record_is_late_enough_a_start_is_an_error_and_an_end_is_the_end():
    assert not batch(startingTimestamp="1").starting.or_latest
    assert batch(startingTimestamp="1", startingOffsetsByTimestampStrategy="latest").starting.or_latest
    assert batch(endingTimestamp="1").ending.or_latest


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("250", 250), ("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("2h", 7_200_000)]
)
def test_times_are_written_as_in_spark(text, milliseconds):
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_settings_of_kafkas_consumer_that_mean_something_are_used():
    found = stream(
        **{
            "kafka.isolation.level": "read_uncommitted",
            "kafka.client.id": "me",
            "kafka.group.id": "lake",
            "kafka.default.api.timeout.ms": "7000",
            "kafkaConsumer.pollTimeoutMs": "8000",
        }
    )
    assert found.isolation_level == READ_UNCOMMITTED
    assert (found.connecting.client_id, found.connecting.timeout_ms) == ("me", 7000)
    assert (found.group_id, found.poll_timeout_ms) == ("lake", 8000)


def test_settings_that_tune_another_client_are_accepted_so_that_old_jobs_run():
    settings = {"kafka.max.poll.records": "500", "kafka.fetch.min.bytes": "1", "groupIdPrefix": "x"}
    assert batch(**settings, **{"fetchOffset.numRetries": "3"}) == batch()


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("failOnDatLoss", "false", "There is no option 'failOnDatLoss'. Did you mean failOnDataLoss?"),
        ("kafka.bootstrap.server", "a:1", "Did you mean kafka.bootstrap.servers?"),
        ("kafka.isolation", "x", "Did you mean kafka.isolation.level?"),
        ("zzz", "1", "There is no option 'zzz'. docs/spark-source.md lists what there is."),
        ("failOnDataLoss", "maybe", "The option failOnDataLoss is 'maybe', which is not true or false."),
        ("minPartitions", "0", "The option minPartitions is '0', which is not a whole number above 0."),
        ("startingOffsets", "soon", "not earliest, latest, or JSON such as"),
        ("startingOffsets", '{"orders": 5}', "not JSON such as"),
        ("startingOffsets", '{"orders": {"0": "5"}}', "not JSON such as"),
        ("startingOffsets", "latest", "The option startingOffsets is latest, where a batch finds nothing."),
        ("startingOffsets", '{"orders": {"0": -1}}', "The option startingOffsets is latest"),
        ("endingOffsets", "earliest", "The option endingOffsets is earliest"),
        ("startingTimestamp", "yesterday", "not a number of milliseconds since 1970"),
        ("maxOffsetsPerTrigger", "5", "The option maxOffsetsPerTrigger does not fit here. A batch reads a range once"),
        ("kafka.auto.offset.reset", "earliest", "cannot be set. Use startingOffsets"),
        ("kafka.enable.auto.commit", "true", "cannot be set. Spark keeps the offsets"),
        ("kafka.value.deserializer", "x", "cannot be set. Values come as bytes"),
        ("kafka.sasl.mechanism", "PLAIN", "cannot be set. Penstock's client does not log in yet"),
        ("kafka.security.protocol", "SSL", "kafka.security.protocol SSL is not supported yet"),
        ("kafka.isolation.level", "serializable", "not read_committed or read_uncommitted"),
        ("kafka.bootstrap.servers", "nowhere:port", "has no port between 1 and"),
        ("subscribe", " , ", "not the name of a topic"),
    ],
)
def test_a_mistake_is_a_sentence_that_says_what_to_write(option, value, words):
    with pytest.raises(ConfigError) as caught:
        batch(**{option: value})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("endingOffsets", "latest", "The option endingOffsets does not fit here. A stream has no end"),
        ("maxTriggerDelay", "soon", "not a time such as 500ms, 30s, 15m or 2h"),
        ("maxOffsetsPerTrigger", "-5", "not a whole number above 0"),
    ],
)
def test_a_mistake_in_a_stream_is_a_sentence_too(option, value, words):
    with pytest.raises(ConfigError) as caught:
        stream(**{option: value})
    assert words in str(caught.value)


@pytest.mark.parametrize(("option", "value"), [("subscribePattern", "("), ("assign", '{"a": 1}'), ("assign", "{}")])
def test_what_cannot_be_subscribed_to_is_said(option, value):
    with pytest.raises(ConfigError, match=f"The option {option} is "):
        batch_options({"kafka.bootstrap.servers": "a:1", option: value})


def test_the_documents_have_every_option():
    text = (Path(__file__).resolve().parents[2] / "docs" / "spark-source.md").read_text()
    named = [*OPTIONS, *(f"kafka.{setting}" for setting in SETTINGS)]
    hidden = {"fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafka.security.protocol"}
    assert [name for name in named if f"`{name}`" not in text and name not in hidden] == []


def test_the_schema_shows_mistakes_that_concern_batch_and_stream_alike():
    assert includes_headers({**NEEDED, "includeHeaders": "TRUE"})
    assert not includes_headers(NEEDED)
    with pytest.raises(ConfigError, match=r"No broker is named. Set the option kafka\.bootstrap\.servers"):
        includes_headers({"subscribe": "x"})
