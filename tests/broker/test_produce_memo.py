"""A request that a connection repeats is answered as the first one was, and whatever differs takes the long way."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from types import SimpleNamespace

import pytest

from penstock.broker import produce_memo
from penstock.broker.broker import Broker
from penstock.broker.config import BrokerConfig
from penstock.broker.controller.topics import NewTopic, TopicRef
from penstock.broker.produce_memo import ProduceMemos
from penstock.errors import ErrorCode, MalformedError
from penstock.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from penstock.wire.batch_builder import build_batch
from penstock.wire.compile import codec, decode, encode
from penstock.wire.record import Record
from penstock.wire.records import Codec

VERSIONS = range(7, 14)


@contextlib.asynccontextmanager
async def broker_with_topic(directory, partitions=2):
    broker = Broker(BrokerConfig.load(None, {}, ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={directory}"]))
    await broker.start()
    try:
        await broker.context.controller.create_topics([NewTopic("t", partitions, 1)])
        yield broker
    finally:
        await broker.stop()


def batch(value=b"hello"):
    now = 1_700_000_000_000
    return bytes(build_batch([Record(0, now, None, value, ())]))


def request_frame(broker, version, records, partition=0, correlation_id=7, acks=-1, client_id=b"me", topic="t"):
    topic_id = broker.context.image.topics[topic].topic_id
    data = TopicProduceData(topic, topic_id, [PartitionProduceData(partition, records)])
    body = encode(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data]), version)
    head = struct.pack(">hhih", 0, version, correlation_id, len(client_id)) + client_id
    return bytearray(head + (b"\0" if version >= 9 else b"") + body)


def answer(broker, connection, version, frame):
    """(correlation id, partition's answer) as a client reads it."""
    reply = broker.dispatcher.serve(connection, memoryview(frame))
    length, correlation_id = struct.unpack_from(">ii", reply)
    assert length == len(reply) - 4
    start = 9 if codec(ProduceResponse, version).is_flexible else 8
    response = decode(ProduceResponse, version, memoryview(reply)[start:])
    return correlation_id, response.responses[0].partition_responses[0]


def connection():
    return SimpleNamespace(memory=None)


def in_broker(tmp_path, scenario, **options):
    async def run():
        async with broker_with_topic(tmp_path / "data", **options) as broker:
            result = scenario(broker)
            if asyncio.iscoroutine(result):
                await result

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_repeated_request_gets_the_same_answer_with_the_next_offset(tmp_path, version):
    def scenario(broker):
        known, fresh = connection(), connection()
        offsets = []
        for number in range(6):
            records = batch(b"x" * (number * 50))  # lengths of one and of two bytes
            id_, told = answer(broker, known, version, request_frame(broker, version, records, correlation_id=number))
            assert id_ == number
            offsets.append(told.base_offset)
            told.base_offset = 0
            _, long_way = answer(broker, connection(), version, request_frame(broker, version, records))
            long_way.base_offset = 0
            assert told == long_way
        assert isinstance(known.memory.produced, ProduceMemos)
        assert fresh.memory is None
        assert offsets == [0, 2, 4, 6, 8, 10]

    in_broker(tmp_path, scenario)


def test_the_memo_is_really_used(tmp_path):
    def scenario(broker):
        known = connection()
        frame = request_frame(broker, 9, batch())
        answer(broker, known, 9, bytearray(frame))
        broker.dispatcher._routes.clear()
        broker.dispatcher._make_route = None  # the long way is closed
        assert answer(broker, known, 9, frame)[1].base_offset == 1

    in_broker(tmp_path, scenario)


def test_another_partition_version_or_acks_is_not_mistaken(tmp_path):
    def scenario(broker):
        known = connection()
        for version in (9, 10, 3, 9):
            for partition in (0, 1, 0):
                for acks in (1, -1):
                    frame = request_frame(broker, version, batch(), partition, acks=acks)
                    assert answer(broker, known, version, frame)[1].index == partition
        ends = [broker.context.replicas.by_name["t"][index].log.log_end_offset for index in (0, 1)]
        assert ends == [16, 8]

    in_broker(tmp_path, scenario)


def test_zstd_is_refused_before_version_7_also_when_the_request_repeats(tmp_path):
    def scenario(broker):
        known = connection()
        assert answer(broker, known, 6, request_frame(broker, 6, batch()))[1].error_code == 0
        zstd = bytes(build_batch([Record(0, 1_700_000_000_000, None, b"x", ())], codec=Codec.ZSTD))
        _, told = answer(broker, known, 6, request_frame(broker, 6, zstd))
        assert told.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    in_broker(tmp_path, scenario)


def test_a_batch_that_is_refused_is_refused_with_its_reason(tmp_path):
    def scenario(broker):
        known = connection()
        answer(broker, known, 9, request_frame(broker, 9, batch()))
        broken = bytearray(batch())
        broken[-1] ^= 1
        _, told = answer(broker, known, 9, request_frame(broker, 9, bytes(broken)))
        assert told.error_code == ErrorCode.CORRUPT_MESSAGE
        assert told.base_offset == -1
        assert answer(broker, known, 9, request_frame(broker, 9, batch()))[1].base_offset == 1

    in_broker(tmp_path, scenario)


def test_a_deleted_topic_is_unknown_although_it_was_remembered(tmp_path):
    async def scenario(broker):
        known = connection()
        frame = request_frame(broker, 9, batch())
        answer(broker, known, 9, bytearray(frame))
        await broker.context.controller.delete_topics([TopicRef("t")])
        assert answer(broker, known, 9, frame)[1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    in_broker(tmp_path, scenario)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_request_cut_anywhere_is_malformed_although_it_begins_as_known(tmp_path, version):
    def scenario(broker):
        known = connection()
        answer(broker, known, version, request_frame(broker, version, batch()))
        frame = request_frame(broker, version, batch())
        for size in range(10, len(frame) - (3 if version >= 9 else 0)):
            with pytest.raises(MalformedError):
                broker.dispatcher.serve(known, memoryview(frame)[:size])
        assert broker.context.replicas.by_name["t"][0].log.log_end_offset == 1

    in_broker(tmp_path, scenario)


def test_acks_0_is_never_answered_from_memory(tmp_path):
    def scenario(broker):
        known = connection()
        for _ in range(3):
            frame = request_frame(broker, 9, batch(), acks=0)
            assert broker.dispatcher.serve(known, memoryview(frame)) is None
        assert known.memory is None

    in_broker(tmp_path, scenario)


def test_a_connection_remembers_a_bounded_number_of_partitions(tmp_path, monkeypatch):
    monkeypatch.setattr(produce_memo, "MAX_BATCHES", 50)

    def scenario(broker):
        known = connection()
        for partition in range(120):
            answer(broker, known, 9, request_frame(broker, 9, batch(), partition))
        assert 0 < len(known.memory.produced._memos) <= 50

    in_broker(tmp_path, scenario, partitions=120)


def test_topics_whose_names_differ_in_length_are_remembered_side_by_side(tmp_path):
    async def scenario(broker):
        await broker.context.controller.create_topics([NewTopic("a-longer-name", 1, 1)])
        known = connection()
        for _ in range(3):  # they alternate
            for topic in ("t", "a-longer-name"):
                answer(broker, known, 9, request_frame(broker, 9, batch(), topic=topic))
        assert len(known.memory.produced._memos) == 2
        broker.dispatcher._make_route = None
        broker.dispatcher._routes.clear()  # the long way is closed
        for topic in ("t", "a-longer-name"):
            assert answer(broker, known, 9, request_frame(broker, 9, batch(), topic=topic))[1].base_offset == 3

    in_broker(tmp_path, scenario)


def many_frame(broker, version, batches, correlation_id=7):
    """A request for partitions of two topics: {topic: {partition: batch}}."""
    topics = [
        TopicProduceData(
            name,
            broker.context.image.topics[name].topic_id,
            [PartitionProduceData(index, records) for index, records in partitions.items()],
        )
        for name, partitions in batches.items()
    ]
    body = encode(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), version)
    head = struct.pack(">hhih", 0, version, correlation_id, 2) + b"me"
    return bytearray(head + (b"\0" if version >= 9 else b"") + body)


def answers(broker, connection, version, frame):
    """The correlation id, and every partition's answer."""
    reply = broker.dispatcher.serve(connection, memoryview(frame))
    length, correlation_id = struct.unpack_from(">ii", reply)
    assert length == len(reply) - 4
    start = 9 if codec(ProduceResponse, version).is_flexible else 8
    response = decode(ProduceResponse, version, memoryview(reply)[start:])
    return correlation_id, [(topic.name, each) for topic in response.responses for each in topic.partition_responses]


def in_broker_with_two_topics(tmp_path, scenario):
    async def with_another(broker):
        await broker.context.controller.create_topics([NewTopic("other-topic", 2, 1)])
        result = scenario(broker)
        if asyncio.iscoroutine(result):
            await result

    in_broker(tmp_path, with_another, partitions=3)


def close_the_long_way(broker):
    broker.dispatcher._routes.clear()
    broker.dispatcher._make_route = None


@pytest.mark.parametrize("version", range(7, 14))
def test_a_request_for_several_partitions_is_remembered_when_it_comes_again(tmp_path, version):
    def scenario(broker):
        known = connection()
        for number in range(5):
            sizes = iter((number * 40, 3, number * 70, 500, 0))
            batches = {"t": {i: batch(b"x" * next(sizes)) for i in (2, 0, 1)}}
            batches["other-topic"] = {i: batch(b"y" * next(sizes)) for i in (1, 0)}
            if number == 3:
                close_the_long_way(broker)
            id_, told = answers(broker, known, version, many_frame(broker, version, batches, correlation_id=number))
            assert id_ == number
            assert [each.index for _, each in told] == [2, 0, 1, 1, 0]
            assert [(each.error_code, each.base_offset) for _, each in told] == [(0, number)] * 5
            if version < 13:
                assert [name for name, _ in told] == ["t"] * 3 + ["other-topic"] * 2

    in_broker_with_two_topics(tmp_path, scenario)


def test_one_refused_batch_among_several_fails_alone(tmp_path):
    def scenario(broker):
        known = connection()
        good = {"t": {0: batch(), 1: batch(), 2: batch()}, "other-topic": {0: batch()}}
        for _ in range(3):
            answers(broker, known, 9, many_frame(broker, 9, good))
        close_the_long_way(broker)
        broken = bytearray(batch())
        broken[-1] ^= 1
        mixed = {"t": {0: batch(), 1: bytes(broken), 2: batch()}, "other-topic": {0: batch()}}
        _, told = answers(broker, known, 9, many_frame(broker, 9, mixed))
        codes = [each.error_code for _, each in told]
        assert codes == [0, ErrorCode.CORRUPT_MESSAGE, 0, 0]
        assert told[1][1].error_message
        assert [each.base_offset for _, each in told] == [3, -1, 3, 3]
        assert [each.log_start_offset for _, each in told] == [0, -1, 0, 0]
        ends = [broker.context.replicas.by_name["t"][index].log.log_end_offset for index in range(3)]
        assert ends == [4, 3, 4]
        _, told = answers(broker, known, 9, many_frame(broker, 9, good))
        assert [(each.error_code, each.base_offset) for _, each in told] == [(0, 4), (0, 3), (0, 4), (0, 4)]

    in_broker_with_two_topics(tmp_path, scenario)


def test_a_topic_deleted_among_several_is_refused_and_the_others_go_on(tmp_path):
    async def scenario(broker):
        known = connection()
        batches = {"t": {0: batch()}, "other-topic": {0: batch()}}
        frames = [many_frame(broker, 9, batches) for _ in range(4)]
        for frame in frames[:3]:
            answers(broker, known, 9, frame)
        await broker.context.controller.delete_topics([TopicRef("other-topic")])
        _, told = answers(broker, known, 9, frames[3])
        assert told[0][1].base_offset == 3
        assert told[1][1].error_code != 0

    in_broker_with_two_topics(tmp_path, scenario)


@pytest.mark.parametrize("version", [7, 9, 13])
def test_a_request_for_several_that_is_cut_or_altered_anywhere_is_never_taken_for_a_known_one(tmp_path, version):
    def scenario(broker):
        known = connection()
        batches = {"t": {0: batch(), 1: batch()}}
        for _ in range(3):
            answers(broker, known, version, many_frame(broker, version, batches))
        frame = many_frame(broker, version, batches)
        for size in range(10, len(frame) - (3 if version >= 9 else 0)):
            with pytest.raises(MalformedError):
                broker.dispatcher.serve(known, memoryview(bytearray(frame[:size])))
        assert [broker.context.replicas.by_name["t"][i].log.log_end_offset for i in (0, 1)] == [3, 3]
        swapped = {"t": {1: batch(), 0: batch()}}
        _, told = answers(broker, known, version, many_frame(broker, version, swapped))
        assert [each.index for _, each in told] == [1, 0]

    in_broker_with_two_topics(tmp_path, scenario)


def test_topics_without_partitions_are_answered_and_not_remembered(tmp_path):
    def scenario(broker):
        topics = [TopicProduceData("unknown"), TopicProduceData("t", partition_data=[PartitionProduceData(0, batch())])]
        body = encode(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
        known = connection()
        for number in range(3):
            frame = bytearray(struct.pack(">hhih", 0, 9, 7, 2) + b"me\0" + body)
            _, told = answers(broker, known, 9, frame)
            assert [(name, each.base_offset) for name, each in told] == [("t", number)]
        assert not known.memory.produced._memos

    in_broker(tmp_path, scenario)
