"""The part of the group coordinator that runs consumer groups: the shell around `consumer_heartbeat`.

A request is decided by the group as its records have it, so while records of a group are on their way the next request
of that group waits for its turn. Most heartbeats write nothing and are answered at once.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.broker.client_text import shown
from penstock.broker.config import BrokerConfig
from penstock.broker.groups import mixed_group, rebalance
from penstock.broker.groups.assignors import ASSIGNORS
from penstock.broker.groups.consumer_group import ConsumerGroup
from penstock.broker.groups.consumer_heartbeat import (
    ConsumerLimits,
    Decision,
    check_request,
    depart,
    heartbeat,
)
from penstock.broker.groups.consumer_member import JOINING
from penstock.broker.groups.consumer_records import CURRENT, ConsumerRecord
from penstock.broker.groups.group import ClassicGroup
from penstock.broker.groups.home import Home
from penstock.broker.groups.migration import downgrade, upgrade
from penstock.broker.groups.outcome import Client, Now, Outcome, Ticket
from penstock.broker.groups.records import GroupRecord, Record
from penstock.env.clock import Clock
from penstock.errors import ErrorCode, KafkaError
from penstock.metadata.image import Delta, Image
from penstock.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from penstock.wire.api.join_group import JoinGroupRequest
from penstock.wire.api.leave_group import LeaveGroupResponse, MemberIdentity
from penstock.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

OnDone = Callable[[KafkaError | None], None]
Write = Callable[[Home, Sequence[Record], OnDone], None]
SetTimer = Callable[[Home, ConsumerGroup], None]
OnDowngraded = Callable[[Home, GroupRecord], None]


class ConsumerCoordinator:
    def __init__(
        self,
        clock: Clock,
        chance: random.Random,
        config: BrokerConfig,
        write: Write,
        set_timer: SetTimer,
        on_downgraded: OnDowngraded,
    ) -> None:
        self._clock = clock
        self._chance = chance
        self._config = config
        self._write = write
        self._set_timer = set_timer
        self._on_downgraded = on_downgraded
        self._policy = config.get_str("group.consumer.migration.policy").lower()
        self._image = Image()
        self._broker_limits = _limits(config)
        self._group_limits: dict[str, ConsumerLimits] = {}
        """Of groups with settings of their own."""

    @property
    def default_assignor(self) -> str:
        return self._broker_limits.assignors[0]

    def on_image(self, image: Image, delta: Delta, config: BrokerConfig) -> None:
        """`config` is the broker's as it is now."""
        self._image = image
        changed = set(delta.group_configs_changed)
        if delta.broker_configs_changed:
            self._config = config
            self._broker_limits = _limits(config)
            changed |= self._group_limits.keys()
        for group_id in changed:
            self._group_limits.pop(group_id, None)
            overrides = image.group_config(group_id)
            if overrides:
                self._group_limits[group_id] = self._limits_with(overrides)

    def _limits_with(self, overrides: Mapping[str, str]) -> ConsumerLimits:
        session = self._config.group_value("consumer.session.timeout.ms", overrides)
        interval = self._config.group_value("consumer.heartbeat.interval.ms", overrides)
        between = self._config.group_value("consumer.assignment.interval.ms", overrides)
        assert isinstance(session, int)
        assert isinstance(interval, int)
        assert isinstance(between, int)
        return replace(
            self._broker_limits,
            session_timeout_ms=session,
            heartbeat_interval_ms=interval,
            assignment_interval_ms=between,
        )

    def _limits(self, group_id: str) -> ConsumerLimits:
        return self._group_limits.get(group_id, self._broker_limits)

    def on_loaded(self, home: Home) -> None:
        now = self._now()
        for group in home.shard.consumer_groups.values():
            group.on_loaded(now, self._limits(group.group_id).session_timeout_ms)
            self._set_timer(home, group)

    # Heartbeats.

    def heartbeat(self, home: Home, request: ConsumerGroupHeartbeatRequest, client: Client, ticket: Ticket) -> None:
        limits = self._limits(request.group_id)
        check_request(request, client.version, limits)
        if not request.member_id:
            request.member_id = str(uuid.UUID(bytes=self._chance.randbytes(16), version=4))
        self.in_turn(home, request.group_id, lambda: self._decide(home, request, client, limits, ticket))

    def _decide(
        self,
        home: Home,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        limits: ConsumerLimits,
        ticket: Ticket,
    ) -> None:
        classic = home.shard.groups.get(request.group_id)
        try:
            if classic is not None and classic.members and request.member_epoch == JOINING:
                again = partial(self._decide, home, request, client, limits, ticket)
                self._upgrade(home, classic, ticket, again)
                return
            group, before = self._group(home, request)
            decision = heartbeat(group, request, client, self._image.topics, limits, self._now())
        except KafkaError as error:
            ticket(refused(error))
            return
        if not decision.records:
            self._on_heard(home, group, decision, limits)
            ticket(decision.response)
            return

        def on_done(error: KafkaError | None) -> None:
            if error is None:
                self._on_heard(home, home.shard.consumer_groups[request.group_id], decision, limits)
            ticket(decision.response if error is None else refused(error))
            if error is None and not decision.is_heard:
                self._maybe_downgrade(home, request.group_id)

        self.write_now(home, request.group_id, [*before, *decision.records], on_done)

    def _group(self, home: Home, request: ConsumerGroupHeartbeatRequest) -> tuple[ConsumerGroup, list[Record]]:
        """The group, and what must be written before anything of it: a classic group without members becomes one."""
        classic = home.shard.groups.get(request.group_id)
        is_new = request.group_id not in home.shard.consumer_groups and request.member_epoch == JOINING
        if is_new and (classic is None or classic.is_empty):
            before: list[Record] = [] if classic is None else [GroupRecord(request.group_id, None)]
            return ConsumerGroup(request.group_id), before
        return home.shard.consumer_group_or_raise(request.group_id), []

    def _on_heard(self, home: Home, group: ConsumerGroup, decision: Decision, limits: ConsumerLimits) -> None:
        if decision.is_heard:
            has_moved = any(record.type is CURRENT for record in decision.records)
            member_id = decision.response.member_id or ""
            group.on_heard(member_id, self._now(), limits.session_timeout_ms, has_moved)
        if decision.records:
            self._set_timer(home, group)

    # Classic members, and groups that change their protocol.

    def join_classic(
        self,
        home: Home,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        client: Client,
        new_member_id: str,
        ticket: Ticket,
    ) -> None:
        """It is the group's turn."""
        limits = self._limits(group.group_id)
        try:
            decision = mixed_group.join(group, request, client, new_member_id, self._image.topics, limits, self._now())
        except KafkaError as error:
            ticket(mixed_group.refusal(error.code, request.member_id))
            return

        def on_done(error: KafkaError | None) -> None:
            if error is None and decision.member_id is not None:
                group.keep(decision.member_id, self._now(), request.session_timeout_ms)
                group.expect_revocation(group.members[decision.member_id], self._now())
                self._set_timer(home, group)
            answer = decision.response
            ticket(answer if error is None else mixed_group.refusal(error.code, request.member_id))

        if decision.records:
            self.write_now(home, group.group_id, decision.records, on_done)
        else:
            on_done(None)

    def sync_classic(self, home: Home, request: SyncGroupRequest) -> SyncGroupResponse:
        group = home.shard.consumer_groups[request.group_id]
        try:
            limits = self._limits(request.group_id)
            return mixed_group.sync(group, request, self._image.topics_by_id, limits, self._now())
        except KafkaError as error:
            return SyncGroupResponse(error_code=error.code)

    def heartbeat_classic(
        self, home: Home, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> ErrorCode:
        group = home.shard.consumer_groups[group_id]
        limits = self._limits(group_id)
        code = mixed_group.heartbeat(group, member_id, instance_id, generation, limits, self._now())
        if code is not ErrorCode.NONE:
            self._set_timer(home, group)
        return code

    def leave_classic(self, home: Home, group_id: str, leaving: list[MemberIdentity]) -> LeaveGroupResponse:
        group = home.shard.consumer_groups[group_id]
        response, member_ids = mixed_group.leave(group, leaving)

        def on_done(error: KafkaError | None) -> None:
            if error is not None:
                logger.error("members of group %s could not leave: %s", shown(group_id), error.message)
            self._maybe_downgrade(home, group_id)

        def act() -> None:
            still = [member_id for member_id in member_ids if member_id in group.members]
            if still:
                self.write_now(home, group_id, depart(group, still, self._image.topics), on_done)

        self.in_turn(home, group_id, act)
        return response

    def _upgrade(self, home: Home, classic: ClassicGroup, ticket: Ticket, again: Callable[[], None]) -> None:
        """A classic group with members becomes a consumer group, and then the request is decided."""
        if self._policy not in ("upgrade", "bidirectional"):
            who = f"Cannot upgrade classic group {classic.group_id} to consumer group"
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"{who} because online upgrade is disabled.")
        records = upgrade(classic, self._image.topics, self._limits(classic.group_id).max_size)
        # Now, and not when it is written: an assignment that is on its way must reach nobody any more.
        out = Outcome()
        rebalance.send_all_back(classic, out)
        for waiting, answer in out.answers:
            waiting(answer)

        def on_done(error: KafkaError | None) -> None:
            if error is not None:
                ticket(refused(error))
                return
            group = home.shard.consumer_groups[classic.group_id]
            group.on_loaded(self._now(), self._limits(classic.group_id).session_timeout_ms)
            self._set_timer(home, group)
            again()

        self.write_now(home, classic.group_id, records, on_done)

    def _maybe_downgrade(self, home: Home, group_id: str) -> None:
        group = home.shard.consumer_groups.get(group_id)
        if group is None or self._policy not in ("downgrade", "bidirectional"):
            return
        record = downgrade(group, self._image.topics_by_id, self._now())
        if record is None:
            return

        def on_done(error: KafkaError | None) -> None:
            if error is None:
                self._on_downgraded(home, record)

        self.write_now(home, group_id, [*group.tombstones(), record], on_done)

    # Time.

    def on_timer(self, home: Home, group_id: str) -> None:
        self.in_turn(home, group_id, lambda: self._remove_overdue(home, group_id))

    def _remove_overdue(self, home: Home, group_id: str) -> None:
        group = home.shard.consumer_groups.get(group_id)
        if group is None:
            return
        late = group.overdue(self._now())
        if not late:
            self._set_timer(home, group)
            return
        names = ", ".join(map(shown, late))
        logger.info("group %s loses %s: not heard of, or partitions not given up, in time", shown(group_id), names)

        def on_done(error: KafkaError | None) -> None:
            if error is not None:
                logger.error("members of group %s could not be removed: %s", shown(group_id), error.message)
                group.postpone(late, self._now(), self._limits(group_id).session_timeout_ms)
            self._set_timer(home, group)
            self._maybe_downgrade(home, group_id)

        records: list[ConsumerRecord] = depart(group, late, self._image.topics)
        self.write_now(home, group_id, records, on_done)

    # Turns.

    def write_in_turn(
        self, home: Home, group_id: str, records: Callable[[], Sequence[Record]], on_done: OnDone
    ) -> None:
        """`records` is asked when it is the group's turn. A refusal of its own is `on_done`'s."""

        def act() -> None:
            try:
                found = records()
            except KafkaError as error:
                on_done(error)
                return
            self.write_now(home, group_id, found, on_done)

        self.in_turn(home, group_id, act)

    def in_turn(self, home: Home, group_id: str, act: Callable[[], None]) -> None:
        """Now, or after the records of the group that are on their way."""
        waiting = home.waiting.get(group_id)
        if waiting is None:
            act()
        else:
            waiting.append(act)

    def write_now(self, home: Home, group_id: str, records: Sequence[Record], on_done: OnDone) -> None:
        """It is the group's turn; others wait until these are committed."""
        home.waiting[group_id] = deque()

        def on_written(error: KafkaError | None) -> None:
            waiting = home.waiting.pop(group_id)
            on_done(error)
            while waiting:
                self.in_turn(home, group_id, waiting.popleft())

        self._write(home, records, on_written)

    def _now(self) -> Now:
        return Now(self._clock.now_ms(), self._clock.monotonic())


def _limits(config: BrokerConfig) -> ConsumerLimits:
    """Assignors are the built-in ones: Java classes cannot be loaded."""
    named = config.get("group.consumer.assignors")
    assert isinstance(named, tuple)
    known = tuple(name for name in named if name in ASSIGNORS)
    return ConsumerLimits(
        config.get_int("group.consumer.session.timeout.ms"),
        config.get_int("group.consumer.heartbeat.interval.ms"),
        config.get_int("group.consumer.max.size"),
        known or tuple(ASSIGNORS),
        config.get_int("group.consumer.assignment.interval.ms"),
    )


def refused(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
