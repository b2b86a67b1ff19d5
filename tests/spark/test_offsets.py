"""A stream's offsets in the checkpoint: Spark's own form, and the topics' ids."""

from __future__ import annotations

import json

import pytest

from penstock.errors import ConfigError
from penstock.spark.offsets import StreamOffset
from penstock.types import TopicPartition

ID = "4Zk3S2vQTmK1hJ0y8Yw7Vg"


def test_the_form_is_that_of_sparks_kafka_source_with_the_topics_id():
    offset = StreamOffset({TopicPartition("b", 0): 7, TopicPartition("a", 10): 2, TopicPartition("a", 9): 1}, {"a": ID})
    text = json.dumps(offset.to_json())
    assert text == f'{{"a": {{"9": 1, "10": 2, "id": "{ID}"}}, "b": {{"0": 7}}}}'
    assert StreamOffset.from_json(offset.to_json()) == offset


def test_the_same_offsets_are_always_the_same_text():
    """Spark compares texts to see whether there is something new."""
    one = StreamOffset({TopicPartition("a", 0): 1, TopicPartition("b", 1): 2}, {"a": ID, "b": ID})
    other = StreamOffset({TopicPartition("b", 1): 2, TopicPartition("a", 0): 1}, {"b": ID, "a": ID})
    assert json.dumps(one.to_json()) == json.dumps(other.to_json())


def test_a_checkpoint_of_sparks_kafka_source_is_understood():
    offset = StreamOffset.from_json({"orders": {"0": 5, "1": 6}})
    assert offset.offsets == {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 6}
    assert offset.is_same_topic("orders", ID)


def test_a_topic_with_another_id_is_another_topic():
    offset = StreamOffset.from_json({"orders": {"0": 5, "id": ID}})
    assert offset.is_same_topic("orders", ID)
    assert offset.is_same_topic("orders", None)
    assert not offset.is_same_topic("orders", "AAAAAAAAAAAAAAAAAAAAAQ")


@pytest.mark.parametrize("written", [{"index": 3}, {"orders": {"first": 1}}, {"orders": {"0": None}}])
def test_a_checkpoint_of_something_else_is_an_error_that_says_so(written):
    with pytest.raises(ConfigError, match="The checkpoint has offsets that are not a topic's"):
        StreamOffset.from_json(written)
