"""The coordinator around the decisions: the disk, markers that cannot be written, time, loading."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from in_process import TestFiles, connected, create_topic, partition, run, running, until
from penstock.broker.broker import Broker
from penstock.broker.controller.topics import TopicRef
from penstock.broker.internal_topic import partition_for
from penstock.broker.replicas.partition import Partition
from penstock.broker.transactions.coordinator import TRANSACTION_TOPIC, TransactionCoordinator
from penstock.broker.transactions.decide import ProducerIdAndEpoch
from penstock.broker.transactions.metadata import (
    LAST_CLIENT_EPOCH,
    TV_0,
    TV_2,
    TransactionMetadata,
    add_partitions,
    new_metadata,
    prepare_end,
)
from penstock.broker.transactions.records import TransactionRecord, encode
from penstock.broker.transactions.shard import TransactionalId
from penstock.broker.transactions.states import StateWriter
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.api.find_coordinator import FindCoordinatorRequest
from penstock.wire.coordinator.transaction_log import TRANSACTION_LOG, TransactionLogKey, TransactionLogValue
from penstock.wire.key_values import build_key_values

ID, TOPIC, FIND = "t", "data", 10
TIMEOUT_MS = 60_000
HERE = TopicPartition(TOPIC, 0)


class Producer:
    """A client of the coordinator, without the wire."""

    def __init__(self, coordinator: TransactionCoordinator, transactional_id: str = ID) -> None:
        self.coordinator = coordinator
        self.id = transactional_id
        self.me = ProducerIdAndEpoch(-1, -1)

    async def init(self) -> ErrorCode:
        try:
            self.me = await self.coordinator.init_producer_id(self.id, TIMEOUT_MS, None)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    async def add(self, *partitions: TopicPartition) -> ErrorCode:
        answers: list[KafkaError | None] = []
        self.coordinator.add_partitions(self.id, self.me, frozenset(partitions or (HERE,)), TV_2, answers.append)
        await until(lambda: answers)
        return ErrorCode.NONE if answers[0] is None else answers[0].code

    async def end(self, is_commit: bool = True, version: int = TV_2) -> ErrorCode:
        answers: list[tuple[KafkaError | None, ProducerIdAndEpoch]] = []
        self.coordinator.end(self.id, self.me, is_commit, version, lambda *answer: answers.append(answer))
        await until(lambda: answers)
        error, given = answers[0]
        if error is None and version >= TV_2:
            self.me = given
        return ErrorCode.NONE if error is None else error.code

    @property
    def found(self) -> TransactionalId:
        return self.coordinator.described(self.id)

    @property
    def state(self) -> str:
        return self.found.metadata.state.label


@asynccontextmanager
async def begun(
    directory: Path, *settings: str, files: TestFiles | None = None
) -> AsyncIterator[tuple[Broker, Producer]]:
    """A broker with a topic and a producer."""
    async with running(directory, *settings, files=files) as broker, connected(broker) as client:
        if TOPIC not in broker.context.image.topics:
            await create_topic(broker, TOPIC, 2)
        assert (await client.call(FIND, 1, FindCoordinatorRequest(ID, 1))).error_code == 0
        await until(lambda: is_loaded(broker))
        yield broker, Producer(broker.context.transactions)


def is_loaded(broker: Broker) -> bool:
    try:
        list(broker.context.transactions.all_ids())
    except KafkaError:
        return False
    return True


def home(broker: Broker) -> Partition:
    """The partition that the id lives in."""
    return partition(broker, TRANSACTION_TOPIC, partition_for(ID, 50))


def write(broker: Broker, *pairs: tuple[bytes, bytes | None]) -> None:
    """Records as someone else would have left them in the log."""
    home(broker).append(memoryview(build_key_values(pairs, 0)), -1, is_own=True)


def test_before_the_topic_is_there_nobody_coordinates(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            assert await Producer(broker.context.transactions).init() is ErrorCode.NOT_COORDINATOR
            assert list(broker.context.transactions.all_ids()) == []

    run(scenario())


def test_the_topic_is_made_as_the_settings_say(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = ("transaction.state.log.num.partitions=7", "transaction.state.log.segment.bytes=1048576")
        async with begun(tmp_path, *settings) as (broker, _):
            assert len(broker.context.image.topics[TRANSACTION_TOPIC].partitions) == 7
            configs = broker.context.image.topic_config(TRANSACTION_TOPIC)
            assert configs["segment.bytes"] == "1048576"
            assert configs["cleanup.policy"] == "compact"

    run(scenario())


def test_with_fsync_an_answer_comes_when_the_record_is_on_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = TestFiles()
        async with begun(tmp_path, "penstock.durability=fsync", files=files) as (_, producer):
            assert await producer.init() is ErrorCode.NONE
            files.may_sync.clear()
            answers: list[object] = []
            producer.coordinator.add_partitions(producer.id, producer.me, frozenset((HERE,)), TV_2, answers.append)
            assert await producer.init() is ErrorCode.CONCURRENT_TRANSACTIONS, "one thing at a time"
            assert (answers, producer.state) == ([], "Empty")
            files.may_sync.set()
            await until(lambda: answers)
            assert (answers, producer.state) == ([None], "Ongoing")
            assert await producer.end() is ErrorCode.NONE
            await until(lambda: producer.state == "CompleteCommit")

    run(scenario())


def test_a_record_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with begun(tmp_path) as (broker, producer):
            home(broker).set_disk_full(True)
            assert await producer.init() is ErrorCode.NOT_COORDINATOR
            assert list(broker.context.transactions.all_ids()) == [], "an id that was never written is not known"
            home(broker).set_disk_full(False)
            assert await producer.init() is ErrorCode.NONE
            for is_full, code in ((True, ErrorCode.NOT_COORDINATOR), (False, ErrorCode.NONE)):
                home(broker).set_disk_full(is_full)
                assert await producer.add() is code
            before = producer.found.metadata
            home(broker).set_disk_full(True)
            for attempt in (producer.end(), producer.end(False), producer.init()):
                assert await attempt is ErrorCode.NOT_COORDINATOR
                assert producer.found.metadata == before
            home(broker).set_disk_full(False)
            assert await producer.end() is ErrorCode.NONE
            assert producer.me.epoch == before.producer_epoch + 1, "no epoch was lost by what failed"

    run(scenario())


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_markers_are_tried_until_they_are_written(tmp_path: Path, durability: str) -> None:
    async def scenario() -> None:
        async with begun(tmp_path, f"penstock.durability={durability}") as (broker, producer):
            assert await producer.init() is ErrorCode.NONE
            assert await producer.add(HERE, TopicPartition(TOPIC, 1)) is ErrorCode.NONE
            partition(broker, TOPIC, 1).set_disk_full(True)
            assert await producer.end() is ErrorCode.NONE, "the outcome is decided"
            await until(lambda: producer.found.unmarked == {TopicPartition(TOPIC, 1)})
            assert producer.state == "PrepareCommit"
            assert await producer.add() is ErrorCode.CONCURRENT_TRANSACTIONS
            assert await producer.init() is ErrorCode.CONCURRENT_TRANSACTIONS
            home(broker).set_disk_full(True)
            partition(broker, TOPIC, 1).set_disk_full(False)
            await until(lambda: not producer.found.unmarked)
            assert producer.state == "PrepareCommit", "nor is it over before that is written"
            home(broker).set_disk_full(False)
            await until(lambda: producer.state == "CompleteCommit")
            assert [partition(broker, TOPIC, each).log.log_end_offset for each in (0, 1)] == [1, 1], "one marker each"
            assert await producer.add() is ErrorCode.NONE

    run(scenario())


async def end_without_markers(broker: Broker, producer: Producer) -> None:
    """The end is decided; its markers wait for a full disk."""
    assert await producer.init() is ErrorCode.NONE
    assert await producer.add() is ErrorCode.NONE
    partition(broker, TOPIC, 0).set_disk_full(True)
    assert await producer.end() is ErrorCode.NONE


def test_markers_that_are_tried_again_are_said_once_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Partition] = []
    append_marker = Partition.append_marker

    def counted(where: Partition, *marker: Any) -> Any:
        tries.append(where)
        return append_marker(where, *marker)

    monkeypatch.setattr(Partition, "append_marker", counted)

    async def scenario() -> None:
        async with begun(tmp_path) as (broker, producer):
            await end_without_markers(broker, producer)
            await until(lambda: len(tries) >= 3)
            partition(broker, TOPIC, 0).set_disk_full(False)
            await until(lambda: producer.state == "CompleteCommit")

    with caplog.at_level(logging.WARNING, logger="penstock.broker.transactions.markers"):
        run(scenario())
    (line,) = (record.getMessage() for record in caplog.records if "tried again" in record.getMessage())
    assert line.startswith("1 markers of producer")
    assert f"; {HERE}: {ErrorCode.KAFKA_STORAGE_ERROR.message}" in line


def test_a_last_record_that_is_tried_again_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[StateWriter] = []
    complete = StateWriter._complete

    def counted(writer: StateWriter, *of: Any, **how: Any) -> None:
        tries.append(writer)
        complete(writer, *of, **how)

    monkeypatch.setattr(StateWriter, "_complete", counted)

    async def scenario() -> None:
        async with begun(tmp_path) as (broker, producer):
            await end_without_markers(broker, producer)
            home(broker).set_disk_full(True)
            partition(broker, TOPIC, 0).set_disk_full(False)
            await until(lambda: len(tries) >= 3)
            home(broker).set_disk_full(False)
            await until(lambda: producer.state == "CompleteCommit")

    with caplog.at_level(logging.ERROR, logger="penstock.broker.transactions.states"):
        run(scenario())
    (line,) = (record.getMessage() for record in caplog.records if record.levelno == logging.ERROR)
    assert line == "the end of a transaction of t: the disk is nearly full (penstock.disk.reserve.bytes)"


def test_a_topic_that_is_gone_needs_no_marker(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with begun(tmp_path) as (broker, producer):
            await create_topic(broker, "gone")
            assert await producer.init() is ErrorCode.NONE
            assert await producer.add(HERE, TopicPartition("gone", 0)) is ErrorCode.NONE
            await broker.context.controller.delete_topics([TopicRef("gone")])
            assert await producer.end() is ErrorCode.NONE
            await until(lambda: producer.state == "CompleteCommit")

    run(scenario())


def test_a_producer_whose_epochs_are_used_up_gets_a_new_id(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with begun(tmp_path) as (_, producer):
            for ends in (True, False):
                assert await producer.init() is ErrorCode.NONE
                found = producer.found
                found.metadata = found.metadata._replace(producer_epoch=LAST_CLIENT_EPOCH)
                old = producer.me = ProducerIdAndEpoch(producer.me.producer_id, LAST_CLIENT_EPOCH)
                if ends:
                    assert await producer.add() is ErrorCode.NONE
                    assert await producer.end() is ErrorCode.NONE
                else:
                    assert await producer.init() is ErrorCode.NONE
                assert producer.me.epoch == 0
                assert producer.me.producer_id != old.producer_id
                await until(lambda: producer.state in ("CompleteCommit", "Empty"))
                assert await producer.add() is ErrorCode.NONE
                assert await producer.end() is ErrorCode.NONE

    run(scenario())


def test_time_runs_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with begun(tmp_path) as (broker, producer):
            assert await producer.init() is ErrorCode.NONE
            assert await producer.add() is ErrorCode.NONE
            broker.context.transactions.abort_timed_out()
            assert producer.state == "Ongoing"
            found = producer.found
            found.metadata = found.metadata._replace(start_ms=found.metadata.start_ms - TIMEOUT_MS - 1)
            broker.context.transactions.abort_timed_out()
            await until(lambda: producer.state == "CompleteAbort")
            assert producer.found.metadata.producer_epoch == producer.me.epoch + 1
            assert await producer.add() is ErrorCode.PRODUCER_FENCED
            assert await producer.end(version=TV_0) is ErrorCode.PRODUCER_FENCED

    run(scenario())


def test_an_id_that_nobody_uses_is_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with begun(tmp_path, "transactional.id.expiration.ms=1000") as (broker, producer):
            busy = Producer(broker.context.transactions, "busy")
            for each in (producer, busy):
                assert await each.init() is ErrorCode.NONE
            assert await busy.add() is ErrorCode.NONE
            for each in (producer, busy):
                each.found.metadata = each.found.metadata._replace(last_update_ms=0)
            broker.context.transactions.expire_ids()
            assert [each.metadata.transactional_id for each in broker.context.transactions.all_ids()] == ["busy"]
            assert await producer.add() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        async with begun(tmp_path) as (broker, _):
            assert [each.metadata.transactional_id for each in broker.context.transactions.all_ids()] == ["busy"]

    run(scenario())


def test_everything_is_as_the_log_has_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with begun(tmp_path) as (_, producer):
            assert await producer.init() is ErrorCode.NONE
            assert await producer.add() is ErrorCode.NONE
            before = producer.found.metadata
        async with begun(tmp_path) as (_, again):
            assert again.found.metadata == before
            again.me = producer.me
            assert await again.end() is ErrorCode.NONE

    run(scenario())


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_was_prepared_is_carried_out_after_a_restart(tmp_path: Path, is_commit: bool) -> None:
    async def scenario() -> None:
        async with begun(tmp_path) as (broker, _):
            prepared = prepare_end(open_transaction(), is_commit, TV_2, -1, 1)
            write(broker, encode(TransactionRecord(ID, prepared)))
        async with begun(tmp_path) as (broker, producer):
            await until(lambda: producer.state == ("CompleteCommit" if is_commit else "CompleteAbort"))
            assert partition(broker, TOPIC).log.log_end_offset == 1, "a marker"

    run(scenario())


def open_transaction() -> TransactionMetadata:
    now = new_metadata(ID, 5, TIMEOUT_MS, 0)._replace(producer_epoch=0)
    return add_partitions(now, (HERE,), TV_0, 0)


def test_records_of_an_older_kafka_are_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with begun(tmp_path) as (broker, _):
            value = TransactionLogValue(5, producer_epoch=3, transaction_timeout_ms=7, transaction_partitions=None)
            key = TRANSACTION_LOG.encode_key(TransactionLogKey(ID))
            write(broker, (key, TRANSACTION_LOG.encode_value(value, 0)), (b"\x00\x63of a newer one", b""))
        async with begun(tmp_path) as (_, producer):
            assert producer.found.metadata.producer_epoch == 3
            assert await producer.init() is ErrorCode.NONE
            assert producer.me == (5, 4)

    run(scenario())


def test_a_log_that_cannot_be_read_is_not_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with begun(tmp_path) as (broker, _):
            bad = TransactionLogValue(5, producer_epoch=3, transaction_status=99, transaction_partitions=None)
            key = TRANSACTION_LOG.encode_key(TransactionLogKey(ID))
            good = TransactionLogValue(5, producer_epoch=3, transaction_partitions=None)
            write(broker, (key, TRANSACTION_LOG.encode_value(good, 1)))
            write(broker, (key, TRANSACTION_LOG.encode_value(bad, 1)))
        async with begun(tmp_path) as (broker, producer):
            assert await producer.init() is ErrorCode.NOT_COORDINATOR
            assert list(broker.context.transactions.all_ids()) == [], "what was read before is old"

    run(scenario())
    assert "cannot be loaded" in caplog.text
    assert "its transactional ids are not listed" in caplog.text
