"""The image: events one by one give what loading at once gives, and a delta says exactly what changed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata import records
from penstock.metadata.image import Delta, Image, PartitionImage
from penstock.metadata.records import (
    BrokerRecord,
    ClusterRecord,
    ConfigRecord,
    ControllerRecord,
    Endpoint,
    PartitionRecord,
    TopicRecord,
)
from penstock.metadata.store import DeleteEvent, Entry, Event, PutEvent
from penstock.types import TopicId

NAMES = ("a", "b", "__consumer_offsets")


def topic_id(name: str, generation: int) -> TopicId:
    """Each name has ids of its own, as real random ids are."""
    return TopicId(bytes([NAMES.index(name), generation]) * 8)


def small(largest: int) -> st.SearchStrategy[int]:
    return st.integers(0, largest)


def pairs() -> st.SearchStrategy[tuple[str, Any]]:
    """A key, and a record for it."""
    names = st.sampled_from(NAMES)
    replicas = st.lists(small(3), min_size=1, max_size=3, unique=True).map(tuple)
    ids = st.builds(topic_id, names, small(1))
    return st.one_of(
        st.builds(
            lambda name, generation, assigned: (
                records.topic_key(name),
                TopicRecord(name, topic_id(name, generation), dict(enumerate(assigned)), 5),
            ),
            names,
            small(1),
            st.lists(replicas, min_size=1, max_size=4),
        ),
        st.builds(
            lambda each, index, *state: (records.partition_key(each, index), PartitionRecord(*state)),
            ids,
            small(4),
            st.integers(-1, 3),
            small(3),
            replicas,
            small(3),
        ),
        st.builds(
            lambda name, value: (records.topic_config_key(name), ConfigRecord({"retention.ms": str(value)})),
            names,
            small(3),
        ),
        st.builds(
            lambda name, value: (records.broker_config_key(name), ConfigRecord({"log.retention.ms": str(value)})),
            st.sampled_from(["1", "default"]),
            small(3),
        ),
        st.builds(lambda value: (records.group_config_key("g/1"), ConfigRecord({"x": str(value)})), small(3)),
        st.builds(
            lambda broker_id, epoch: (
                records.broker_key(broker_id),
                BrokerRecord(broker_id, epoch, (Endpoint("PLAINTEXT", "h", 9092),)),
            ),
            small(3),
            small(3),
        ),
        st.builds(lambda broker_id: (records.CONTROLLER_KEY, ControllerRecord(broker_id, 1)), small(3)),
        st.just((records.CLUSTER_ID_KEY, ClusterRecord("abc"))),
        st.just(("/of/the/future", ConfigRecord({}))),
    )


def histories() -> st.SearchStrategy[list[Event]]:
    """Puts and deletes of the same few keys, with the versions that a store would give."""

    def number(steps: list[tuple[tuple[str, Any], bool]]) -> list[Event]:
        return [
            DeleteEvent(key) if is_deleted else PutEvent(key, record.encode(), version)
            for version, ((key, record), is_deleted) in enumerate(steps)
        ]

    return st.lists(st.tuples(pairs(), st.booleans()), max_size=60).map(number)


def final_entries(events: list[Event]) -> list[Entry]:
    entries: dict[str, Entry] = {}
    for event in events:
        if isinstance(event, PutEvent):
            entries[event.key] = Entry(*event)
        else:
            entries.pop(event.key, None)
    return sorted(entries.values())


@given(histories(), st.data())
def test_events_in_any_pieces_give_the_image_of_the_final_keys(events: list[Event], data: st.DataObject) -> None:
    expected = Image.load(final_entries(events))
    image, position = Image(), 0
    while position < len(events):
        size = data.draw(st.integers(1, 10))
        image, _ = image.apply(events[position : position + size])
        position += size
    assert image == expected


@given(histories())
def test_a_delta_says_what_changed_and_nothing_else(events: list[Event]) -> None:
    half = len(events) // 2
    old, _ = Image().apply(events[:half])
    new, delta = old.apply(events[half:])
    assert delta == old.resync(final_entries(events))[1]
    assert {topic.name for topic in delta.topics_created} == {
        name
        for name, topic in new.topics.items()
        if name not in old.topics or old.topics[name].topic_id != topic.topic_id
    }
    assert {topic.topic_id for topic in delta.topics_deleted} == old.topics_by_id.keys() - new.topics_by_id.keys()
    changed = {topic.name for topic in delta.topics_changed}
    assert changed == {
        name
        for name, topic in new.topics.items()
        if name in old.topics and old.topics[name].topic_id == topic.topic_id and old.topics[name] != topic
    }
    assert set(delta.brokers_changed) == {each for each in range(4) if old.brokers.get(each) != new.brokers.get(each)}
    assert bool(delta) == (delta != Delta())


@given(histories())
def test_an_image_never_changes(events: list[Event]) -> None:
    half = len(events) // 2
    old, _ = Image().apply(events[:half])
    old.apply(events[half:])
    assert old == Image.load(final_entries(events[:half]))


@given(histories())
def test_both_tables_of_topics_agree(events: list[Event]) -> None:
    image, _ = Image().apply(events)
    assert {topic.topic_id: topic for topic in image.topics.values()} == image.topics_by_id


def put(key: str, record: Any, version: int = 1) -> PutEvent:
    return PutEvent(key, record.encode(), version)


A = topic_id("a", 0)


def image_of_a(partitions: int = 2) -> Image:
    events: list[Event] = [
        put(records.topic_key("a"), TopicRecord("a", A, dict.fromkeys(range(partitions), (1, 2)), 5))
    ]
    events += [put(records.partition_key(A, p), PartitionRecord(1, 0, (1, 2), 0), 2) for p in range(partitions)]
    events.append(put(records.broker_key(1), BrokerRecord(1, 4, ())))
    return Image().apply(events)[0]


def test_lookups() -> None:
    image = image_of_a()
    assert image.topics["a"] is image.topics_by_id[A]
    assert image.partition("a", 1) == PartitionImage(1, 1, 0, (1, 2), (1, 2), 0, 2)
    assert image.partition("a", 2) is None
    assert image.partition("a", -1) is None
    assert image.partition("b", 0) is None
    assert image.offline_replicas(image.topics["a"].partitions[0]) == (2,)
    assert image.topic_config("a") == {}
    assert not image.topics["a"].is_internal


def test_new_partitions_are_added_and_not_changed() -> None:
    image = image_of_a(2)
    events = [
        put(records.topic_key("a"), TopicRecord("a", A, dict.fromkeys(range(3), (1, 2)), 5), 8),
        put(records.partition_key(A, 2), PartitionRecord(2, 0, (1, 2), 0), 8),
    ]
    after, delta = image.apply(events)
    topic = after.topics["a"]
    assert delta == Delta(topics_changed=(topic,), partitions_added=((topic, topic.partitions[2]),))


def test_a_new_leader_changes_one_partition_and_shares_the_others() -> None:
    image = image_of_a(3)
    after, delta = image.apply([put(records.partition_key(A, 1), PartitionRecord(2, 1, (2,), 1), 9)])
    topic = after.topics["a"]
    assert delta == Delta(topics_changed=(topic,), partitions_changed=((topic, topic.partitions[1]),))
    assert topic.partitions[0] is image.topics["a"].partitions[0]
    assert topic.partitions[1].leader == 2
    assert after.brokers is image.brokers


def test_a_topic_whose_state_has_not_come_has_no_leader() -> None:
    image, _ = Image().apply([put(records.topic_key("a"), TopicRecord("a", A, {0: (1,)}, 5))])
    assert image.topics["a"].partitions == (PartitionImage(0, -1, -1, (1,), (), -1, -1),)


def test_a_topic_created_again_is_another_topic() -> None:
    image = image_of_a()
    again = topic_id("a", 1)
    after, delta = image.apply(
        [DeleteEvent(records.topic_key("a")), put(records.topic_key("a"), TopicRecord("a", again, {0: (1,)}, 6), 9)]
    )
    assert delta.topics_deleted == (image.topics["a"],)
    assert delta.topics_created == (after.topics["a"],)
    assert after.topics["a"].partitions[0].leader == -1, "the state of the old topic is not the new one's"


def test_everything_is_the_delta_from_nothing() -> None:
    image = image_of_a()
    delta = image.everything()
    assert delta == Delta(topics_created=(image.topics["a"],), brokers_changed=(1,))
    assert not Image().everything()
