"""Transactions under random producers (D3): whatever they send, whatever fails, a transaction has one outcome.

Producers begin, recover, add and end, in both versions of the protocol, with epochs new and old; time runs out; records
are written late, or not at all; the coordinator crashes and is loaded from its log. After each step:

- a transaction that was committed for one client or in one marker was never aborted for another;
- the epochs of a producer id never go back, and no two producers are given the same;
- what is replayed from the log is what was known, but for the last epoch, which is not written.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.broker.transactions import decide
from penstock.broker.transactions import metadata as steps
from penstock.broker.transactions.decide import ProducerIdAndEpoch
from penstock.broker.transactions.metadata import (
    ENDING,
    LAST_CLIENT_EPOCH,
    MAX_EPOCH,
    NO_PRODUCER_EPOCH,
    ONGOING,
    PREPARE_COMMIT,
    TV_0,
    TV_2,
    TransactionMetadata,
    new_metadata,
)
from penstock.broker.transactions.records import TransactionRecord, decode, encode
from penstock.broker.transactions.shard import Shard, TransactionalId
from penstock.errors import KafkaError
from penstock.types import TopicPartition

ID = "t"
TIMEOUT_MS = 1_000
SEEDS, STEPS = 100, 400
CLIENTS = st.sampled_from(("current", "current", "current", "a", "b"))
"""Most requests come from whoever began last, so that something gets done."""
VERSIONS = st.sampled_from((TV_0, TV_2))
PARTITIONS = [TopicPartition("t", index) for index in range(4)]
FATES = st.sampled_from(("written", "written", "written", "written", "held", "failed"))
"""Of a record: most are written at once."""


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.shard = Shard(0)
        self.waiting: tuple[TransactionMetadata, ProducerIdAndEpoch | None, str] | None = None
        """The record that is on its way, who asked for it, and with what."""
        self.next_producer_id = 100
        self.clients: dict[str, ProducerIdAndEpoch] = {}
        self.old: list[ProducerIdAndEpoch] = []
        self.given: set[ProducerIdAndEpoch] = set()
        self.number = 0
        """Of the transaction that is open, or was last."""
        self.outcomes: dict[int, set[bool]] = {}
        self.newest = ProducerIdAndEpoch(-1, -1)

    @property
    def known(self) -> TransactionalId | None:
        return self.shard.ids.get(ID)

    def named(self, client: str) -> str:
        if client != "current":
            return client
        return next((name for name, who in self.clients.items() if who == self.newest), "a")

    def pending(self) -> steps.TransactionState | None:
        if self.waiting is not None:
            return self.waiting[0].state
        known = self.known
        return known.pending if known is not None else None

    def begin_write(self, decided: TransactionMetadata, what: str, fate: str = "held") -> None:
        assert self.waiting is None
        self.waiting = (decided, None, what)
        if fate == "written":
            self.write_succeeds()
            if decided.state in ENDING:
                self.markers_are_written(fate)
        elif fate == "failed":
            self.waiting = None

    def new_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    # Clients.

    @rule(client=CLIENTS, recovers=st.booleans(), fate=FATES)
    def begins(self, client: str, recovers: bool, fate: str) -> None:
        client = self.named(client)
        expected = self.clients.get(client) if recovers else None
        known = self.known
        metadata = known.metadata if known else new_metadata(ID, self.new_id(), TIMEOUT_MS, self.now_ms)
        try:
            decided = decide.init_producer_id(metadata, self.pending(), TIMEOUT_MS, expected, None, self.now_ms)
            if decided is None:
                decided = decide.init_producer_id(
                    metadata, self.pending(), TIMEOUT_MS, expected, self.new_id(), self.now_ms
                )
        except KafkaError:
            return
        assert decided is not None
        is_retry = decided.producer_epoch == metadata.producer_epoch and decided.producer_id == metadata.producer_id
        assert metadata.state is not ONGOING or decided.producer_epoch > metadata.producer_epoch
        self.begin_write(decided, f"{'again' if is_retry else 'init'} {client}", fate)

    @precondition(lambda self: self.clients and self.known)
    @rule(client=CLIENTS, chosen=st.sets(st.sampled_from(PARTITIONS), min_size=1), version=VERSIONS, fate=FATES)
    def adds(self, client: str, chosen: set[TopicPartition], version: int, fate: str) -> None:
        client = self.named(client)
        who, known = self.clients.get(client), self.known
        if who is None or known is None:
            return
        try:
            decided = decide.add_partitions(
                known.metadata, self.pending(), who, frozenset(chosen), version, self.now_ms
            )
        except KafkaError:
            return
        assert who == self.newest, "a zombie added partitions"
        if decided is not known.metadata:
            self.begin_write(decided, "add", fate)

    @precondition(lambda self: self.clients and self.known)
    @rule(client=CLIENTS, is_commit=st.booleans(), version=VERSIONS, late=st.booleans(), fate=FATES)
    def ends(self, client: str, is_commit: bool, version: int, late: bool, fate: str) -> None:
        client = self.named(client)
        who, known = self.clients.get(client), self.known
        if late and self.old:
            who = self.old[-1]
        if who is None or known is None:
            return
        pending, metadata = self.pending(), known.metadata
        try:
            decided = decide.end(metadata, pending, who, is_commit, version, None, self.now_ms)
            if decided is None:
                decided = decide.end(metadata, pending, who, is_commit, version, self.new_id(), self.now_ms)
        except KafkaError:
            return
        assert decided is not None
        if decided is metadata:
            if self.number in self.outcomes:  # else what is done is an abort of nothing
                self.outcomes[self.number].add(is_commit)
            self.go_on(client, metadata, version)
        else:
            self.begin_write(decided, f"end {client}", fate)

    def go_on(self, client: str, metadata: TransactionMetadata, version: int) -> None:
        if version >= TV_2 and client in self.clients:
            self.old.append(self.clients[client])
            self.clients[client] = ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)

    # Time, and the world.

    @precondition(lambda self: self.known and self.known.metadata.state is ONGOING and self.pending() is None)
    @rule(fate=FATES)
    def time_runs_out(self, fate: str) -> None:
        self.now_ms += TIMEOUT_MS + 1
        (known,) = self.shard.timed_out(self.now_ms)
        fenced = steps.fence(known.metadata, self.now_ms)
        assert fenced.producer_epoch > known.metadata.producer_epoch, "the producer is not shut out"
        self.begin_write(fenced, "fence", fate)

    @precondition(lambda self: self.waiting is not None)
    @rule()
    def write_succeeds(self) -> None:
        assert self.waiting is not None
        decided, _, what = self.waiting
        self.waiting = None
        before = self.known.metadata if self.known else None
        self.log.append(encode(TransactionRecord(ID, decided)))
        self.shard.replay(TransactionRecord(ID, decided))
        known = self.known
        assert known is not None
        if decided.state is ONGOING and (before is None or before.state is not ONGOING):
            self.number += 1
        if decided.state in ENDING:
            if before is not None and before.state is ONGOING:
                self.outcomes.setdefault(self.number, set()).add(decided.state is PREPARE_COMMIT)
            else:
                self.number += 1  # an abort of nothing
            known.pending = steps.complete(decided, self.now_ms).state
        kind, _, client = what.partition(" ")
        if kind in ("init", "again") and decided.state not in ENDING:
            self.on_given(client, ProducerIdAndEpoch(decided.producer_id, decided.producer_epoch), kind == "again")
        if kind == "end":
            self.go_on(client, steps.complete(decided, self.now_ms), decided.client_version)

    def on_given(self, client: str, given: ProducerIdAndEpoch, is_retry: bool) -> None:
        assert is_retry or given not in self.given, "two producers have the same epoch"
        assert given.epoch <= LAST_CLIENT_EPOCH, "nothing is left to fence it with"
        self.given.add(given)
        if client in self.clients:
            self.old.append(self.clients[client])
        self.clients[client] = given

    @precondition(lambda self: self.known and self.known.metadata.state in ENDING and self.waiting is None)
    @rule(fate=FATES)
    def markers_are_written(self, fate: str) -> None:
        known = self.known
        assert known is not None
        if self.number in self.outcomes:
            self.outcomes[self.number].add(known.metadata.is_commit)
        known.pending = None
        self.begin_write(steps.complete(known.metadata, self.now_ms), "complete", fate)

    @rule(is_written=st.booleans())
    def crash(self, is_written: bool) -> None:
        """The record on its way may be in the log, or not; nobody was told."""
        self.the_log_says_the_same()
        if self.waiting is not None and is_written:
            self.write_succeeds_unheard()
        self.waiting = None
        shard = Shard(0)
        for key, value in self.log:
            for record in decode(key, value):
                shard.replay(record)
        self.shard = shard
        known = self.known
        if known is not None and known.metadata.state in ENDING:
            known.pending = steps.complete(known.metadata, self.now_ms).state

    def write_succeeds_unheard(self) -> None:
        assert self.waiting is not None
        decided, who, _ = self.waiting
        self.waiting = (decided, who, "unheard")
        self.write_succeeds()

    @precondition(lambda self: self.known and self.pending() is None and self.known.metadata.state not in ENDING)
    @rule(epoch=st.sampled_from((LAST_CLIENT_EPOCH - 1, LAST_CLIENT_EPOCH)))
    def many_epochs_later(self, epoch: int) -> None:
        """As if all that had happened; whoever is current goes on."""
        known = self.known
        assert known is not None
        metadata = known.metadata
        if metadata.producer_epoch > epoch:
            return
        moved = metadata._replace(producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)
        now = ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)
        later = ProducerIdAndEpoch(metadata.producer_id, epoch)
        self.log.append(encode(TransactionRecord(ID, moved)))
        self.shard.replay(TransactionRecord(ID, moved))
        self.clients = {client: later if who == now else who for client, who in self.clients.items()}
        self.given.add(later)

    # What must hold.

    @invariant()
    def a_transaction_has_one_outcome(self) -> None:
        assert all(len(each) == 1 for each in self.outcomes.values()), self.outcomes

    @invariant()
    def epochs_never_go_back(self) -> None:
        if self.known is not None:
            metadata = self.known.metadata
            assert 0 <= metadata.producer_epoch <= MAX_EPOCH
            now = ProducerIdAndEpoch(metadata.producer_id, metadata.producer_epoch)
            assert now >= self.newest
            self.newest = now

    @invariant()
    def the_log_says_the_same(self) -> None:
        shard = Shard(0)
        for key, value in self.log:
            for record in decode(key, value):
                shard.replay(record)
        assert shard.ids.keys() == self.shard.ids.keys()
        assert shard.ongoing == self.shard.ongoing
        for key, loaded in shard.ids.items():
            known = self.shard.ids[key].metadata._replace(last_producer_epoch=NO_PRODUCER_EPOCH)
            assert loaded.metadata == known


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
"""Finds the short way to a failure; what takes many steps is found by the seeds below."""


def step(world: Transactions, chance: random.Random) -> None:
    """One thing that may happen now; likely things often, so that transactions come to their ends."""
    client = chance.choice(("current", "current", "current", "a", "b"))
    fate = chance.choice(("written", "written", "written", "written", "held", "failed"))
    version, state = chance.choice((TV_0, TV_2)), world.known.metadata.state if world.known else None
    is_free = world.known is not None and world.pending() is None
    likely: list[tuple[float, Callable[[], None]]] = [
        (3, lambda: world.begins(client, chance.random() < 0.5, fate)),
        (0.7, lambda: world.crash(chance.random() < 0.5)),
    ]
    if world.clients:
        likely.append((6, lambda: world.adds(client, {chance.choice(PARTITIONS)}, version, fate)))
        likely.append((6, lambda: world.ends(client, chance.random() < 0.5, version, chance.random() < 0.2, fate)))
    if is_free and state is ONGOING:
        likely.append((1.5, lambda: world.time_runs_out(fate)))
    if world.waiting is not None:
        likely.append((15, world.write_succeeds))
    elif state in ENDING:
        likely.append((15, lambda: world.markers_are_written(fate)))
    elif is_free:
        likely.append((0.3, lambda: world.many_epochs_later(chance.choice((LAST_CLIENT_EPOCH - 1, LAST_CLIENT_EPOCH)))))
    weights, actions = zip(*likely, strict=True)
    chance.choices(actions, weights)[0]()
    world.a_transaction_has_one_outcome()
    world.epochs_never_go_back()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_transaction_has_one_outcome_whatever_happens(seed: int) -> None:
    world, chance = Transactions(), random.Random(seed)
    for _ in range(STEPS):
        step(world, chance)
    world.the_log_says_the_same()
    assert world.number > 0, "nothing was done"
