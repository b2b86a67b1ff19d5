"""The controller: the shell that owns the image, and writes to the metadata store what the planners decide.

    planner(image) -> ops -> store.txn -> watch -> new image -> listeners -> answer

Rules
- The image changes in one place only: the task that reads the watch. The listeners see a new image first, and only
  when they have finished is it `image`; a call that wrote something returns after that. So a topic that was created is
  usable, and no one sees it in `image` before its logs are open.
- Calls that write run one after the other. A transaction that was refused because the image was behind waits for the
  image to catch up, and is planned again; it is never skipped.
- Each transaction checks the controller's epoch. Whoever lost that office gets NOT_CONTROLLER and writes nothing.
- A listener is called with each image and its delta, in order, none left out; the first delta holds everything. It may
  be async; the next image waits for it. It must not call the controller, and it does not raise: when it does, the
  controller has failed, and every call that waits fails with it.

After a crash: the store has dropped the registration and the office with the session; the rest is as it was committed.
The next start takes new epochs: of the broker, of the controller, and of each partition that this broker leads.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from penstock.broker.controller.configs import Alteration, ConfigRules, ResourceType, plan_alter
from penstock.broker.controller.elections import plan_broker_started
from penstock.broker.controller.liveness import Registration, plan_join
from penstock.broker.controller.producer_ids import ProducerIds
from penstock.broker.controller.topics import (
    CreatedTopic,
    DeletedTopic,
    NewPartitions,
    NewTopic,
    TopicDefaults,
    TopicRef,
    plan_create,
    plan_create_partitions,
    plan_delete,
)
from penstock.env.clock import Clock
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata import records
from penstock.metadata.image import Delta, Image
from penstock.metadata.store import (
    ABSENT,
    Changes,
    Check,
    Delete,
    Op,
    PutEvent,
    Resync,
    Session,
    Store,
    StoreError,
    TxnResult,
    Watch,
)

SESSION_TTL_MS = 9_000
"""How long a broker may be silent before the others take it for dead; Kafka's default of broker.session.timeout.ms."""

MAX_ATTEMPTS = 20
"""A plan is made anew after each lost race; so many in a row means that something is broken."""

Listener = Callable[[Image, Delta], Awaitable[None] | None]


class Plan(Protocol):
    @property
    def ops(self) -> tuple[Op, ...]: ...


P = TypeVar("P", bound=Plan)


class Controller:
    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        chance: random.Random,
        rules: ConfigRules,
        topic_defaults: Callable[[], TopicDefaults] = TopicDefaults,
        is_deletion_enabled: Callable[[], bool] = lambda: True,
    ) -> None:
        """The two callables are asked at each request, since those settings may change."""
        self.image = Image()
        self.broker_id = -1
        self.broker_epoch = -1
        self._store = store
        self._clock = clock
        self._chance = chance
        self._rules = rules
        self._topic_defaults = topic_defaults
        self._is_deletion_enabled = is_deletion_enabled
        self._producer_ids = ProducerIds(store)
        self._listeners: list[Listener] = []
        self._versions: dict[str, int] = {}  # of every key, as of the last image that all listeners have seen
        self._seen = asyncio.Event()  # set, and replaced, with each such image
        self._failure: Exception | None = None
        self._writing = asyncio.Lock()
        self._session: Session | None = None
        self._watch: Watch | None = None
        self._reading: asyncio.Task[None] | None = None
        self._epoch_version = ABSENT

    def add_listener(self, listener: Listener) -> None:
        """Before `start`, so that it sees everything. Those added first are called first."""
        assert self._reading is None, "a listener that comes after the start would miss images"
        self._listeners.append(listener)

    async def start(self, registration: Registration) -> None:
        """Register the broker, take the office, and show the listeners the first image."""
        self._session = await self._store.session(SESSION_TTL_MS)
        self._watch = self._store.watch("/")
        await self._advance(self._watch)
        await self._join(registration, self._session, self._watch)
        await self._tell(self.image, self.image.everything())
        self._reading = asyncio.create_task(self._read(self._watch), name="controller")

    async def stop(self) -> None:
        """Give up office and registration. The store stays open: whoever opened it closes it."""
        self._failure = self._failure or StoreError("The controller has stopped.")
        self._wake()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._watch is not None:
            self._watch.close()
        if self._session is not None:
            await self._session.close()

    async def wait_lost(self) -> None:
        """Return when the session is lost; raise when the controller failed. In both cases the broker must stop."""
        assert self._session is not None, "the controller was not started"
        assert self._reading is not None, "the controller was not started"
        lost = asyncio.create_task(self._session.lost.wait())
        try:
            await asyncio.wait([lost, self._reading], return_when=asyncio.FIRST_COMPLETED)
        finally:
            lost.cancel()
        if self._reading.done():
            self._reading.result()

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> Mapping[str, CreatedTopic | KafkaError]:
        """The answer for each name. Topics that were created are usable."""

        def check_configs(values: Mapping[str, str]) -> None:
            self._rules.check(ResourceType.TOPIC, "", values)

        plan = await self._write(
            lambda: plan_create(
                self.image,
                topics,
                defaults=self._topic_defaults(),
                check_configs=check_configs,
                chance=self._chance,
                now_ms=self._clock.now_ms(),
            ),
            validate_only,
        )
        return plan.results

    async def delete_topics(self, refs: Sequence[TopicRef]) -> tuple[DeletedTopic, ...]:
        """The answers. Deleted topics are gone for this broker's clients; their files may still be on their way."""
        plan = await self._write(lambda: plan_delete(self.image, refs, is_enabled=self._is_deletion_enabled()))
        return plan.results

    async def create_partitions(
        self, growths: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> Mapping[str, KafkaError | None]:
        """The answer for each topic; None is success."""
        plan = await self._write(
            lambda: plan_create_partitions(self.image, growths, chance=self._chance), validate_only
        )
        return plan.results

    async def alter_configs(
        self, alterations: Sequence[Alteration], *, is_incremental: bool, validate_only: bool = False
    ) -> tuple[KafkaError | None, ...]:
        """The answer for each alteration, in their order; None is success."""
        plan = await self._write(
            lambda: plan_alter(
                self.image, alterations, rules=self._rules, node_id=self.broker_id, is_incremental=is_incremental
            ),
            validate_only,
        )
        return plan.results

    async def next_producer_id(self) -> int:
        return await self._producer_ids.next()

    async def _join(self, registration: Registration, session: Session, watch: Watch) -> None:
        for _ in range(MAX_ATTEMPTS):
            plan = plan_join(
                self.image,
                registration,
                session,
                broker_epoch=await self._store.get(records.BROKER_EPOCH_KEY),
                controller_epoch=await self._store.get(records.CONTROLLER_EPOCH_KEY),
                chance=self._chance,
            )
            ops = [*plan.ops, *plan_broker_started(self.image, registration.broker_id)]
            result = await self._store.txn(ops)
            expected = await self._expected(ops, result)
            while not self._has(expected):
                await self._advance(watch)
            if result.ok:
                self.broker_id, self.broker_epoch = registration.broker_id, plan.broker_epoch
                self._epoch_version = result.versions[records.CONTROLLER_EPOCH_KEY]
                return
        raise StoreError("The broker could not be registered: others change the metadata all the time.")

    async def _write(self, make_plan: Callable[[], P], validate_only: bool = False) -> P:
        """Plan, commit, and wait until everyone here has seen it; plan again when the image was behind."""
        async with self._writing:
            for _ in range(MAX_ATTEMPTS):
                self._check_working()
                plan = make_plan()
                if validate_only or not plan.ops:
                    return plan
                ops = [Check(records.CONTROLLER_EPOCH_KEY, self._epoch_version), *plan.ops]
                result = await self._store.txn(ops)
                if records.CONTROLLER_EPOCH_KEY in result.failed:
                    raise KafkaError(ErrorCode.NOT_CONTROLLER)
                await self._wait_seen(await self._expected(ops, result))
                if result.ok:
                    return plan
        raise StoreError("The change could not be made: others change the same metadata all the time. Try again.")

    async def _expected(self, ops: Sequence[Op], result: TxnResult) -> dict[str, int]:
        """What the image must reach: our own writes, or what was there in the place of our checks."""
        if not result.ok:
            entries = {key: await self._store.get(key) for key in result.failed}
            return {key: entry.version if entry else ABSENT for key, entry in entries.items()}
        # A deletion is awaited where it is sure to happen: where the key was checked to be there.
        checked = {op.key for op in ops if isinstance(op, Check) and op.version != ABSENT}
        return {op.key: ABSENT for op in ops if isinstance(op, Delete) and op.key in checked} | dict(result.versions)

    def _has(self, expected: Mapping[str, int]) -> bool:
        """A key has reached a version when it has that or a later one; versions of one key grow."""
        for key, version in expected.items():
            seen = self._versions.get(key, ABSENT)
            if (seen != ABSENT) if version == ABSENT else (seen < version):
                return False
        return True

    async def _wait_seen(self, expected: Mapping[str, int]) -> None:
        while not self._has(expected):
            self._check_working()
            await self._seen.wait()

    def _check_working(self) -> None:
        if self._failure is not None:
            raise StoreError(f"The metadata cannot be changed: {self._failure}")

    async def _advance(self, watch: Watch) -> None:
        """One step while nobody listens yet."""
        answer = await anext(watch)
        self._publish(self._next_image(answer)[0], answer)

    async def _read(self, watch: Watch) -> None:
        try:
            async for answer in watch:
                image, delta = self._next_image(answer)
                await self._tell(image, delta)
                self._publish(image, answer)
            raise StoreError("The metadata store was closed under the controller.")
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._wake()

    def _next_image(self, answer: Resync | Changes) -> tuple[Image, Delta]:
        return self.image.resync(answer.entries) if isinstance(answer, Resync) else self.image.apply(answer.events)

    async def _tell(self, image: Image, delta: Delta) -> None:
        if not delta:
            return
        for listener in self._listeners:
            waiting = listener(image, delta)
            if inspect.isawaitable(waiting):
                await waiting

    def _publish(self, image: Image, answer: Resync | Changes) -> None:
        self.image = image
        if isinstance(answer, Resync):
            self._versions = {entry.key: entry.version for entry in answer.entries}
        else:
            for event in answer.events:
                if isinstance(event, PutEvent):
                    self._versions[event.key] = event.version
                else:
                    self._versions.pop(event.key, None)
        self._wake()

    def _wake(self) -> None:
        self._seen.set()
        self._seen = asyncio.Event()
