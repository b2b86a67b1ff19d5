"""What is repeated thousands of times a second leaves nothing to the garbage collector.

Objects that know each other are freed only by a collection, and one of 50,000 of them stops the broker for 20 ms: seen
once with fetches that wait, it was the latency of every hundredth message.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import raw
from members import Member, find_coordinator
from penstock.testing import Cluster
from transactional import Transactional

TIMES = 20
OURS = ("penstock.broker", "penstock.net", "penstock.log")
"""The client of these tests runs in the same process, and is left out."""


@pytest.fixture
def broker() -> Iterator[Cluster]:
    """In this process, where its garbage can be seen."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def topic(broker: Cluster) -> str:
    return broker.create_topic()


def garbage_of(work: Callable[[], object]) -> Counter[str]:
    """What `work`, done many times, leaves to the collector: the broker's own classes and functions, with counts."""
    work()
    gc.collect()
    gc.disable()
    try:
        for _ in range(TIMES):
            work()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = Counter(name for name in map(_name, gc.garbage) if name.startswith(OURS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return Counter({name: count for name, count in found.items() if count >= TIMES})


def _name(item: object) -> str:
    named = item if hasattr(item, "__qualname__") else type(item)
    return f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"


def test_a_fetch_that_is_answered_when_data_comes(broker, connection, topic):
    offset = 0
    with raw.Connection(broker.bootstrap) as producer:

        def poll() -> None:
            nonlocal offset
            connection.send("Fetch", 12, **raw.fetch_fields(topic, offset, max_wait_ms=30_000, min_bytes=1))
            assert connection.is_silent(0.01)
            raw.produce(producer, topic, raw.batch([b"v"]))
            offset += 1
            assert raw.values(connection.receive("Fetch", 12).responses[0].partitions[0].records) == [b"v"]

        assert garbage_of(poll) == {}


@pytest.mark.parametrize("isolation", [0, 1])
def test_a_fetch_whose_time_is_over(connection, topic, isolation):
    fields = raw.fetch_fields(topic, max_wait_ms=5, min_bytes=1, isolation_level=isolation)
    assert garbage_of(lambda: connection.call("Fetch", 12, **fields)) == {}


def test_a_fetch_that_finds_something(connection, topic):
    raw.produce(connection, topic, raw.batch([b"v"]))
    assert garbage_of(lambda: raw.fetch(connection, topic)) == {}


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_batch(durability):
    with Cluster(penstock_durability=durability) as running, raw.Connection(running.bootstrap) as connection:
        topic = running.create_topic()
        assert garbage_of(lambda: raw.produce(connection, topic, raw.batch([b"v"]))) == {}


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_commit_and_a_heartbeat(durability):
    with Cluster(penstock_durability=durability) as running:
        topic = running.create_topic()
        with Member(running.bootstrap, "g") as member:
            find_coordinator(member, "g")
            member.join()
            member.sync({member.id: b""})

            def work() -> None:
                assert member.heartbeat() == 0
                assert member.commit({(topic, 0): 1}) == [0]

            assert garbage_of(work) == {}


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_transaction(durability):
    with Cluster(penstock_durability=durability) as running, Transactional(running.bootstrap) as producer:
        topic = running.create_topic()
        assert producer.settled(producer.init) == 0

        def work() -> None:
            assert producer.settled(lambda: producer.add(topic)) == 0
            assert producer.produce(topic, [b"v"]) == 0
            assert producer.end(committed=True) == 0

        assert garbage_of(work) == {}
