"""Batches under way while everything fails: each is written once, in order, however often it has to be sent."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace

import pyarrow as pa
import pytest

from penstock.client.arrow.rows import encodable
from penstock.client.arrow.sender import MAX_IN_FLIGHT, EncodedBatch, Sender
from penstock.errors import ErrorCode, KafkaError
from penstock.types import TopicPartition
from penstock.wire.api import produce
from penstock.wire.api.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from penstock.wire.columns import decode_columns, encode_columns
from penstock.wire.records import BatchHeader, increment_sequence, read_header

REMEMBERED = 5
TOO_LARGE_ROWS = 40
PASSING = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS]


class Log:
    """One partition of a broker that knows a producer's last five batches."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.next_sequence = 0
        self.last: deque[tuple[int, int, int]] = deque(maxlen=REMEMBERED)

    def append(self, header: BatchHeader, data: bytes) -> tuple[ErrorCode, int]:
        for sequence, count, offset in self.last:
            if (sequence, count) == (header.base_sequence, header.record_count):
                return ErrorCode.NONE, offset
        if header.base_sequence != self.next_sequence:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        if header.record_count > TOO_LARGE_ROWS:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        offset = len(self.values)
        values = decode_columns(data).values
        ends = memoryview(values.offsets).cast("B").cast("i")
        self.values += [bytes(values.data[ends[row] : ends[row + 1]]) for row in range(header.record_count)]
        self.last.append((header.base_sequence, header.record_count, offset))
        self.next_sequence = increment_sequence(self.next_sequence, header.record_count)
        return ErrorCode.NONE, offset


class World:
    """A cluster of two brokers, as much of it as a sender needs; leaders move and connections break by chance."""

    def __init__(self, seed: int, failures: float) -> None:
        self.chance = random.Random(seed)
        self.failures = failures
        self.logs: dict[TopicPartition, Log] = defaultdict(Log)
        self.leaders: dict[TopicPartition, int] = {}
        self.known: dict[TopicPartition, int] = {}
        self.most_under_way = 0

    def fails(self) -> bool:
        return self.chance.random() < self.failures

    def topic(self, name: str, **_: object) -> SimpleNamespace:
        return SimpleNamespace(topic_id=name.encode().ljust(16))

    def leader(self, where: TopicPartition, **_: object) -> int:
        return self.known.setdefault(where, self.leaders.setdefault(where, 0))

    def open_connection(self, leader: int, deadline: float) -> Connection:
        if self.fails():
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "refused")
        return Connection(self, leader)

    def deadline(self, timeout_ms: float) -> float:
        return 0.0

    def answer_deadline(self, deadline: float) -> float:
        return deadline

    def retry(self, attempt: Callable[[float], None], timeout_ms: float) -> None:
        for _ in range(500):
            try:
                return attempt(0.0)
            except KafkaError as error:
                if not error.retriable:
                    raise
                self.known.clear()
        raise AssertionError("it never ends")

    def answer(self, leader: int, where: TopicPartition, data: bytes) -> PartitionProduceResponse:
        current = self.leaders.setdefault(where, 0)
        if self.fails():
            self.leaders[where] = 1 - current
        if leader != current:
            return PartitionProduceResponse(where.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        if self.fails():
            return PartitionProduceResponse(where.partition, self.chance.choice(PASSING), -1)
        code, offset = self.logs[where].append(read_header(data), data)
        if code is ErrorCode.NONE and self.fails():
            code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return PartitionProduceResponse(where.partition, code, offset)


class Connection:
    host, port = "model", 1

    def __init__(self, world: World, leader: int) -> None:
        self.world, self.leader = world, leader
        self.is_open = True
        self.answers: deque[ProduceResponse] = deque()

    @property
    def has_answer(self) -> bool:
        return True

    def send(self, api: object, request: ProduceRequest, deadline: float, *, expects_answer: bool) -> None:
        if not self.is_open or self.world.fails():
            self.close()
            raise ConnectionResetError("broken while sending")
        topics = []
        for topic in request.topic_data:
            assert len({each.index for each in topic.partition_data}) == len(topic.partition_data)
            answers = [
                self.world.answer(self.leader, TopicPartition(topic.name, each.index), bytes(each.records.data))
                for each in topic.partition_data
            ]
            topics.append(TopicProduceResponse(name=topic.name, partition_responses=answers))
        self.answers.append(ProduceResponse(responses=topics))
        self.world.most_under_way = max(self.world.most_under_way, len(self.answers))

    def receive(self, deadline: float) -> SimpleNamespace:
        if not self.is_open or self.world.fails():
            self.close()
            raise ConnectionResetError("broken before the answer")
        return SimpleNamespace(message=self.answers.popleft())

    def close(self) -> None:
        self.is_open = False


def batches(where: TopicPartition, chance: random.Random, count: int) -> list[tuple[EncodedBatch, list[bytes]]]:
    made, sequence = [], 0
    for number in range(count):
        rows = [b"%s-%d-%d" % (str(where).encode(), number, row) for row in range(chance.choice([1, 3, 100]))]
        columns = encodable(pa.record_batch({"value": pa.array(rows, pa.binary())}), 0)
        (data,) = encode_columns(columns, producer_id=7, producer_epoch=0, base_sequence=sequence)
        made.append((EncodedBatch(where, data, len(rows)), rows))
        sequence += len(rows)
    return made


@pytest.mark.parametrize("seed", range(60))
def test_each_batch_is_written_once_and_in_order_whatever_fails(seed: int) -> None:
    world = World(seed, failures=random.Random(seed).choice([0.0, 0.02, 0.1]))
    sender = Sender(world, produce.API, acks=-1)  # type: ignore[arg-type]
    expected: dict[TopicPartition, list[bytes]] = defaultdict(list)
    queues = [deque(batches(TopicPartition("t", partition), world.chance, 30)) for partition in range(3)]
    while queues := [queue for queue in queues if queue]:
        batch, rows = world.chance.choice(queues).popleft()
        sender.add(batch)
        expected[batch.where] += rows
    sender.flush()
    for where, rows in expected.items():
        assert world.logs[where].values == rows
        written = sender.written[where]
        assert (written.row_count, written.base_offset, written.end_offset) == (len(rows), 0, len(rows))
    assert 1 <= world.most_under_way <= MAX_IN_FLIGHT


def test_a_gap_in_the_sequences_is_not_sent_for_ever() -> None:
    world = World(0, failures=0.0)
    sender = Sender(world, produce.API, acks=-1)  # type: ignore[arg-type]
    _, (second, _) = batches(TopicPartition("t", 0), world.chance, 2)
    sender.add(second)
    with pytest.raises(KafkaError) as caught:
        sender.flush()
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    with pytest.raises(KafkaError):
        sender.add(second)


def test_without_idempotence_one_request_is_under_way() -> None:
    world = World(3, failures=0.0)
    sender = Sender(world, produce.API, acks=1, max_in_flight=1)  # type: ignore[arg-type]
    for batch, _ in batches(TopicPartition("t", 0), world.chance, 20):
        sender.add(batch)
    sender.flush()
    assert world.most_under_way == 1
