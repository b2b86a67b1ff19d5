"""A log against a plain list, through everything that can happen to it, power cuts included.

The model keeps the records with their offsets, how far the log was synced, and what each producer sent. A crash keeps
the synced prefix and some of the rest, in order: the model then takes over what the log recovered, after checking that
it is such a prefix. Where the end of a closed segment was lost and a later segment was not, there may be a hole in the
unsynced part: the log must say so, and everything else must be there.

Transactions are a list too: what each transactional producer wrote and how it ended, in the order of the log. Who is
open, where readers of committed data end and what they must leave out follows from walking it.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log.batches import batch
from log.worlds import World, check_index_files, check_indexes, offsets_and_values
from penstock.errors import ErrorCode, KafkaError
from penstock.log.config import LogConfig
from penstock.log.log import Log
from penstock.log.transaction_index import AbortedTransaction
from penstock.wire.batch_builder import END_TXN_VALUE, ControlType, EndTxnMarker

PRODUCERS = 3
TRANSACTIONAL_IDS = st.integers(10, 12)
TRANSACTIONAL = 16


class Event(NamedTuple):
    """A transactional batch, or the marker that ends a transaction."""

    producer: int
    epoch: int
    base_offset: int
    end_offset: int
    end: ControlType | None = None


class Walk:
    """What a list of events comes to."""

    def __init__(self, events: list[Event]) -> None:
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        producer = event.producer
        if self.epochs.get(producer) != event.epoch:
            self.sequences[producer] = 0
        self.epochs[producer] = event.epoch
        if event.end is None:
            self.sequences[producer] += event.end_offset - event.base_offset
            self.open.setdefault(producer, event.base_offset)
            return
        first = self.open.pop(producer, None)
        if first is not None and event.end is ControlType.ABORT:
            stable = min(self.open.values(), default=event.end_offset)
            self.aborted.append(AbortedTransaction(producer, first, event.base_offset, stable))


class LogMachine(RuleBasedStateMachine):
    log: Log

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.records: dict[int, bytes] = {}
        """By offset, from the log's start to its end."""
        self.start = 0
        self.end = 0
        self.batches: list[tuple[int, int]] = []
        """(base offset, end offset) of each."""
        self.sequences: dict[int, list[tuple[int, int, int, int]]] = {}
        """By producer: (base sequence, count, base offset, end offset) of each batch that is in the log."""
        self.events: list[Event] = []
        """Of transactions, from the first to the end; also those that retention has taken away."""
        self.epoch = 0
        self.persisted_recovery_point = 0
        self.counter = 0

    @initialize(
        segment_bytes=st.sampled_from([300, 700, 4096]),
        interval=st.sampled_from([0, 100, 4096]),
        index_bytes=st.sampled_from([64, 1 << 20]),
    )
    def begin(self, segment_bytes: int, interval: int, index_bytes: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            max_message_bytes=1000,
            segment_ms=50_000,
            retention_ms=200_000,
            retention_bytes=4000,
            file_delete_delay_ms=10,
        )
        self.log = self.world.open(self.config, is_clean=False)
        self.log.before_truncate = self.on_truncate

    # What a broker does to a log.

    def values(self, count: int, size: int) -> list[bytes]:
        self.counter += 1
        return [b"%d.%d." % (self.counter, each) + b"x" * size for each in range(count)]

    @rule(count=st.integers(1, 3), size=st.integers(0, 60), age_ms=st.integers(0, 3) | st.just(60_000))
    def append(self, count: int, size: int, age_ms: int) -> None:
        values = self.values(count, size)
        result = self.log.append_as_leader(batch(values, timestamp=self.world.clock.time_ms - age_ms), self.epoch)
        self.on_appended(result.base_offset, values)

    @rule(producer=st.integers(0, PRODUCERS - 1), count=st.integers(1, 3))
    def append_idempotent(self, producer: int, count: int) -> None:
        sent = self.sequences.get(producer, [])
        sequence = sent[-1][0] + sent[-1][1] if sent else 0
        values = self.values(count, 1)
        data = batch(values, timestamp=self.world.clock.time_ms, producer=(producer, 0, sequence))
        result = self.log.append_as_leader(data, self.epoch)
        assert not result.is_duplicate
        self.on_appended(result.base_offset, values)
        self.sequences.setdefault(producer, []).append((sequence, count, result.base_offset, self.end))

    @precondition(lambda self: any(self.sequences.values()))
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        producer = data.draw(st.sampled_from([each for each in sorted(self.sequences) if self.sequences[each]]))
        sequence, count, base_offset, end_offset = self.sequences[producer][-1]
        again = batch([b"again"] * count, timestamp=self.world.clock.time_ms, producer=(producer, 0, sequence))
        result = self.log.append_as_leader(again, self.epoch)
        assert result.is_duplicate
        assert (result.base_offset, result.last_offset) == (base_offset, end_offset - 1)

    @precondition(lambda self: any(self.sequences.values()))
    @rule(data=st.data(), gap=st.integers(1, 5))
    def send_with_a_gap(self, data: st.DataObject, gap: int) -> None:
        producer = data.draw(st.sampled_from([each for each in sorted(self.sequences) if self.sequences[each]]))
        sequence, count, _, _ = self.sequences[producer][-1]
        ahead = batch([b"ahead"], timestamp=self.world.clock.time_ms, producer=(producer, 0, sequence + count + gap))
        with pytest.raises(KafkaError) as caught:
            self.log.append_as_leader(ahead, self.epoch)
        assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule(producer=TRANSACTIONAL_IDS, count=st.integers(1, 3))
    def append_transactional(self, producer: int, count: int) -> None:
        walk = Walk(self.events)
        epoch, sequence = walk.epochs.get(producer, 0), walk.sequences.get(producer, 0)
        values = self.values(count, 1)
        guard = self.log.start_verification(producer, epoch, sequence, supports_epoch_bump=True)
        data = batch(
            values,
            timestamp=self.world.clock.time_ms,
            producer=(producer, epoch, sequence),
            attributes=TRANSACTIONAL,
        )
        result = self.log.append_as_leader(data, self.epoch, guard=guard)
        assert not result.is_duplicate
        self.on_appended(result.base_offset, values)
        self.events.append(Event(producer, epoch, result.base_offset, self.end))

    @rule(producer=TRANSACTIONAL_IDS, is_commit=st.booleans(), bump=st.integers(0, 1))
    def end_transaction(self, producer: int, is_commit: bool, bump: int) -> None:
        epoch = Walk(self.events).epochs.get(producer, 0) + bump
        end = ControlType.COMMIT if is_commit else ControlType.ABORT
        offset = self.log.append_marker(producer, epoch, EndTxnMarker(end, 5), self.epoch)
        self.on_appended(offset, [END_TXN_VALUE.pack(0, 5)])
        self.events.append(Event(producer, epoch, offset, self.end, end))

    @rule(producer=TRANSACTIONAL_IDS)
    def a_late_batch_is_refused(self, producer: int) -> None:
        """Verified before the marker, appended after it."""
        walk = Walk(self.events)
        epoch, sequence = walk.epochs.get(producer, 0), walk.sequences.get(producer, 0)
        guard = self.log.start_verification(producer, epoch, sequence, supports_epoch_bump=True)
        self.end_transaction(producer, is_commit=False, bump=0)
        late = batch(timestamp=self.world.clock.time_ms, producer=(producer, epoch, sequence), attributes=TRANSACTIONAL)
        with pytest.raises(KafkaError) as caught:
            self.log.append_as_leader(late, self.epoch, guard=guard)
        assert caught.value.code == ErrorCode.INVALID_TXN_STATE

    def on_appended(self, base_offset: int, values: list[bytes]) -> None:
        assert base_offset == self.end
        for value in values:
            self.records[self.end] = value
            self.end += 1
        self.batches.append((base_offset, self.end))
        self.log.advance_high_watermark(self.end)

    @rule()
    def new_leader_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_leader_epoch(self.epoch)
        assert self.log.epoch_end_offset(self.epoch) == (self.epoch, self.end)

    @rule()
    def roll(self) -> None:
        self.log.roll()
        check_index_files(self.world, self.log, len(self.log.segments) - 1)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.end

    @rule()
    def checkpoint(self) -> None:
        self.persisted_recovery_point = self.log.checkpoint_offset

    def on_truncate(self, log: Log) -> None:
        self.persisted_recovery_point = min(self.persisted_recovery_point, log.checkpoint_offset)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log.segments.first.base_offset, self.end))
        self.log.truncate_to(offset)
        self.forget_from(next((base for base, end in self.batches if base <= offset < end), offset))

    @rule(ahead=st.integers(0, 10))
    def truncate_fully(self, ahead: int) -> None:
        offset = self.end + ahead
        self.log.truncate_fully_and_start_at(offset)
        self.records.clear()
        self.batches.clear()
        self.sequences.clear()
        self.events.clear()
        self.start = self.end = offset

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.log.high_watermark))
        assert self.log.delete_records(offset) == offset
        self.start_at(offset)

    @rule(ms=st.sampled_from([1, 1000, 100_000, 300_000]))
    def retention(self, ms: int) -> None:
        self.world.clock.time_ms += ms
        self.log.enforce_retention(self.world.clock.time_ms)
        self.log.sweep_deleted(self.world.clock.time_ms)
        assert self.log.log_start_offset >= self.start
        self.start_at(self.log.log_start_offset)

    def start_at(self, offset: int) -> None:
        self.start = offset
        self.records = {each: value for each, value in self.records.items() if each >= offset}
        first = self.log.segments.first.base_offset
        self.batches = [each for each in self.batches if each[1] > first]

    def forget_from(self, offset: int) -> None:
        self.end = min(self.end, offset)
        self.start = min(self.start, self.end)
        self.records = {each: value for each, value in self.records.items() if each < self.end}
        self.batches = [each for each in self.batches if each[1] <= self.end]
        self.events = [each for each in self.events if each.end_offset <= self.end]
        for producer, sent in self.sequences.items():
            self.sequences[producer] = [each for each in sent if each[3] <= self.end]
        self.sequences = {producer: sent for producer, sent in self.sequences.items() if sent}

    # What happens to a broker.

    @rule()
    def reopen(self) -> None:
        self.log.close()
        check_index_files(self.world, self.log)
        self.persisted_recovery_point = self.log.recovery_point
        self.open_again(is_clean=True)
        assert self.log.log_end_offset == self.end

    @rule()
    def kill(self) -> None:
        self.world.files.kill()
        self.open_again(is_clean=False)
        assert self.log.log_end_offset == self.end, "the page cache was not lost"
        assert not self.log.corruptions

    @rule(seed=st.integers(0, 2**32))
    def crash(self, seed: int) -> None:
        synced = self.log.recovery_point
        self.world.crash(seed)
        self.open_again(is_clean=False)
        assert self.log.log_end_offset >= synced, "synced records were lost"
        assert self.log.log_end_offset <= self.end
        if synced < self.start == self.log.log_end_offset:
            # Maybe everything that was not deleted is lost, and some that was: who wrote it is then not known either.
            self.truncate_fully(ahead=0)
        self.forget_from(self.log.log_end_offset)
        for corruption in self.log.corruptions:
            hole = corruption.hole
            assert hole.offset >= synced, "synced records are in a hole"
            self.log.truncate_to(hole.offset)  # what a follower does: the leader has the rest
            self.forget_from(hole.offset)
            break
        self.start = self.log.log_start_offset
        self.log.advance_high_watermark(self.end)

    def open_again(self, *, is_clean: bool) -> None:
        self.log = self.world.open(
            self.config,
            is_clean=is_clean,
            recovery_point=self.persisted_recovery_point,
            log_start_offset=self.start,
            high_watermark=self.end,
        )
        self.log.before_truncate = self.on_truncate
        self.epoch = max(self.epoch, self.log.epochs.latest_epoch)
        self.log.assign_leader_epoch(self.epoch)

    # What must hold at all times.

    @invariant()
    def the_log_is_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        assert log.size_bytes == sum(segment.size for segment in log.segments)
        found = [(offset, value) for offset, value in offsets_and_values(log, self.start) if offset >= self.start]
        assert found == sorted(self.records.items())

    @invariant()
    def any_offset_can_be_read_in_any_size(self) -> None:
        if not hasattr(self, "log") or not self.records:
            return
        chance = random.Random(self.counter)
        offset = chance.randrange(self.start, self.end)
        found = offsets_and_values(self.log, offset, max_bytes=chance.choice([1, 150, 700]))
        assert [each for each in found if each[0] >= offset] == [
            (each, self.records[each]) for each in range(offset, self.end)
        ]

    @invariant()
    def readers_of_committed_data_get_what_the_list_says(self) -> None:
        if not hasattr(self, "log"):
            return
        walk = Walk(self.events)
        oldest = min(walk.open.values(), default=self.end)
        assert self.log.high_watermark == self.end
        assert self.log.last_stable_offset == max(self.start, oldest)
        chance = random.Random(self.counter)
        for offset in {self.start, chance.randint(self.start, self.end)}:
            for end in {self.end, chance.randint(offset, self.end)}:
                assert self.log.aborted_transactions(offset, end) == [
                    each for each in walk.aborted if each.last_offset >= offset and each.first_offset < end
                ]

    @invariant()
    def indexes_equal_rebuilt_ones(self) -> None:
        if hasattr(self, "log"):
            check_indexes(self.log)


LogMachine.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=30,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
TestLogMachine = LogMachine.TestCase
