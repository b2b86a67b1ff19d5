"""A transactional produce request and a coordinator that takes its time, says no, or is overtaken by an abort."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from in_process import (
    PRODUCE_KEY,
    Client,
    TestFiles,
    batch,
    connected,
    create_topic,
    partition,
    produce_request,
    run,
    running,
    until,
)
from penstock.broker.broker import Broker
from penstock.broker.transactional_produce import MAX_WAITING
from penstock.broker.transactions.verification import OnVerified
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.api.produce import ProduceRequest

PRODUCER = (7, 0)


class Coordinator:
    """Remembers what it is asked; the test answers, or `answer` does at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Collection[TopicPartition], OnVerified]] = []
        self.answers: list[ErrorCode] = []
        """For the next questions, at once; when there are none left the test answers."""

    def verify(
        self, _id: str, _producer: int, _epoch: int, partitions: Collection[TopicPartition], on_verified: OnVerified
    ) -> None:
        self._ask("verify", partitions, on_verified)

    def add(
        self, _id: str, _producer: int, _epoch: int, partitions: Collection[TopicPartition], on_verified: OnVerified
    ) -> None:
        self._ask("add", partitions, on_verified)

    def add_at_once(
        self, _id: str, _producer: int, _epoch: int, partitions: frozenset[TopicPartition], _version: int
    ) -> bool:
        return self._ask_at_once("add at once", partitions)

    def is_in_transaction(self, _id: str, _producer: int, _epoch: int, partitions: frozenset[TopicPartition]) -> bool:
        return self._ask_at_once("verify at once", partitions)

    def _ask_at_once(self, what: str, partitions: frozenset[TopicPartition]) -> bool:
        """Without an answer for it the request takes the long way."""
        if not self.answers:
            return False
        self.asked.append((what, partitions, lambda _: None))
        code = self.answers.pop(0)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        return True

    def _ask(self, what: str, partitions: Collection[TopicPartition], on_verified: OnVerified) -> None:
        self.asked.append((what, partitions, on_verified))
        if self.answers:
            self.answer(self.answers.pop(0))

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        _, partitions, on_verified = self.asked[-1]
        codes: Mapping[TopicPartition, ErrorCode] = dict.fromkeys(partitions, code) if code else {}
        on_verified(codes)


@asynccontextmanager
async def world(
    directory: Path, *settings: str, files: TestFiles | None = None
) -> AsyncIterator[tuple[Broker, Coordinator, Client]]:
    async with running(directory, *settings, files=files) as broker:
        await create_topic(broker, "t", 2)
        coordinator = Coordinator()
        theirs, broker.context.transactions = broker.context.transactions, coordinator  # type: ignore[assignment]
        async with connected(broker) as client:
            yield broker, coordinator, client
        broker.context.transactions = theirs


def send(client: Client, value: bytes, sequence: int, version: int = 11, index: int = 0, acks: int = -1) -> None:
    client.send(PRODUCE_KEY, version, transactional_request(sequence, index, value, acks))
    if acks == 0:
        client._sent.pop()


def transactional_request(sequence: int, index: int, value: bytes = b"x", acks: int = -1) -> ProduceRequest:
    records = batch(
        value, producer_id=PRODUCER[0], producer_epoch=PRODUCER[1], base_sequence=sequence, is_transactional=True
    )
    request = produce_request("t", records, index, acks)
    request.transactional_id = "id"
    return request


def remembered(broker: Broker) -> Mapping[bytes, Any]:
    (connection,) = broker.server.connections
    memos: Mapping[bytes, Any] = connection.memory.produced._memos
    return memos


def waiting(broker: Broker) -> Collection[Any]:
    (connection,) = broker.server.connections
    line: Collection[Any] = connection.memory.produced.waiting
    return line


async def received(client: Client) -> tuple[ErrorCode, int]:
    answer = (await client.receive()).responses[0].partition_responses[0]
    return ErrorCode(answer.error_code), answer.base_offset


def test_the_coordinator_is_asked_once_per_transaction_and_partition(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            coordinator.answers = [ErrorCode.NONE] * 3
            for version, expected in ((11, "verify"), (12, "add")):
                for sequence in range(3):
                    send(client, b"x", sequence, version, index=version - 11)
                    assert (await received(client))[0] is ErrorCode.NONE
                assert [each[0] for each in coordinator.asked] == [expected]
                coordinator.asked.clear()
            assert partition(broker, "t").log.last_stable_offset == 0

    run(scenario())


def test_requests_behind_one_that_waits_are_written_after_it_and_ask_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            for sequence in range(4):
                send(client, b"%d" % sequence, sequence, version=12)
            await until(lambda: coordinator.asked)
            await asyncio.sleep(0.02)
            assert partition(broker, "t").log.log_end_offset == 0
            coordinator.answer()
            assert [await received(client) for _ in range(4)] == [(ErrorCode.NONE, offset) for offset in range(4)]
            assert len(coordinator.asked) == 1

    run(scenario())


def test_an_abort_that_passes_the_answer_wins(tmp_path: Path) -> None:
    """B16: the batch was verified, then the transaction was ended: it must not begin another one."""

    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            send(client, b"late", 0)
            await until(lambda: coordinator.asked)
            partition(broker, "t").append_marker(*PRODUCER, 0, committed=False)
            coordinator.answer()
            assert await received(client) == (ErrorCode.INVALID_TXN_STATE, -1)
            log = partition(broker, "t").log
            assert (log.last_stable_offset, log.log_end_offset) == (1, 1)

    run(scenario())


@pytest.mark.parametrize(
    ("version", "said", "told"),
    [
        (10, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (11, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (11, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (11, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS),
        (12, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_what_a_producer_is_told(tmp_path: Path, version: int, said: ErrorCode, told: ErrorCode) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            coordinator.answers = [said]
            send(client, b"x", 0, version)
            assert await received(client) == (told, -1)
            assert partition(broker, "t").log.log_end_offset == 0
            coordinator.answers = [ErrorCode.NONE]
            send(client, b"x", 0, version)
            assert await received(client) == (ErrorCode.NONE, 0)

    run(scenario())


def test_version_12_waits_a_little_for_the_transaction_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        settings = ("add.partitions.to.txn.retry.backoff.ms=1", "add.partitions.to.txn.retry.backoff.max.ms=60000")
        async with world(tmp_path, *settings) as (_, coordinator, client):
            coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3 + [ErrorCode.NONE]
            send(client, b"x", 0, version=12)
            assert await received(client) == (ErrorCode.NONE, 0)
            assert len(coordinator.asked) == 4

    run(scenario())


def test_version_12_is_told_when_the_transaction_before_takes_too_long(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path, "add.partitions.to.txn.retry.backoff.max.ms=0") as (_, coordinator, client):
            coordinator.answers = [ErrorCode.CONCURRENT_TRANSACTIONS]
            send(client, b"x", 0, version=12)
            assert await received(client) == (ErrorCode.CONCURRENT_TRANSACTIONS, -1)

    run(scenario())


def test_verification_can_be_switched_off_for_old_producers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path, "transaction.partition.verification.enable=false") as (_, coordinator, client):
            send(client, b"x", 0)
            assert await received(client) == (ErrorCode.NONE, 0)
            assert not coordinator.asked

    run(scenario())


def test_a_client_that_goes_away_while_it_waits_leaves_its_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, _):
            async with connected(broker) as gone:
                send(gone, b"x", 0)
                send(gone, b"y", 1)
                await until(lambda: coordinator.asked)
            await until(lambda: len(broker.server.connections) == 1)
            coordinator.answer()
            await until(lambda: partition(broker, "t").log.log_end_offset == 2)
            assert len(coordinator.asked) == 1, "the second finds the transaction open"
            assert partition(broker, "t").log.producers.transactions.ongoing == {PRODUCER[0]: 0}
            assert broker.context.metrics.unexpected_errors == 0

    run(scenario())


def test_without_acks_nothing_is_answered_and_the_line_is_bounded(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            send(client, b"x", 0, acks=0)
            await until(lambda: coordinator.asked)
            coordinator.answer()
            await until(lambda: partition(broker, "t").log.log_end_offset == 1)
            for sequence in range(MAX_WAITING + 1):
                send(client, b"y", sequence, index=1, acks=0)
            assert await client.reader.read() == b""

    run(scenario())


def test_with_fsync_the_answer_comes_after_the_disk_and_readers_wait_for_the_marker(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = TestFiles()
        async with world(tmp_path, "penstock.durability=fsync", files=files) as (broker, coordinator, client):
            coordinator.answers = [ErrorCode.NONE]
            send(client, b"x", 0)
            assert await received(client) == (ErrorCode.NONE, 0)
            place = partition(broker, "t")
            assert place.append_marker(*PRODUCER, 0, committed=True) == 1
            assert (place.offsets().high_watermark, place.offsets().last_stable_offset) == (1, 0)
            done: list[Any] = []
            broker.context.group_commit.wait([place], done.append)
            await until(lambda: done)
            assert (place.offsets().high_watermark, place.offsets().last_stable_offset) == (2, 2)

    run(scenario())


@pytest.mark.parametrize(("version", "question"), [(11, "verify"), (12, "add")])
def test_a_remembered_transactional_request_is_verified_in_the_next_transaction(
    tmp_path: Path, version: int, question: str
) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            coordinator.answers = [ErrorCode.NONE] * 2
            for sequence in range(3):
                send(client, b"x", sequence, version)
                assert await received(client) == (ErrorCode.NONE, sequence)
            assert len(remembered(broker)) == 1
            assert partition(broker, "t").append_marker(*PRODUCER, 0, committed=True) == 3
            send(client, b"x", 3, version)
            assert await received(client) == (ErrorCode.NONE, 4)
            assert [what for what, _, _ in coordinator.asked] == [question, f"{question} at once"]

    run(scenario())


@pytest.mark.parametrize("version", [11, 12])
def test_a_remembered_transactional_request_that_is_refused_is_answered_the_long_way(
    tmp_path: Path, version: int
) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            coordinator.answers = [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE]
            send(client, b"x", 0, version)
            assert await received(client) == (ErrorCode.NONE, 0)
            partition(broker, "t").append_marker(*PRODUCER, 0, committed=False)
            send(client, b"x", 1, version)
            assert await received(client) == (ErrorCode.INVALID_TXN_STATE, -1)
            assert len(coordinator.asked) == 3
            assert partition(broker, "t").log.log_end_offset == 2

    run(scenario())


def test_a_remembered_transactional_request_does_not_overtake_one_that_is_being_verified(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            coordinator.answers = [ErrorCode.NONE]
            send(client, b"x", 0)
            assert await received(client) == (ErrorCode.NONE, 0)
            partition(broker, "t").append_marker(*PRODUCER, 0, committed=True)
            send(client, b"x", 1)
            await until(lambda: len(waiting(broker)) == 1)
            coordinator.answers = [ErrorCode.NONE]
            send(client, b"x", 2)
            await until(lambda: len(waiting(broker)) == 2)
            assert coordinator.answers, "the second is not asked for before its turn"
            coordinator.answer()
            assert [await received(client) for _ in range(2)] == [(ErrorCode.NONE, 2), (ErrorCode.NONE, 3)]

    run(scenario())


def test_a_batch_that_is_not_transactional_is_none_in_a_remembered_transactional_request_either(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            coordinator.answers = [ErrorCode.NONE] * 2
            send(client, b"x", 0)
            assert await received(client) == (ErrorCode.NONE, 0)
            partition(broker, "t").append_marker(*PRODUCER, 0, committed=True)
            plain = batch(b"x", producer_id=PRODUCER[0], producer_epoch=PRODUCER[1], base_sequence=1)
            request = produce_request("t", plain)
            request.transactional_id = "id"
            client.send(PRODUCE_KEY, 11, request)
            assert await received(client) == (ErrorCode.NONE, 2)
            assert len(remembered(broker)) == len(coordinator.asked) == 1
            assert not partition(broker, "t").log.is_unstable

    run(scenario())


def test_a_transactional_request_for_several_partitions_is_not_remembered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            coordinator.answers = [ErrorCode.NONE]
            for sequence in range(3):
                request = transactional_request(sequence, index=0)
                request.topic_data += transactional_request(sequence, index=1).topic_data
                client.send(PRODUCE_KEY, 11, request)
                assert await received(client) == (ErrorCode.NONE, sequence)
            assert not remembered(broker)

    run(scenario())


def test_a_remembered_request_takes_no_transactional_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path) as (broker, coordinator, client):
            coordinator.answers = [ErrorCode.NONE]
            send(client, b"x", 0, index=1)
            await received(client)
            for _ in range(2):
                await client.produce("t", batch(b"plain"), index=1)
            records = batch(
                b"y", producer_id=PRODUCER[0], producer_epoch=PRODUCER[1], base_sequence=1, is_transactional=True
            )
            answer = await client.produce("t", records, index=1)
            assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            assert partition(broker, "t", 1).log.log_end_offset == 3

    run(scenario())
