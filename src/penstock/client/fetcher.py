"""Reads partitions from given offsets on: long polls to their leaders, whole batches out.

    with Fetcher(cluster, {TopicPartition("orders", 0): 0}) as fetcher:
        while True:
            for fetched in fetcher.poll():
                for record in records_of(fetched): ...

`poll` gives what came, as raw batches: `records_of` makes records of them, `wire.columns` columns. The reader owns its
offsets: `positions` says where each partition is read next, and `stop` leaves one out.

Rules:
- each leader has a connection of our own with one fetch under way; whoever answers first is heard first;
- a partition that delivered is asked for last the next time, so that a large one does not starve the others;
- a leader that moved is found again and the fetch repeated from the same offset; nothing is skipped or given twice;
  how long a lost one is looked for is `timeout_ms`, and may be infinite;
- an offset that the log does not have (any more) is OFFSET_OUT_OF_RANGE: what to do then is the reader's decision. What
  other partitions delivered in the same answer is given out first.

Records of transactions that are open or aborted are read like all others, unless `isolation_level` is READ_COMMITTED:
then the broker gives nothing from the first open transaction on, and `records_of` leaves out what is aborted. Control
records are never given out.

Fetch sessions are left out: a client that reads a few partitions gains nothing by them.
"""

from __future__ import annotations

import select
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import NamedTuple, Self, cast

from penstock.client.cluster import Cluster, network_error
from penstock.client.metadata import error_code
from penstock.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from penstock.errors import ErrorCode, KafkaError
from penstock.net.connection import BlockingConnection
from penstock.types import TopicPartition
from penstock.wire.api import fetch
from penstock.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from penstock.wire.record import Record, iterate_records
from penstock.wire.records import corrupt, is_crc_valid, iterate_headers

MAX_WAIT_MS = 500
NETWORK_SLACK_MS = 100
"""The broker's wait, and the answer's way back."""

MAX_BYTES = 16 * 1024 * 1024
"""Of one answer; a single batch may be larger and still comes whole."""

PARTITION_MAX_BYTES = 4 * 1024 * 1024
MAX_RECORDS_BYTES = 256 * 1024 * 1024
"""What a compressed batch may grow to."""


class Fetched(NamedTuple):
    """Batches of one partition. The first may begin before `offset`; what is before it was not asked for."""

    where: TopicPartition
    offset: int
    batches: memoryview
    high_watermark: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] = ()
    """First offset and producer id of aborted transactions, in order: they end with the producer's next marker."""


class Fetcher:
    """Reads some partitions at once."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        *,
        max_wait_ms: int = MAX_WAIT_MS,
        max_bytes: int = MAX_BYTES,
        partition_max_bytes: int = PARTITION_MAX_BYTES,
        timeout_ms: float | None = None,
        isolation_level: int = READ_UNCOMMITTED,
        allocate: Callable[[int], memoryview] | None = None,
    ) -> None:
        self.cluster = cluster
        self._allocate = allocate
        self._isolation_level = isolation_level
        self._timeout_ms = timeout_ms
        self._max_wait_ms = max_wait_ms
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._connections: dict[int, BlockingConnection] = {}
        self._asked: set[int] = set()
        self._failed: KafkaError | None = None
        self.end_offsets: dict[TopicPartition, int] = {}
        """Partition -> where it ended for this reader when its leader answered last."""
        self.positions = dict(positions)
        """Partition -> the offset that is read next."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._asked.clear()

    def stop(self, where: TopicPartition) -> None:
        """Read this partition no further."""
        self.positions.pop(where, None)

    def poll(self) -> list[Fetched]:
        """What has come, after `max_wait_ms` at the latest; nothing when there was nothing new."""
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed
        if not self.positions:
            return []
        return self.cluster.retry(self._poll, self._timeout_ms)

    def _poll(self, deadline: float) -> list[Fetched]:
        delayed: list[KafkaError] = []
        for leader, partitions in self._by_leader(deadline, delayed).items():
            self._maybe_send(leader, partitions, deadline, delayed)
        fetched: list[Fetched] = []
        for leader in self._answered():
            connection = self._connections[leader]
            self._asked.discard(leader)
            try:
                response = cast("FetchResponse", connection.receive(self.cluster.answer_deadline(deadline)).message)
            except OSError as error:
                delayed.append(network_error(connection, error))
            else:
                fetched += self._take(response, delayed)
        if fetched:
            return fetched
        failed, self._failed = self._failed, None
        if failed is not None or delayed:
            raise failed or delayed[0]
        return fetched

    def _by_leader(self, deadline: float, delayed: list[KafkaError]) -> dict[int, list[TopicPartition]]:
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for where in self.positions:
            try:
                by_leader[self.cluster.leader(where, deadline=deadline)].append(where)
            except KafkaError as error:
                if not error.retriable:
                    raise
                delayed.append(error)
        return by_leader

    def _maybe_send(
        self, leader: int, partitions: list[TopicPartition], deadline: float, delayed: list[KafkaError]
    ) -> None:
        """Ask the leader, unless it has not answered the last question yet."""
        connection = self._connections.get(leader)
        if connection is not None and connection.is_open and leader in self._asked:
            return
        try:
            if connection is None or not connection.is_open:
                connection = self._connections[leader] = self._open(leader, deadline)
            connection.send(fetch.API, self._request(partitions), self.cluster.answer_deadline(deadline))
        except KafkaError as error:
            if not error.retriable:
                raise
            delayed.append(error)
        except OSError as error:
            assert connection is not None, "it is a failed send: opening raises KafkaError"
            delayed.append(network_error(connection, error))
        else:
            self._asked.add(leader)

    def _open(self, leader: int, deadline: float) -> BlockingConnection:
        connection = self.cluster.open_connection(leader, deadline)
        if self._allocate is not None:
            connection.allocate = self._allocate
        return connection

    def _request(self, partitions: list[TopicPartition]) -> FetchRequest:
        topics: dict[str, FetchTopic] = {}
        for where in partitions:
            if where.topic not in topics:
                topic_id = self.cluster.topic(where.topic).topic_id
                topics[where.topic] = FetchTopic(topic=where.topic, topic_id=topic_id)
            asked = FetchPartition(
                partition=where.partition,
                fetch_offset=self.positions[where],
                partition_max_bytes=self._partition_max_bytes,
            )
            topics[where.topic].partitions.append(asked)
        return FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation_level,
            topics=list(topics.values()),
        )

    def _answered(self) -> list[int]:
        """The leaders whose answer has come, or begins to come within `max_wait_ms` and a little."""
        asked = {self._connections[leader]: leader for leader in self._asked}
        wait_seconds = (self._max_wait_ms + NETWORK_SLACK_MS) / 1000
        readable, _, _ = select.select(list(asked), [], [], wait_seconds)
        return [asked[connection] for connection in readable]

    def _take(self, response: FetchResponse, delayed: list[KafkaError]) -> list[Fetched]:
        """What an answer has for us; positions move behind it."""
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"The broker refused a fetch: {code.message}")
        names = {bytes(info.topic_id): name for name, info in self.cluster.metadata.topics.items()}
        fetched = []
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                where = TopicPartition(name, data.partition_index)
                if where in self.positions and self._is_usable(where, data, delayed):
                    fetched.append(self._advance(where, data))
        return fetched

    def _is_usable(self, where: TopicPartition, data: PartitionData, delayed: list[KafkaError]) -> bool:
        code = error_code(data.error_code)
        if code is ErrorCode.NONE:
            is_committed = self._isolation_level == READ_COMMITTED
            self.end_offsets[where] = data.last_stable_offset if is_committed else data.high_watermark
            return bool(data.records)
        error = KafkaError(code, f"Partition {where} at offset {self.positions[where]}: {code.message}")
        if error.retriable:
            delayed.append(error)
        else:  # raised after what the same answer has for others: their positions have moved behind it
            self._failed = error
        return False

    def _advance(self, where: TopicPartition, data: PartitionData) -> Fetched:
        offset = self.positions.pop(where)
        batches = memoryview(data.records)
        next_offset = offset
        for _, header in iterate_headers(batches):
            next_offset = header.next_offset
        if next_offset <= offset:
            raise corrupt(f"Partition {where} gave {len(batches)} bytes, but nothing from offset {offset} on.")
        self.positions[where] = next_offset  # now the last one in order
        aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
        return Fetched(where, offset, batches, data.high_watermark, data.log_start_offset, tuple(aborted))


def records_of(fetched: Fetched) -> Iterator[Record]:
    """The records from the asked offset on, but no aborted ones; CORRUPT_MESSAGE when a batch's checksum is wrong."""
    ahead, aborting = deque(fetched.aborted), set[int]()
    for position, header in iterate_headers(fetched.batches):
        while ahead and ahead[0][0] <= header.last_offset:
            aborting.add(ahead.popleft()[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        is_aborted = header.is_transactional and header.producer_id in aborting
        if header.is_control or is_aborted or header.last_offset < fetched.offset:
            continue
        if not is_crc_valid(fetched.batches, position, header):
            raise corrupt(f"Partition {fetched.where}: the batch at offset {header.base_offset} fails its checksum.")
        for record in iterate_records(fetched.batches, position, MAX_RECORDS_BYTES):
            if record.offset >= fetched.offset:
                yield record
