"""What a transactional producer repeats is answered as the first time, and whatever differs takes the long way."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from in_process import create_topic, run, running, until
from penstock.broker import transaction_memo
from penstock.broker.controller.topics import TopicRef
from penstock.broker.internal_topic import HomeState
from penstock.broker.transactions.metadata import LAST_CLIENT_EPOCH
from penstock.errors import ErrorCode, KafkaError
from penstock.net.server_connection import CloseConnection, Pending
from penstock.types import TopicPartition
from penstock.wire import api as apis
from penstock.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.wire.api.end_txn import EndTxnRequest
from penstock.wire.compile import codec, decode
from penstock.wire.header import append_request_header

ADD, END = 24, 26
ADD_VERSIONS, END_VERSIONS = range(4), range(6)
TIMEOUT_MS = 60_000


class Producer:
    """One transactional id on one connection; with a fresh one for every request nothing is ever remembered."""

    def __init__(self, broker, name, is_fresh=False):
        self.broker = broker
        self.name = name
        self.is_fresh = is_fresh
        self.connection = SimpleNamespace(memory=None)
        self.count = 0

    async def init(self):
        self.id, self.epoch = await self.broker.context.transactions.init_producer_id(self.name, TIMEOUT_MS, None)
        return self

    def add(self, version=0, partitions=(0,), topic="t"):
        topics = [AddPartitionsToTxnTopic(topic, list(partitions))]
        request = AddPartitionsToTxnRequest([], self.name, self.id, self.epoch, topics)
        return self.send(ADD, version, request)

    def added(self, version=0, partitions=(0,), topic="t"):
        """The error codes."""
        results = self.add(version, partitions, topic).results_by_topic_v3_and_below
        return [each.partition_error_code for each in results[0].results_by_partition]

    def end(self, version=1, is_commit=True, epoch=None, extra=b""):
        response = self.send_end(version, is_commit, epoch, extra)
        if version >= 5 and response.error_code == 0:
            self.epoch = response.producer_epoch
        return response

    def send_end(self, version=1, is_commit=True, epoch=None, extra=b""):
        used = self.epoch if epoch is None else epoch
        return self.send(END, version, EndTxnRequest(self.name, self.id, used, is_commit), extra)

    def send(self, key, version, request, extra=b""):
        if self.is_fresh:
            self.connection = SimpleNamespace(memory=None)
        self.count += 1
        compiled = codec(type(request), version)
        frame = bytearray()
        append_request_header(frame, key, version, self.count, "me", compiled.is_flexible)
        compiled.encode(request, frame, [])
        reply = self.broker.dispatcher.serve(self.connection, memoryview(frame + extra))
        if isinstance(reply, Pending):
            return reply
        length, correlation_id = struct.unpack_from(">ii", reply)
        assert length == len(reply) - 4
        assert correlation_id == self.count
        response = apis.load(key).response
        return decode(response, version, memoryview(reply)[9 if compiled.is_flexible else 8 :])

    @property
    def metadata(self):
        return self.broker.context.transactions.described(self.name).metadata


async def repeating(broker):
    """A producer whose requests are remembered."""
    producer = await Producer(broker, "p").init()
    for _ in range(2):
        assert producer.added() == [0]
        assert producer.end().error_code == 0
    return producer


def in_broker(directory, scenario, *settings):
    async def go():
        async with running(directory, *settings) as broker:
            await create_topic(broker, "t", 4)
            transactions = broker.context.transactions
            await transactions.topic.create()
            assert {home.state for home in transactions._homes.values()} == {HomeState.ACTIVE}
            await scenario(broker)

    run(go())


def only_memos(broker, monkeypatch):
    """From here on every request that is not remembered fails."""

    def refuse(*_):
        raise AssertionError("it took the long way")

    monkeypatch.setattr(broker.dispatcher, "_routes", {})
    monkeypatch.setattr(broker.dispatcher, "_make_route", refuse)


@pytest.mark.parametrize("version", ADD_VERSIONS)
def test_repeated_partitions_are_added_as_the_first_time(tmp_path, version, monkeypatch):
    async def scenario(broker):
        known, other = [await Producer(broker, name).init() for name in ("known", "other")]
        other.is_fresh = True
        for _ in range(4):
            assert known.add(version, (1, 3)) == other.add(version, (1, 3))
            expected = frozenset((TopicPartition("t", 1), TopicPartition("t", 3)))
            assert known.metadata.partitions == other.metadata.partitions == expected
            assert known.end().error_code == other.end().error_code == 0
            assert known.metadata.partitions == frozenset()
        only_memos(broker, monkeypatch)
        assert known.added(version, (1, 3)) == [0, 0]
        assert known.metadata.partitions == expected

    in_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", END_VERSIONS)
def test_a_repeated_end_is_answered_as_the_first_time(tmp_path, version, monkeypatch):
    async def scenario(broker):
        known, other = [await Producer(broker, name).init() for name in ("known", "other")]
        other.is_fresh = True
        for is_commit in (True, False, True, True, False):
            for each in (known, other):
                assert each.added() == [0]
            told, long_way = known.end(version, is_commit), other.end(version, is_commit)
            assert (told.error_code, told.producer_epoch) == (0, long_way.producer_epoch)
            assert told.producer_id == (known.id if version >= 5 else -1)
            assert known.metadata.state is other.metadata.state
            assert known.metadata.producer_epoch == known.epoch == other.epoch
            assert known.metadata.client_version == (2 if version >= 5 else 0)
        assert known.added() == [0]
        only_memos(broker, monkeypatch)
        assert known.end(version, True).error_code == 0
        assert known.metadata.state.label == "CompleteCommit"

    in_broker(tmp_path, scenario)


def test_a_producer_that_was_replaced_is_refused(tmp_path):
    async def scenario(broker):
        old = await repeating(broker)
        await Producer(broker, "p").init()
        assert old.added(version=0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert old.end(version=1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert old.metadata.state.label == "Empty"

    in_broker(tmp_path, scenario)


def test_the_epoch_of_an_end_is_that_of_the_request(tmp_path):
    async def scenario(broker):
        producer = await Producer(broker, "p").init()
        for _ in range(3):
            assert producer.added() == [0]
            assert producer.end(version=5).error_code == 0
        assert producer.added() == [0]
        assert producer.end(version=5, epoch=producer.epoch - 1).error_code == ErrorCode.PRODUCER_FENCED
        assert producer.metadata.state.label == "Ongoing"
        assert producer.end(version=5).error_code == 0

    in_broker(tmp_path, scenario)


def test_the_same_bytes_in_another_version_are_another_request(tmp_path):
    async def scenario(broker):
        producer = await Producer(broker, "p").init()
        for version in (4, 5, 4, 5):
            assert producer.added() == [0]
            assert producer.end(version).error_code == 0
            assert producer.metadata.client_version == (2 if version >= 5 else 0)

    in_broker(tmp_path, scenario)


def test_a_topic_that_is_gone_is_noticed(tmp_path):
    async def scenario(broker):
        producer = await repeating(broker)
        await broker.context.controller.delete_topics([TopicRef("t")])
        assert producer.added() == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert producer.metadata.state.label == "CompleteCommit"

    in_broker(tmp_path, scenario)


@pytest.mark.parametrize(("version", "extra"), [(1, b"\0\0\1"), (5, b"\0\0\1\0"), (5, b"\0")])
def test_an_end_with_bytes_after_it_is_not_remembered(tmp_path, version, extra):
    """What stands at the end would be taken for the epoch and the outcome."""

    async def scenario(broker):
        producer = await Producer(broker, "p").init()
        for _ in range(2):
            assert producer.added() == [0]
            assert producer.end(version, is_commit=False, extra=extra).error_code == 0
            assert producer.metadata.state.label == "CompleteAbort"
        assert not producer.connection.memory.transactions._ended

    in_broker(tmp_path, scenario)


def test_what_was_refused_is_not_remembered(tmp_path):
    async def scenario(broker):
        producer = await Producer(broker, "p").init()
        assert producer.end(version=1).error_code == ErrorCode.INVALID_TXN_STATE
        assert producer.added(partitions=(9,)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert producer.add(partitions=()).results_by_topic_v3_and_below[0].results_by_partition == []
        memos = producer.connection.memory.transactions
        assert not memos._added
        assert not memos._ended

    in_broker(tmp_path, scenario)


def test_a_connection_remembers_a_bounded_number(tmp_path, monkeypatch):
    async def scenario(broker):
        monkeypatch.setattr(transaction_memo, "MAX_MEMOS", 3)
        connection = SimpleNamespace(memory=None)
        for number in range(10):
            producer = await Producer(broker, f"p{number}").init()
            producer.connection = connection
            assert producer.added() == [0]
            assert producer.end().error_code == 0
            assert len(connection.memory.transactions._added) <= 3
            assert len(connection.memory.transactions._ended) <= 3
        monkeypatch.setattr(transaction_memo, "MAX_PARTITIONS", 3)
        broad = await Producer(broker, "broad").init()
        for partitions, is_remembered in (((0, 1, 2, 3), False), ((0, 1, 2), True)):
            assert broad.added(partitions=partitions) == [0] * len(partitions)
            assert bool(broad.connection.memory.transactions._added) == is_remembered
        long_one = await Producer(broker, "p" * 2000).init()
        long_one.connection = SimpleNamespace(memory=None)
        assert long_one.added() == [0]
        assert long_one.end().error_code == 0
        assert not long_one.connection.memory.transactions._added
        assert not long_one.connection.memory.transactions._ended

    in_broker(tmp_path, scenario)


def test_frames_that_are_cut_anywhere_are_no_memo(tmp_path):
    """Whatever is left of them is served as if nothing were remembered."""

    async def scenario(broker):
        producer = await repeating(broker)
        memos = producer.connection.memory.transactions
        frame = bytearray()
        append_request_header(frame, END, 1, 1, "me", False)
        codec(EndTxnRequest, 1).encode(EndTxnRequest("p", producer.id, producer.epoch, True), frame, [])
        assert memos.serve_end(broker.context, memoryview(frame), 1, 1) is not None
        for size in range(8, len(frame)):
            assert memos.serve_end(broker.context, memoryview(frame)[:size], 1, 1) is None
            assert memos.serve_end(broker.context, memoryview(frame)[:size], 5, 1) is None
        frame[-1] = 2
        assert memos.serve_end(broker.context, memoryview(frame), 1, 1) is None

    in_broker(tmp_path, scenario)


def test_where_the_disk_is_waited_for_nothing_is_remembered(tmp_path):
    async def scenario(broker):
        producer = await Producer(broker, "p").init()
        for _ in range(3):
            for send in (producer.add, producer.send_end):
                pending = send()
                assert isinstance(pending, Pending)
                await until(lambda pending=pending: pending.is_done)
            await until(lambda: producer.metadata.state.label == "CompleteCommit")
        assert producer.connection.memory is None

    in_broker(tmp_path, scenario, "penstock.durability=fsync")


def test_an_end_that_needs_another_producer_id_takes_the_long_way(tmp_path):
    async def scenario(broker):
        producer = await Producer(broker, "p").init()
        assert producer.added() == [0]
        assert producer.end(version=5).error_code == 0
        found = broker.context.transactions.described("p")
        found.metadata = found.metadata._replace(producer_epoch=LAST_CLIENT_EPOCH)
        producer.epoch = LAST_CLIENT_EPOCH
        assert producer.added() == [0]
        pending = producer.send_end(version=5)
        await until(lambda: pending.is_done)
        assert (found.metadata.state.label, found.metadata.producer_epoch) == ("CompleteCommit", 0)
        assert found.metadata.producer_id != producer.id

    in_broker(tmp_path, scenario)


def test_a_disk_that_is_full_is_told_as_always(tmp_path):
    async def scenario(broker):
        producer = await repeating(broker)
        partition = broker.context.transactions._home("p").log.partition
        partition.set_disk_full(True)
        assert producer.added() == [ErrorCode.NOT_COORDINATOR]
        partition.set_disk_full(False)
        assert producer.added() == [0]
        partition.set_disk_full(True)
        assert producer.end().error_code == ErrorCode.NOT_COORDINATOR
        assert producer.metadata.state.label == "Ongoing"
        partition.set_disk_full(False)
        assert producer.end().error_code == 0

    in_broker(tmp_path, scenario)


def test_a_last_record_that_fails_is_written_later(tmp_path, monkeypatch):
    """The end is decided and its marker written; then the disk fails for a moment."""

    async def scenario(broker):
        producer = await Producer(broker, "p").init()
        assert producer.added() == [0]
        log = broker.context.transactions._home("p").log
        original, written = log.append_at_once, []

        def append_at_once(pairs):
            written.append(pairs)
            if len(written) == 2:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
            original(pairs)

        monkeypatch.setattr(log, "append_at_once", append_at_once)
        assert producer.end().error_code == 0
        assert producer.metadata.state.label == "PrepareCommit"
        assert producer.added() == [ErrorCode.CONCURRENT_TRANSACTIONS]
        await until(lambda: producer.metadata.state.label == "CompleteCommit")
        assert len(written) == 3
        assert producer.added() == [0]

    in_broker(tmp_path, scenario)


def test_a_bug_is_counted_and_ends_the_connection(tmp_path, monkeypatch):
    async def scenario(broker):
        producer = await Producer(broker, "p").init()
        assert producer.added() == [0]
        monkeypatch.setattr(broker.context.transactions, "add_at_once", lambda *_: 1 / 0)
        with pytest.raises(CloseConnection, match="AddPartitionsToTxn failed"):
            producer.add()
        assert broker.context.metrics.unexpected_errors == 1

    in_broker(tmp_path, scenario)
