"""The controller on a real store: what is answered has been seen by every listener, and survives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.controller.configs import Alteration, ConfigChange, ResourceType
from penstock.broker.controller.controller import Controller
from penstock.broker.controller.liveness import Registration
from penstock.broker.controller.topics import CreatedTopic, NewPartitions, NewTopic, TopicRef
from penstock.errors import ConfigError, ErrorCode, KafkaError
from penstock.metadata import records
from penstock.metadata.image import Delta, Image
from penstock.metadata.records import CounterRecord, Endpoint, TopicRecord
from penstock.metadata.sqlite import SqliteStore
from penstock.metadata.store import Put, StoreError
from penstock.types import TopicId

BROKER = Registration(1, (Endpoint("PLAINTEXT", "localhost", 9092),))


class FixedClock:
    def now_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic(self) -> float:
        return 0.0


class Recorder:
    """A listener that takes a few turns of the loop, and remembers."""

    def __init__(self) -> None:
        self.images: list[Image] = []
        self.deltas: list[Delta] = []

    async def __call__(self, image: Image, delta: Delta) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        self.images.append(image)
        self.deltas.append(delta)


Body = Callable[[Controller, Recorder, SqliteStore], Awaitable[None]]
Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path, rules: Any) -> Run:
    """Start a controller on the store of this test, run the body, stop it."""

    def start_and_stop(body: Body, registration: Registration = BROKER, **settings: Any) -> None:
        async def main() -> None:
            store = await SqliteStore.open(str(tmp_path / "meta.db"))
            controller = Controller(store, clock=FixedClock(), chance=random.Random(1), rules=rules, **settings)
            recorder = Recorder()
            controller.add_listener(recorder)
            try:
                await controller.start(registration)
                await body(controller, recorder, store)
            finally:
                await controller.stop()
                await store.close()

        asyncio.run(main())

    return start_and_stop


def codes(results: Mapping[str, object]) -> dict[str, ErrorCode]:
    return {name: each.code if isinstance(each, KafkaError) else ErrorCode.NONE for name, each in results.items()}


def test_the_first_start_makes_a_cluster_and_tells_of_it(run: Run) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        image = controller.image
        assert recorder.images == [image]
        assert recorder.deltas[0].brokers_changed == (1,)
        assert len(image.cluster_id) == 22
        assert image.controller_id == 1
        assert image.brokers[1].endpoints == BROKER.endpoints
        assert image.brokers[1].epoch == controller.broker_epoch

    run(body)


def test_a_created_topic_has_been_seen_by_the_listeners_before_the_answer(run: Run) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        results = await controller.create_topics([NewTopic("a", 3, 1), NewTopic("b"), NewTopic("bad name")])
        assert codes(results) == {
            "a": ErrorCode.NONE,
            "b": ErrorCode.NONE,
            "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        }
        assert [topic.name for topic in recorder.deltas[-1].topics_created] == ["a", "b"]
        assert [p.leader for p in controller.image.topics["a"].partitions] == [1, 1, 1]
        created = results["a"]
        assert isinstance(created, CreatedTopic)
        assert controller.image.topics_by_id[created.topic_id].name == "a"

    run(body)


def test_the_image_is_published_after_the_listeners_have_seen_it(run: Run) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        creating = asyncio.create_task(controller.create_topics([NewTopic("a")]))
        while not creating.done():
            if "a" in controller.image.topics:
                assert "a" in recorder.images[-1].topics
            await asyncio.sleep(0)

    run(body)


def test_validation_only_writes_nothing(run: Run) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        before = await store.list("/")
        results = await controller.create_topics([NewTopic("a", 3, 1)], validate_only=True)
        assert codes(results) == {"a": ErrorCode.NONE}
        assert await store.list("/") == before

    run(body)


def test_of_many_that_create_one_topic_one_succeeds(run: Run) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        answers = await asyncio.gather(*(controller.create_topics([NewTopic("a")]) for _ in range(20)))
        found = [codes(answer)["a"] for answer in answers]
        assert sorted(found) == [ErrorCode.NONE] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 19

    run(body)


def test_a_life_of_a_topic(run: Run) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        await controller.create_topics([NewTopic("a", 1, 1, configs=(("retention.ms", "5"),))])
        assert await controller.create_partitions([NewPartitions("a", 3)]) == {"a": None}
        assert [partition.index for _, partition in recorder.deltas[-1].partitions_added] == [1, 2]
        alteration = Alteration(ResourceType.TOPIC, "a", (ConfigChange("retention.ms", "9"),))
        assert await controller.alter_configs([alteration], is_incremental=True) == (None,)
        assert recorder.deltas[-1].topic_configs_changed == ("a",)
        assert controller.image.topic_config("a") == {"retention.ms": "9"}
        (deleted,) = await controller.delete_topics([TopicRef("a")])
        assert deleted.error is None
        assert recorder.deltas[-1].topics_deleted[0].name == "a"
        assert controller.image.topics == {}
        left = [entry.key for entry in await store.list("/")]
        assert not [key for key in left if key.startswith(("/topics", "/partitions", "/configs"))]

    run(body)


def test_deletion_and_defaults_follow_the_settings(run: Run) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        await controller.create_topics([NewTopic("a")])
        (deleted,) = await controller.delete_topics([TopicRef("a")])
        assert deleted.error is not None
        assert deleted.error.code == ErrorCode.TOPIC_DELETION_DISABLED

    run(body, is_deletion_enabled=lambda: False)


def test_after_a_restart_all_is_there_in_new_epochs(run: Run) -> None:
    lives: list[tuple[str, TopicId, int, int]] = []

    async def first(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        await controller.create_topics([NewTopic("a", 2, 1)])
        await note(controller, recorder, store)

    async def note(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        image = controller.image
        assert len(recorder.deltas) <= 2, "a restart is one image"
        topic = image.topics["a"]
        lives.append((image.cluster_id, topic.topic_id, controller.broker_epoch, topic.partitions[1].leader_epoch))
        assert [p.leader for p in topic.partitions] == [1, 1]

    run(first)
    run(note)
    run(note)
    assert len({(cluster_id, topic_id) for cluster_id, topic_id, _, _ in lives}) == 1
    assert [leader_epoch for _, _, _, leader_epoch in lives] == [0, 1, 2]
    assert len({broker_epoch for _, _, broker_epoch, _ in lives}) == 3


def test_a_change_by_others_is_seen_and_planned_with(run: Run) -> None:
    """The transaction is refused, the image catches up, and the second plan tells the truth."""

    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        gate = asyncio.Event()

        async def slow(image: Image, delta: Delta) -> None:
            await gate.wait()

        controller._listeners.append(slow)
        foreign = TopicRecord("a", TopicId(b"f" * 16), {0: (1,)}, 0)
        await store.txn([Put(records.topic_key("a"), foreign.encode())])
        creating = asyncio.create_task(controller.create_topics([NewTopic("a")]))
        for _ in range(100):  # time for many attempts, were it not to wait
            await store.get("/")
        assert not creating.done()
        gate.set()
        assert codes(await creating) == {"a": ErrorCode.TOPIC_ALREADY_EXISTS}
        assert controller.image.topics["a"].topic_id == foreign.topic_id

    run(body)


def test_who_lost_the_office_writes_nothing(run: Run) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        await store.txn([Put(records.CONTROLLER_EPOCH_KEY, CounterRecord(99).encode())])
        with pytest.raises(KafkaError) as caught:
            await controller.create_topics([NewTopic("a")])
        assert caught.value.code == ErrorCode.NOT_CONTROLLER
        assert await store.list(records.TOPICS_PREFIX) == []

    run(body)


def test_a_listener_that_fails_fails_the_controller_and_no_call_hangs(run: Run) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        def fail(image: Image, delta: Delta) -> None:
            raise RuntimeError("no room for logs")

        controller._listeners.append(fail)
        lost = asyncio.create_task(controller.wait_lost())
        with pytest.raises(StoreError, match="no room for logs"):
            await controller.create_topics([NewTopic("a")])
        with pytest.raises(RuntimeError, match="no room for logs"):
            await lost

    run(body)


def test_a_call_that_waits_when_the_controller_stops_is_told(run: Run) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        busy = asyncio.Event()

        async def never(image: Image, delta: Delta) -> None:
            busy.set()
            await asyncio.Event().wait()

        controller._listeners.append(never)
        creating = asyncio.create_task(controller.create_topics([NewTopic("a")]))
        await busy.wait()
        await controller.stop()
        with pytest.raises(StoreError, match="stopped"):
            await creating
        with pytest.raises(StoreError, match="stopped"):
            await controller.create_topics([NewTopic("b")])

    run(body)


def test_the_office_and_the_registration_end_with_the_controller(run: Run, tmp_path: Path) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        await controller.stop()
        image = Image.load(await store.list("/"))
        assert image.brokers == {}
        assert image.controller_id == -1
        assert image.cluster_id

    run(body)


def test_a_broker_of_another_cluster_is_refused_with_a_sentence(run: Run) -> None:
    async def nothing(controller: Controller, recorder: Recorder, store: SqliteStore) -> None: ...

    run(nothing, Registration(1, (), cluster_id="mine"))
    run(nothing, Registration(1, (), cluster_id="mine"))
    run(nothing, Registration(1, ()))
    with pytest.raises(ConfigError, match="belongs to the cluster other, but the metadata is of mine"):
        run(nothing, Registration(1, (), cluster_id="other"))


def test_a_second_broker_on_one_store_is_refused_with_a_sentence(run: Run, rules: Any) -> None:
    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        for broker_id, sentence in ((1, "has the id 1 already"), (2, "Broker 1 is the controller")):
            second = Controller(store, clock=FixedClock(), chance=random.Random(1), rules=rules)
            with pytest.raises(ConfigError, match=sentence):
                await second.start(Registration(broker_id, ()))
            await second.stop()
        assert codes(await controller.create_topics([NewTopic("a")])) == {"a": ErrorCode.NONE}

    run(body)


def test_producer_ids_are_handed_out_once_across_restarts(run: Run) -> None:
    given: list[int] = []

    async def body(controller: Controller, recorder: Recorder, store: SqliteStore) -> None:
        given.extend([await controller.next_producer_id() for _ in range(3)])

    run(body)
    run(body)
    assert given == [0, 1, 2, 1000, 1001, 1002]
